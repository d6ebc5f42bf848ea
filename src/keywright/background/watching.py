"""What a server without calls must notice, too: that no change is possible, or possible again, by writing
now and then; and settings that were changed in the pages, by this server or another one.
"""

import asyncio
from contextlib import suppress
from time import monotonic

from keywright.background.loops import ORIGIN, Waits, read_clock
from keywright.config import Settings
from keywright.config.stored import apply
from keywright.core.command import Context
from keywright.core.errors import FateUnknown, KeywrightError, ShuttingDown, StoreConflict, StoreUnavailable
from keywright.db.watch import Outage
from keywright.engine.desk import Desk
from keywright.engine.health import ProbeWrite
from keywright.maintenance.tasks import ListSettings

#: The time between two writes, and between two in an outage, in seconds.
_INTERVAL, _RETRY_INTERVAL = 60.0, 2.0


async def probe_writes(desk: Desk, outage: Outage) -> None:
    """Write until this is cancelled; ``outage`` is that of changes."""
    next_at = 0.0
    while True:
        if outage.is_on or monotonic() >= next_at:
            next_at = monotonic() + _INTERVAL
            # Otherwise, the server is busy, or about to stop.
            with suppress(KeywrightError):
                await probe(desk, outage)
        await asyncio.sleep(_RETRY_INTERVAL)


async def probe(desk: Desk, outage: Outage) -> None:
    """Write once, and note what came of it."""
    try:
        await desk.execute(ProbeWrite(context=Context(read_clock(), ORIGIN)))
        outage.end()
    except (StoreUnavailable, StoreConflict, FateUnknown) as fault:
        outage.note(fault)


#: The time between two looks, in seconds.
_LOOK_INTERVAL = 2.0


async def watch_settings(desk: Desk, settings: Settings) -> None:
    """Look again and again, until this is cancelled."""
    waits = Waits("changes of settings have to wait")
    while True:
        await asyncio.sleep(_LOOK_INTERVAL)
        try:
            apply(settings, await desk.query(ListSettings()))
            waits.reset()
        except ShuttingDown:
            return
        except Exception as problem:
            waits.log(problem)
