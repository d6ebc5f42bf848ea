"""Forget what is old, now and then."""

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta

from keywright.core.command import Origin
from keywright.core.errors import KeywrightError
from keywright.engine.desk import Desk
from keywright.engine.idempotency import PurgeIdempotencyRecords
from keywright.maintenance.commands import PurgeEvents
from keywright.maintenance.retention import PurgeResult

#: How long the answers to calls with an idempotency key are kept, and how often old ones go.
ANSWERS_KEPT = timedelta(hours=48)
_FORGET_EVERY = timedelta(hours=1)
#: How long others come in between two steps, in seconds.
_PAUSE = 0.01
_ORIGIN = Origin("keywright", "", "")
#: By how much the clock may be changed without being distrusted.
_SMALL_CHANGE = timedelta(minutes=30)

log = logging.getLogger(__name__)


async def forget_what_is_old(desk: Desk, keep_events_days: int) -> None:
    """Now and then. How old an answer or an event is, is judged by the clock, and clocks jump: when this one
    did, or when it seems so, everything is kept for as long as answers have to be, by a clock that does not.
    """
    until, began = 0.0, _since_start(datetime.now(UTC))
    while True:
        now = datetime.now(UTC).replace(microsecond=0)
        if abs(_since_start(now) - began) > _SMALL_CHANGE:
            log.warning("the clock has jumped; answers and events are kept for another two days")
            until, began = time.monotonic() + ANSWERS_KEPT.total_seconds(), _since_start(now)
        if time.monotonic() >= until and not await _forget_until(desk, now, keep_events_days):
            until = time.monotonic() + ANSWERS_KEPT.total_seconds()
        await asyncio.sleep(_FORGET_EVERY.total_seconds())


def _since_start(now: datetime) -> timedelta:
    """What the clock shows when the one that does not jump shows nothing."""
    return now - datetime.fromtimestamp(0, UTC) - timedelta(seconds=time.monotonic())


async def _forget_until(desk: Desk, now: datetime, keep_events_days: int) -> bool:
    """Whether what is old now was forgotten; or is to be, when the database is there again."""
    purge_idempotency_records = PurgeIdempotencyRecords(now=now, origin=_ORIGIN, before=now - ANSWERS_KEPT)
    try:
        while forgotten := await desk.execute(purge_idempotency_records):
            # Others come in between.
            await asyncio.sleep(0)
        return await _forget_events(desk, now, keep_events_days) and forgotten is not None
    except KeywrightError as fault:
        log.warning("old answers and events could not be forgotten: %s", fault)
        return True


async def _forget_events(desk: Desk, now: datetime, keep_days: int) -> bool:
    """Whether the events that are old, or too many, were forgotten."""
    before = now - timedelta(days=keep_days) if keep_days else None
    while True:
        step: PurgeResult | None = await desk.execute(PurgeEvents(now=now, origin=_ORIGIN, before=before))
        if step is None:
            return False
        for license_id in step.crowded:
            forget = PurgeEvents(now=now, origin=_ORIGIN, license_id=license_id)
            while not (await desk.execute(forget)).is_last:
                await asyncio.sleep(_PAUSE)
        if step.is_last:
            return True
        await asyncio.sleep(_PAUSE)
