"""What child processes do for a page: making a backup, examining the database. One at a time, so that the
server has no more to do than to wait, and can be asked meanwhile, and afterwards, what has become of it.

What is known stands in a file for each kind, so that every server process on this machine can tell it; a
lock says whether somebody is still there to write it.
"""

import logging
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import replace

#: So many lines are kept of what was said, the first and the last, and so many characters of each.
_FIRST_LINES, _LONGEST_LINE = 100, 500
#: How much of a complaint is kept, in bytes.
_LONGEST_COMPLAINT = 4_000
#: Somebody may just be looking whether an errand is being run, for so many seconds at most.
_PATIENCE = 1.0
#: How much others go before it (see nice(1)).
_NICENESS = 10

log = logging.getLogger(__name__)


class State(StrEnum):
    """How an errand stands. ``LOST``: the server ended before it, and nobody knows."""

    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class Errand(msgspec.Struct, frozen=True):
    """What a child process was sent for, and what it has said: ``lines`` of its output, how many more are
    ``unkept``, the ``verdict`` that was its last, and its ``complaint``. ``status`` is its exit status.
    """

    kind: str
    state: State
    began_at: datetime
    ended_at: datetime | None = None
    status: int | None = None
    lines: tuple[str, ...] = ()
    unkept: int = 0
    verdict: str = ""
    complaint: str = ""


#: Is told, in another thread, what has become of an errand.
WhenEnded = Callable[[Errand], None]


class Errands:
    """The errands of an installation; ``folder`` is made when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_busy(self) -> bool:
        """Whether somebody is on an errand."""
        if not self._folder.exists():
            return False
        lock = self._lock()
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return True
        lock.release()
        return False

    def find(self, kind: str) -> Errand | None:
        """The last errand of this kind, None when there was none."""
        # In this order: whoever runs an errand writes how it ended before anybody can think it is lost.
        is_busy = self.is_busy()
        try:
            errand = msgspec.json.decode(self._file(kind).read_bytes(), type=Errand)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        is_lost = errand.state is State.RUNNING and not is_busy
        return replace(errand, state=State.LOST) if is_lost else errand

    def begin(
        self, kind: str, command: Sequence[str], environment: Mapping[str, str], when_ended: WhenEnded
    ) -> bool:
        """Send a child process with this command; False, and nothing happens, while one is away.

        Raises ``OSError`` when that cannot be.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._lock()
        try:
            lock.acquire(timeout=_PATIENCE)
        except Timeout:
            return False
        try:
            errand = Errand(kind, State.RUNNING, _now())
            self._save(errand)
            Thread(
                target=self._run, args=(lock, errand, command, environment, when_ended), daemon=True
            ).start()
        except BaseException:
            lock.release()
            raise
        return True

    def _run(
        self,
        lock: FileLock,
        errand: Errand,
        command: Sequence[str],
        environment: Mapping[str, str],
        when_ended: WhenEnded,
    ) -> None:
        try:
            ended = _ended(errand, command, environment)
            self._save(ended)
        except Exception as problem:
            log.exception("an errand met an error that should not be", exc_info=problem)
            return
        finally:
            lock.release()
        when_ended(ended)

    def _lock(self) -> FileLock:
        # Another thread gives it back.
        return FileLock(self._folder / "lock", thread_local=False)

    def _file(self, kind: str) -> Path:
        return self._folder / f"{kind}.json"

    def _save(self, errand: Errand) -> None:
        draft = self._folder / f"{errand.kind}.new"
        draft.write_bytes(msgspec.json.encode(errand))
        draft.replace(self._file(errand.kind))


def _ended(errand: Errand, command: Sequence[str], environment: Mapping[str, str]) -> Errand:
    """Run the child process to its end."""
    with TemporaryFile() as complaint:
        try:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaint,
                env={**environment, "PYTHONUTF8": "1"},
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as problem:
            return replace(
                errand, state=State.ENDED, ended_at=_now(), status=1, complaint=str(problem.strerror)
            )
        with process:
            with suppress(OSError):
                # The calls that the server answers come first.
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
            assert process.stdout is not None  # noqa: S101
            lines, unkept, verdict = _read(process.stdout)
        complaint.seek(0)
        return replace(
            errand,
            state=State.ENDED,
            ended_at=_now(),
            status=process.returncode,
            lines=lines,
            unkept=unkept,
            verdict=verdict,
            complaint=complaint.read(_LONGEST_COMPLAINT).decode(errors="replace").strip(),
        )


def _read(output: IO[str]) -> tuple[tuple[str, ...], int, str]:
    """The first lines, how many more there were, and the last of all."""
    lines: list[str] = []
    unkept, verdict = 0, ""
    while line := output.readline(_LONGEST_LINE):
        if not line.strip():
            continue
        verdict = line.strip()
        if len(lines) < _FIRST_LINES:
            lines.append(verdict)
        else:
            unkept += 1
    return tuple(lines), unkept, verdict


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
