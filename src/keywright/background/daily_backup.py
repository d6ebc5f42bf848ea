"""Back up the database every day, and delete the oldest of these backups."""

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from keywright.background.loops import ORIGIN, IsClockRight, read_clock
from keywright.config import Settings
from keywright.config.sources import child_environment
from keywright.core.command import Context
from keywright.core.errors import KeywrightError
from keywright.db import database_path
from keywright.engine.desk import Desk
from keywright.events.model import RecordEvent
from keywright.maintenance.backup.manifest import Backups
from keywright.maintenance.tasks import PROGRAM, Task, TaskRunner, backup_event

#: The time between two checks whether a backup is due, and the pause before a retry after a failure, in
#: seconds.
_CHECK_INTERVAL, _RETRY_INTERVAL = 20.0, 600.0

log = logging.getLogger(__name__)


async def back_up_daily(desk: Desk, settings: Settings, is_clock_right: IsClockRight) -> None:
    """Make a backup whenever one is due, until this is cancelled; none while the setting is empty.

    A backup that was missed because no server ran is made once a server runs again. Of several server
    processes that share a data directory, only one makes it.
    """
    backups = Backups(settings.data_dir / "backups", database_path(settings.database_url_in_force))
    while True:
        while settings.backup_daily_at is None or not is_clock_right():
            await asyncio.sleep(_CHECK_INTERVAL)
        daily_at = time.fromisoformat(settings.backup_daily_at)
        path, pause = backups.path_of_daily(find_due_time(read_clock(), daily_at)), _CHECK_INTERVAL
        if not path.exists() and await _make(path, settings, desk):
            pause = _CHECK_INTERVAL if path.exists() else _RETRY_INTERVAL
        for expired in backups.find_expired(settings.backup_keep):
            expired.unlink(missing_ok=True)
        await asyncio.sleep(pause)


def find_due_time(now: datetime, daily_at: time) -> datetime:
    """Return the last time at which a backup was due."""
    today = datetime.combine(now.date(), daily_at, UTC)
    return today if now >= today else today - timedelta(days=1)


async def _make(path: Path, settings: Settings, desk: Desk) -> bool:
    """Make a backup and record an event. Return False if another task is running."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Task] = loop.create_future()

    def finish(task: Task) -> None:
        # The loop is closed if the server has stopped.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set_result, task)

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        runner, command = TaskRunner(settings.data_dir / "tasks"), (*PROGRAM, "backup", str(path))
        if not runner.start("backup", command, child_environment(settings), finish):
            return False
        name, details = backup_event(await ended, path)
    except OSError as problem:
        name, details = "backup.failed", {"reason": str(problem)}
    if name == "backup.failed":
        log.error("the daily backup failed: %s", details["reason"])
    with suppress(KeywrightError):
        await desk.execute(RecordEvent(context=Context(read_clock(), ORIGIN), name=name, details=details))
    return True
