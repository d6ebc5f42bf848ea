"""Write something now and then, so that a server without calls, too, notices when no change is possible, and
every server soon that it is possible again.
"""

import asyncio
from time import monotonic

from keywright.background.loops import ORIGIN, read_clock
from keywright.core.command import Context
from keywright.core.errors import FateUnknown, KeywrightError, StoreConflict, StoreUnavailable
from keywright.db.watch import Outage
from keywright.engine.desk import Desk
from keywright.engine.health import ProbeWrite

#: The time between two writes, and between two looks whether changes have become impossible, in seconds.
_INTERVAL, _RETRY_INTERVAL = 60.0, 2.0


async def probe_writes(desk: Desk, outage: Outage) -> None:
    """Write until this is cancelled; ``outage`` is that of changes."""
    next_at = monotonic()
    while True:
        if outage.is_on or monotonic() >= next_at:
            next_at = monotonic() + _INTERVAL
            await _probe(desk, outage)
        await asyncio.sleep(_RETRY_INTERVAL)


async def _probe(desk: Desk, outage: Outage) -> None:
    try:
        await desk.execute(ProbeWrite(context=Context(read_clock(), ORIGIN)))
    except (StoreUnavailable, StoreConflict, FateUnknown) as fault:
        outage.note(fault)
    except KeywrightError:
        # The server is busy, or about to stop.
        return
    else:
        outage.end()
