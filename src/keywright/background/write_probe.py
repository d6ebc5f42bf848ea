"""Write something now and then, so that a server without calls notices, too, when no change is possible, and
each one soon when it is possible again.
"""

import asyncio
from contextlib import suppress
from time import monotonic

from keywright.background.loops import ORIGIN, read_clock
from keywright.core.command import Context
from keywright.core.errors import FateUnknown, KeywrightError, StoreConflict, StoreUnavailable
from keywright.db.watch import Outage
from keywright.engine.desk import Desk
from keywright.engine.health import ProbeWrite

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
