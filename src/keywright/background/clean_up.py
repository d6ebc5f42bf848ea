"""Delete expired records every hour: idempotency records, sign-ins, events, jobs and others."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from keywright.background.address_clean_up import Ask, Change
from keywright.background.loops import ORIGIN, IsClockRight, read_clock
from keywright.core.command import Command, Context
from keywright.core.errors import KeywrightError, Unavailable
from keywright.delivery.mail.model import PurgeMails
from keywright.delivery.webhooks import rules
from keywright.delivery.webhooks.commands import PurgeDeliveries
from keywright.engine.desk import Desk
from keywright.engine.idempotency import PurgeIdempotencyRecords
from keywright.jobs import store as job_store
from keywright.jobs.model import PurgeJobFile, PurgeJobs
from keywright.maintenance.old_events import PurgeResult
from keywright.maintenance.tasks import PurgeDeletedLicenses, PurgeEvents, PurgeUsage
from keywright.provisioning.portal.model import PurgeSignIns
from keywright.provisioning.releases.notices import PurgeRecipients
from keywright.provisioning.shops.commands import PurgeShopEvents
from keywright.search.statistics import CountDevices, PurgeRefusals

#: How long responses to calls with an idempotency key are kept.
ANSWERS_KEPT = timedelta(hours=48)
#: How long refused calls are kept.
REFUSALS_KEPT = timedelta(days=30)
_INTERVAL = timedelta(hours=1)
#: The pause after a run that failed because the database was busy, in seconds, and how many such runs in a
#: row are normal.
_PAUSE_WHEN_BUSY, _MAX_BUSY = 60.0, 4
#: The pause while the clock is not trusted, in seconds.
_PAUSE_IN_DOUBT = 60.0
#: The pause between two steps, in seconds, which leaves the database to calls.
_PAUSE = 0.01
#: A larger change of the clock counts as a jump.
_MAX_CLOCK_CHANGE = timedelta(minutes=30)

log = logging.getLogger(__name__)


class KeptDays(NamedTuple):
    """Retention times in days: the settings of the same names."""

    keep_events_days: int
    keep_deleted_days: int
    keep_mails_days: int
    keep_shop_events_days: int
    keep_usage_days: int
    keep_notices_days: int


async def clean_up(desk: Desk, find_days: Callable[[], KeptDays], is_clock_right: IsClockRight) -> None:
    """Delete expired records every hour, until this is cancelled. The retention times are settings.

    The age of a record depends on the clock, and clocks jump. While the clock is not trusted, nothing is
    deleted; nor for ``ANSWERS_KEPT`` (by the monotonic clock) after a jump, or what looks like one.
    """
    resumes_at, offset, turns = 0.0, _clock_offset(datetime.now(UTC)), _Turns()
    while True:
        now, pause = read_clock(), _INTERVAL.total_seconds()
        if abs(_clock_offset(now) - offset) > _MAX_CLOCK_CHANGE:
            log.warning("the clock has jumped; answers and events are kept for another two days")
            resumes_at, offset = time.monotonic() + ANSWERS_KEPT.total_seconds(), _clock_offset(now)
        if not is_clock_right():
            pause = _PAUSE_IN_DOUBT
        elif time.monotonic() >= resumes_at:
            try:
                if not await _delete_old(desk, now, find_days()):
                    resumes_at = time.monotonic() + ANSWERS_KEPT.total_seconds()
            except KeywrightError as fault:
                pause = turns.pause_after(fault)
            else:
                turns.reset()
        await asyncio.sleep(pause)


def _clock_offset(now: datetime) -> timedelta:
    """Return the difference between the clock and the monotonic clock, which changes when the clock jumps."""
    return now - datetime.fromtimestamp(0, UTC) - timedelta(seconds=time.monotonic())


async def _delete_old(desk: Desk, now: datetime, days: KeptDays) -> bool:
    """Delete expired records. Return False if the clock looks wrong. Raises the desk's faults."""
    purge = PurgeIdempotencyRecords(context=Context(now, ORIGIN), before=now - ANSWERS_KEPT)
    while deleted := await desk.execute(purge):
        await asyncio.sleep(0)
    context = Context(now, ORIGIN)
    await desk.execute(PurgeSignIns(context=context, before=now))
    for one in (
        PurgeDeletedLicenses(context=context, before=now - timedelta(days=days.keep_deleted_days)),
        PurgeMails(context=context, keep_days=days.keep_mails_days),
        PurgeShopEvents(context=context, before=now - timedelta(days=days.keep_shop_events_days)),
        PurgeRefusals(context=context, before=now - REFUSALS_KEPT),
        PurgeDeliveries(context=context, before=now - rules.KEPT),
        CountDevices(context=context),
        PurgeUsage(context=context, before=now - timedelta(days=days.keep_usage_days)),
        PurgeRecipients(context=context, before=now - timedelta(days=days.keep_notices_days)),
    ):
        while await desk.execute(one):
            await asyncio.sleep(_PAUSE)
    return await _delete_events(desk, now, days.keep_events_days) and deleted is not None


