"""Fetch the subscriptions of shops every day, and note those whose licenses differ from what is paid."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from functools import partial

from keywright.background.loops import ORIGIN, IsClockRight, read_clock
from keywright.core.command import Context
from keywright.core.errors import KeywrightError
from keywright.engine.desk import Desk
from keywright.provisioning.shops import commands as shop_commands
from keywright.provisioning.shops.model import Connection, OpenedConnection
from keywright.provisioning.shops.reconciling import find_missing_topics, list_running, note

#: The time until a shop is due again; and the time between two checks whether one is due, in seconds.
_EVERY, _CHECK_INTERVAL = timedelta(hours=24), 600.0

log = logging.getLogger(__name__)


async def look_at_shops(desk: Desk, is_clock_right: IsClockRight) -> None:
    """Check the shop of each connection with an API key whenever it is due, until this is cancelled. Of
    several servers, only one does it.
    """
    while True:
        if is_clock_right():
            with suppress(KeywrightError):
                for one in await desk.query(shop_commands.ListConnections()):
                    await look_when_due(desk, one)
        await asyncio.sleep(_CHECK_INTERVAL)


async def look_when_due(desk: Desk, connection: Connection) -> bool:
    """Check a shop if it is due; return whether it was. A shop that does not answer is checked again after 24
    hours.
    """
    now = read_clock()
    context = Context(now, ORIGIN)
    claim = shop_commands.ClaimLook(context=context, connection_id=connection.id, before=now - _EVERY)
    if not connection.has_api_key or not await desk.execute(claim):
        return False
    opened = await desk.query(shop_commands.OpenConnection(connection_id=connection.id))
    try:
        await _look(desk, opened, context)
    except KeywrightError as problem:
        log.warning("the shop of connection %d was not asked what runs: %s", connection.id, problem)
    return True


async def _look(desk: Desk, opened: OpenedConnection, context: Context) -> None:
    loop, number = asyncio.get_running_loop(), opened.connection.id
    missing = await loop.run_in_executor(None, partial(find_missing_topics, opened))
    if missing is not None:
        await desk.execute(shop_commands.SaveTopics(context=context, connection_id=number, missing=missing))
    for event in await loop.run_in_executor(None, lambda: list(list_running(opened))):
        difference = await desk.query(shop_commands.FindDifference(connection_id=number, event=event))
        if difference is not None:
            await desk.execute(note(opened, event, context, difference))
