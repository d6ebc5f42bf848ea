"""Checks that do not depend on calls: periodic writes detect whether changes are possible; polling detects
settings that were changed in the pages of this server or another one.
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

#: The time between two writes, and the time between two during an outage, in seconds.
_INTERVAL, _RETRY_INTERVAL = 60.0, 2.0


async def probe_writes(desk: Desk, outage: Outage) -> None:
    """Write at intervals until this is cancelled; ``outage`` records outages of writing."""
    next_at = 0.0
    while True:
        if outage.is_on or monotonic() >= next_at:
            next_at = monotonic() + _INTERVAL
            # Other errors: the server is busy or is stopping.
            with suppress(KeywrightError):
                await probe(desk, outage)
        await asyncio.sleep(_RETRY_INTERVAL)


async def probe(desk: Desk, outage: Outage) -> None:
    """Write once, and note the result in ``outage``."""
    try:
        await desk.execute(ProbeWrite(context=Context(read_clock(), ORIGIN)))
        outage.end()
    except (StoreUnavailable, StoreConflict, FateUnknown) as fault:
        outage.note(fault)


#: The polling interval of the settings, in seconds.
_LOOK_INTERVAL = 2.0


async def watch_settings(desk: Desk, settings: Settings) -> None:
    """Poll for changed settings, and apply them, until this is cancelled."""
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
