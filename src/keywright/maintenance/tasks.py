"""Maintenance commands, and long tasks in child processes.

The state of the last task of each kind is in a file, so that every server process on this machine can show
it; a lock shows whether a process still runs the task.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import replace

from keywright.core.command import Command, Cost, Query


class EraseCustomer(Command, frozen=True, kw_only=True):
    """Erase some of a customer's data; with ``is_step``, do not finish. The payloads of ``shop_event_ids``,
    shop events that belong to no customer, are erased, too.
    """

    customer_id: int
    is_step: bool = False
    shop_event_ids: Collection[int] = ()


class ExportCustomer(Query, frozen=True, kw_only=True):
    """Get everything stored about a customer."""

    cost = Cost.LIST

    customer_id: int


class RequireCustomerData(Query, frozen=True, kw_only=True):
    """Check that anything is stored about a customer."""

    cost = Cost.LIST

    customer_id: int


class PurgeEvents(Command, frozen=True, kw_only=True):
    """Delete some events before this moment (None: none), or find licenses that may have too many events;
    with a license, delete some of its surplus events.
    """

    cost = Cost.ALONE

    before: datetime | None = None
    license_id: int | None = None


class PurgeDeletedLicenses(Command, frozen=True, kw_only=True):
    """Delete the snapshots of some licenses that were deleted before this moment."""

    cost = Cost.ALONE

    before: datetime


class PurgeUsage(Command, frozen=True, kw_only=True):
    """Delete some meter usage of periods that were closed before this moment."""

    cost = Cost.ALONE

    before: datetime


class PurgeAddresses(Command, frozen=True, kw_only=True):
    """Erase the addresses in some events before this moment, and in those of the given activations (license
    ID, token) that were given up before it.
    """

    cost = Cost.ALONE
    is_internal = True

    before: datetime
    places: tuple[tuple[int, str], ...] = ()


class SaveSettings(Command, frozen=True, kw_only=True):
    """Store settings that were changed in the pages, as texts; None restores the default."""

    changes: Mapping[str, str | None]


class ListSettings(Query, frozen=True, kw_only=True):
    """List the stored settings, as texts by name."""


class BelieveClock(Command, frozen=True, kw_only=True):
    """Save the current time as plausible; with ``is_confirmed``, a person confirmed the clock."""

    is_confirmed: bool = False


class FindBelieved(Query, frozen=True, kw_only=True):
    """Find the last plausible time; None if nothing has ever happened."""


#: The command ``keywright``, wherever it is installed.
PROGRAM = (sys.executable, "-c", "from keywright.cli import main; main()")
#: The maximum number of output lines to keep, and of characters per line.
_MAX_LINES, _MAX_LINE_LENGTH = 100, 500
#: The maximum size of the error output to keep, in bytes.
_MAX_ERROR_OUTPUT = 4_000
#: The timeout for the lock, in seconds: another process may hold it briefly to check it.
_LOCK_TIMEOUT = 1.0
#: The priority of child processes, see nice(1).
_NICENESS = 10

_BROKEN = "it was interrupted"

log = logging.getLogger(__name__)


class State(StrEnum):
    """The state of a task. ``LOST``: the server ended before the task did, so its outcome is unknown."""

    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class Task(msgspec.Struct, frozen=True):
    """A task and its output: the first ``lines``, the number of further lines, and the last line. ``status``
    is the exit status of the child process.
    """

    kind: str
    state: State
    started_at: datetime
    ended_at: datetime | None = None
    status: int | None = None
    lines: tuple[str, ...] = ()
    omitted_lines: int = 0
    last_line: str = ""
    error_output: str = ""

    @property
    def reason(self) -> str:
        """Why the task failed, in one line."""
        line = self.error_output.strip().rpartition("\n")[2].removeprefix("Error: ")
        return line[:_MAX_LINE_LENGTH] or _BROKEN


def backup_event(task: Task, file: Path) -> tuple[str, dict[str, Any]]:
    """The name and details of the event for a backup task that wrote to this file."""
    if task.status == 0 and file.exists():
        return "backup.made", {"file": file.name, "size": file.stat().st_size}
    return "backup.failed", {"reason": task.reason}


#: Called in another thread when a task has ended.
OnEnd = Callable[[Task], None]


class TaskRunner:
    """Runs the tasks of an installation, and keeps their state in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_busy(self) -> bool:
        """Whether a task is running."""
        if not self._folder.exists():
            return False
        lock = self._lock()
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return True
        lock.release()
        return False

    def find(self, kind: str) -> Task | None:
        """The last task of this kind."""
        # Check the lock first: a process saves the end of its task before it releases the lock.
        is_busy = self.is_busy()
        try:
            task = msgspec.json.decode(self._file(kind).read_bytes(), type=Task)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        is_lost = task.state is State.RUNNING and not is_busy
        return replace(task, state=State.LOST) if is_lost else task

    def start(self, kind: str, command: Sequence[str], environment: Mapping[str, str], on_end: OnEnd) -> bool:
        """Start a child process; return False if a task is already running. Raises ``OSError``."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._lock()
        try:
            lock.acquire(timeout=_LOCK_TIMEOUT)
        except Timeout:
            return False
        try:
            task = Task(kind, State.RUNNING, _now())
            self._save(task)
            Thread(target=self._run, args=(lock, task, command, environment, on_end), daemon=True).start()
        except BaseException:
            lock.release()
            raise
        return True

    def _run(
        self,
        lock: FileLock,
        task: Task,
        command: Sequence[str],
        environment: Mapping[str, str],
        on_end: OnEnd,
    ) -> None:
        try:
            ended = _run_child(task, command, environment)
            self._save(ended)
        except Exception as problem:
            log.exception("a task raised an unexpected error", exc_info=problem)
            return
        finally:
            lock.release()
        on_end(ended)

    def _lock(self) -> FileLock:
        # The lock is released in another thread.
        return FileLock(self._folder / "lock", thread_local=False)

    def _file(self, kind: str) -> Path:
        return self._folder / f"{kind}.json"

    def _save(self, task: Task) -> None:
        draft = self._folder / f"{task.kind}.new"
        draft.write_bytes(msgspec.json.encode(task))
        draft.replace(self._file(task.kind))


def _run_child(task: Task, command: Sequence[str], environment: Mapping[str, str]) -> Task:
    """Run the child process to its end."""
    with TemporaryFile() as error_output:
        try:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=error_output,
                env={**environment, "PYTHONUTF8": "1"},
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as problem:
            return replace(
                task, state=State.ENDED, ended_at=_now(), status=1, error_output=str(problem.strerror)
            )
        with process:
            with suppress(OSError):
                # API calls have priority.
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
            assert process.stdout is not None  # noqa: S101
            lines, omitted_lines, last_line = _read_lines(process.stdout)
        error_output.seek(0)
        return replace(
            task,
            state=State.ENDED,
            ended_at=_now(),
            status=process.returncode,
            lines=lines,
            omitted_lines=omitted_lines,
            last_line=last_line,
            error_output=error_output.read(_MAX_ERROR_OUTPUT).decode(errors="replace").strip(),
        )


def _read_lines(output: IO[str]) -> tuple[tuple[str, ...], int, str]:
    """The first lines, the number of further lines, and the last line."""
    lines: list[str] = []
    omitted_lines, last_line = 0, ""
    while line := output.readline(_MAX_LINE_LENGTH):
        if not line.strip():
            continue
        last_line = line.strip()
        if len(lines) < _MAX_LINES:
            lines.append(last_line)
        else:
            omitted_lines += 1
    return tuple(lines), omitted_lines, last_line


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
