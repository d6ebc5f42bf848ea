"""Delete the files of jobs, and the jobs themselves, some time after their end."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

from keywright.background.address_clean_up import Ask
from keywright.background.loops import ORIGIN, read_clock
from keywright.core.command import Command, Context
from keywright.jobs import store as job_store
from keywright.jobs.commands import PurgeJobFile, PurgeJobs

#: How long files and jobs are kept after the end of the job.
FILES_KEPT = timedelta(hours=24)
JOBS_KEPT = timedelta(days=90)
#: The pause between two steps, in seconds, in which calls are answered.
_PAUSE = 0.001


class JobCleanUp:
    """Deletes old files and jobs in small steps."""

    def __init__(self, ask: Ask, change: Callable[[Command], Awaitable[Any]]) -> None:
        self._ask = ask
        self._change = change

    async def delete_old(self) -> None:
        """Delete all that is old."""
        await self._delete_files()
        await self._delete_jobs()

    async def _delete_files(self) -> None:
        before = read_clock() - FILES_KEPT
        while (
            job_id := await self._ask(partial(job_store.find_job_with_old_file, before=before))
        ) is not None:
            await self._repeat(PurgeJobFile(context=Context(read_clock(), ORIGIN), job_id=job_id))
            # A replica may need a moment until it has the change, too.
            await asyncio.sleep(_PAUSE)

    async def _delete_jobs(self) -> None:
        before = read_clock() - JOBS_KEPT
        if await self._ask(partial(job_store.has_old_jobs, before=before)):
            await self._repeat(PurgeJobs(context=Context(read_clock(), ORIGIN), before=before))

    async def _repeat(self, command: Command) -> None:
        """Execute the command until it has nothing left to do."""
        while await self._change(command):
            await asyncio.sleep(_PAUSE)