async def _delete_events(desk: Desk, now: datetime, keep_days: int) -> bool:
    """Delete events that are too old, and surplus events of licenses that have too many. Return False if the
    clock looks wrong.
    """
    before = now - timedelta(days=keep_days) if keep_days else None
    while True:
        step: PurgeResult | None = await desk.execute(
            PurgeEvents(context=Context(now, ORIGIN), before=before)
        )
        if step is None:
            return False
        for license_id in step.crowded:
            purge = PurgeEvents(context=Context(now, ORIGIN), license_id=license_id)
            while not (await desk.execute(purge)).is_last:
                await asyncio.sleep(_PAUSE)
        if step.is_last:
            return True
        await asyncio.sleep(_PAUSE)


class _Turns:
    """Counts consecutive runs that failed because the database was busy. Calls have priority, so such a
    failure is worth a warning only if it repeats.
    """

    def __init__(self) -> None:
        self._busy_turns = 0

    def pause_after(self, fault: KeywrightError) -> float:
        """Log the fault of a run, and return the pause after it, in seconds."""
        reason = str(fault) or fault.fill(fault.sentence)
        if not isinstance(fault, Unavailable):
            log.warning("old answers and events could not be deleted: %s", reason)
            return _INTERVAL.total_seconds()
        self._busy_turns += 1
        is_unusual = self._busy_turns > _MAX_BUSY
        log.log(
            logging.WARNING if is_unusual else logging.INFO,
            "old answers and events could not be deleted (turn %d in a row): %s",
            self._busy_turns,
            reason,
        )
        return _INTERVAL.total_seconds() if is_unusual else _PAUSE_WHEN_BUSY

    def reset(self) -> None:
        """Start counting anew after a successful run."""
        self._busy_turns = 0


#: How long the files of jobs are kept after the job's end.
FILES_KEPT = timedelta(hours=24)
#: How long license files are kept: mails that wait need them, too.
LICENSE_FILES_KEPT = timedelta(days=14)
#: How long jobs are kept after their end.
JOBS_KEPT = timedelta(days=90)
#: The pause between two steps, in seconds, which leaves the database to calls.
_PAUSE_OF_JOBS = 0.001


async def delete_old_jobs(ask: Ask, change: Change) -> None:
    """Delete expired files and jobs, in small steps."""
    before, before_mailed = read_clock() - FILES_KEPT, read_clock() - LICENSE_FILES_KEPT
    find = partial(job_store.find_job_with_old_file, before=before, before_mailed=before_mailed)
    while (job_id := await ask(find)) is not None:
        await _repeat(change, PurgeJobFile(context=Context(read_clock(), ORIGIN), job_id=job_id))
        # A replica may need a moment to apply the change.
        await asyncio.sleep(_PAUSE_OF_JOBS)
    before = read_clock() - JOBS_KEPT
    if await ask(partial(job_store.has_old_jobs, before=before)):
        await _repeat(change, PurgeJobs(context=Context(read_clock(), ORIGIN), before=before))


async def _repeat(change: Change, command: Command) -> None:
    """Execute the command until nothing is left to do."""
    while await change(command):
        await asyncio.sleep(_PAUSE_OF_JOBS)
