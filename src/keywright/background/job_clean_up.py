"""Delete the files of jobs, and the jobs themselves, some time after their end."""

import asyncio
from datetime import timedelta
from functools import partial

from keywright.background.address_clean_up import Ask, Change
from keywright.background.loops import ORIGIN, read_clock
from keywright.core.command import Command, Context
from keywright.jobs import store as job_store
from keywright.jobs.commands import PurgeJobFile, PurgeJobs

#: How long files and jobs are kept after the end of the job.
FILES_KEPT = timedelta(hours=24)
JOBS_KEPT = timedelta(days=90)
#: The pause between two steps, in seconds, in which calls are answered.
_PAUSE = 0.001


async def delete_old_jobs(ask: Ask, change: Change) -> None:
    """Delete old files and jobs in small steps."""
    before = read_clock() - FILES_KEPT
    while (job_id := await ask(partial(job_store.find_job_with_old_file, before=before))) is not None:
        await _repeat(change, PurgeJobFile(context=Context(read_clock(), ORIGIN), job_id=job_id))
        # A replica may need a moment until it has the change, too.
        await asyncio.sleep(_PAUSE)
    before = read_clock() - JOBS_KEPT
    if await ask(partial(job_store.has_old_jobs, before=before)):
        await _repeat(change, PurgeJobs(context=Context(read_clock(), ORIGIN), before=before))


async def _repeat(change: Change, command: Command) -> None:
    """Execute the command until it has nothing left to do."""
    while await change(command):
        await asyncio.sleep(_PAUSE)
