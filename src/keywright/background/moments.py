"""Make the events of licenses that time causes: a license expires soon, or has expired; a period of a meter
has ended.
"""

import asyncio
import logging
from time import monotonic

from msgspec.structs import replace

from keywright.background.loops import ORIGIN, IsClockRight, Waits, read_clock
from keywright.config import Settings
from keywright.core.command import Context
from keywright.core.errors import ShuttingDown
from keywright.engine.desk import Desk
from keywright.licensing.moments import FindMoments, PassMoments, Place
from keywright.licensing.usage.model import ClosePeriods, FindDuePeriods

#: The polling interval, the pause between two steps, and the interval at which licenses are checked again
#: because their expiry may have changed, in seconds.
_INTERVAL, _PAUSE, _LOOK_AGAIN_INTERVAL = 5.0, 0.05, 3600.0

log = logging.getLogger(__name__)


async def pass_moments(desk: Desk, settings: Settings, is_clock_right: IsClockRight) -> None:
    """Poll for moments that have come, until this is cancelled."""
    looks_again_at, waits = 0.0, Waits("expiries have to wait")
    while True:
        now = read_clock()
        step = PassMoments(
            context=Context(now, ORIGIN),
            days=settings.expiry_notice_days,
            notifies_customers=settings.expiry_mails,
        )
        try:
            if is_clock_right():
                await _pass(desk, step)
                await _close_periods(desk, step.context)
                if monotonic() >= looks_again_at:
                    await _look_again(desk, step)
                    looks_again_at = monotonic() + _LOOK_AGAIN_INTERVAL
            waits.reset()
        except ShuttingDown:
            return
        except Exception as problem:
            waits.log(problem)
        await asyncio.sleep(_INTERVAL)


async def _pass(desk: Desk, step: PassMoments) -> None:
    """Make the events of the moments that have come."""
    if await desk.query(FindMoments(now=step.context.now, days=step.days)):
        while await desk.execute(step) is not None:
            await asyncio.sleep(_PAUSE)


async def _close_periods(desk: Desk, context: Context) -> None:
    """Close the periods of meters that ended long enough ago."""
    while due := await desk.query(FindDuePeriods(now=context.now)):
        await desk.execute(ClosePeriods(context=context, license_ids=due))
        await asyncio.sleep(_PAUSE)


async def _look_again(desk: Desk, step: PassMoments) -> None:
    """Check all licenses again that have expired lately or will expire soon."""
    after: Place | None = Place(0, 0)
    while after is not None:
        after = await desk.execute(replace(step, after=after))
        await asyncio.sleep(_PAUSE)
