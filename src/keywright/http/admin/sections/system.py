"""The system: figures about the server, backups, and the doctor."""

import logging
import platform
import shlex
import shutil
from collections import deque
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.config import Settings
from keywright.config.sources import child_environment
from keywright.core.command import Context, Origin
from keywright.core.errors import KeywrightError, NoSuchAddress
from keywright.db import ReadTransaction, database_path, without_password
from keywright.events.model import RecordEvent
from keywright.http.admin.site import AdminSite
from keywright.http.admin.texts import system_gaps
from keywright.http.pages.formats import N_, _, write_size
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.http.pages.runner import Runner
from keywright.identity.model import Right
from keywright.maintenance import clock, inspection
from keywright.maintenance.backup.manifest import Backups, media_type_of, read_chunks, require_readable
from keywright.maintenance.tasks import PROGRAM, BelieveClock, OnEnd, State, Task, TaskRunner, backup_event
from keywright.search import projector

_BACKUP, _EXAMINATION = "backup", "examination"
#: The rate of calls is measured over this many seconds, if the page was shown before.
_RATE_PERIOD = 60.0
_BUSY = N_("A backup or a check is already running. Wait until it ends, then try again.")

log = logging.getLogger(__name__)


class Rate(NamedTuple):
    """Calls per second, measured over this many seconds."""

    calls_per_second: float
    seconds: float


class System(Section):
    """The state of the server, and maintenance."""

    label = N_("System")
    path = "/system"
    group = N_("Settings")
    icon = "database"
    right = Right.ADMINISTER

    def __init__(self, site: AdminSite) -> None:
        super().__init__(site)
        self._started_at = site.started_at
        self._counters = site.counters
        #: Samples of the monotonic time and the number of calls, to measure the rate.
        self._samples: deque[tuple[float, int]] = deque()
        self._lock = Lock()

    @page("")
    def show(self, request: PageRequest) -> Response:
        """The state of the server."""
        site = self.site
        measured, lag, sessions, believed_at = request.ask(lambda tx: _measure(tx, request.now))
        backups = self._backups()
        return request.render(
            "system/show.html",
            python=platform.python_version(),
            measured=measured,
            location=_location(site.settings),
            settings=site.settings,
            gaps=system_gaps(site.settings),
            data_dir=site.settings.data_dir.absolute(),
            uptime=_duration(monotonic() - self._started_at),
            waiting=site.runner.waiting,
            calls=self._counters.calls,
            rate=self._rate(),
            memory=write_size(_memory()),
            database_size=write_size(measured.size),
            sessions=sessions,
            lag=lag,
            believed_at=believed_at,
            is_dump_missing=measured.kind == "postgresql" and shutil.which("pg_dump") is None,
            backups=[(one, write_size(one.size)) for one in backups.all()],
            folder=backups.folder,
            folder_of_copies=backups.folder_of_copies,
            **self._task_values(),
        )

    @page("/tasks/{kind:str}")
    def show_task(self, request: PageRequest) -> Response:
        """The state of a task; polled by admin.js."""
        kind = request.path_params["kind"]
        if kind not in (_BACKUP, _EXAMINATION):
            raise NoSuchAddress
        return request.render(f"system/{kind}.html", **self._task_values())

    @page("/clock", methods=("POST",))
    def believe_clock(self, request: PageRequest) -> Response:
        """Confirm that the clock is right, so that servers trust it."""
        request.change(BelieveClock(context=request.context, is_confirmed=True))
        return request.redirect("/system", _("The server will trust its clock in a moment."))

    @page("/backup", methods=("POST",))
    def back_up(self, request: PageRequest) -> Response:
        """Start a backup."""
        try:
            file = self._backups().prepare(request.now)
        except OSError as problem:
            return _refuse(request, _("The folder for backups cannot be created"), problem)
        on_end = partial(_record_backup, request.site.runner, request.browser.origin, request.user.id, file)
        return self._start(
            request,
            _BACKUP,
            ("backup", str(file)),
            on_end,
            _("A backup is being made. You may leave this page."),
        )

    @page("/examine", methods=("POST",))
    def examine(self, request: PageRequest) -> Response:
        """Start an examination of the database."""
        on_end = partial(_record_examination, request.site.runner, request.browser.origin, request.user.id)
        return self._start(
            request,
            _EXAMINATION,
            ("doctor",),
            on_end,
            _("The database is being checked. You may leave this page."),
        )

    @page("/backups/{name:str}/fetch", methods=("POST",))
    def fetch(self, request: PageRequest) -> Response:
        """Download a backup, after the event is recorded."""
        path = self._backups().find(request.path_params["name"])
        try:
            length = require_readable(path)
        except OSError as problem:
            return _refuse(request, _("The backup %(name)s cannot be read", name=path.name), problem)
        request.change(
            RecordEvent(context=request.context, name="backup.fetched", details={"file": path.name})
        )
        return request.download(path.name, read_chunks(path), media_type=media_type_of(path), length=length)

    @page("/backups/{name:str}/delete", methods=("GET", "POST"))
    def delete(self, request: PageRequest) -> Response:
        """Delete a backup, after the event is recorded; another event is recorded if the deletion fails."""
        path = self._backups().find(request.path_params["name"])
        if request.is_post:
            details = {"file": path.name}
            request.change(RecordEvent(context=request.context, name="backup.deleted", details=details))
            try:
                path.unlink(missing_ok=True)
            except OSError as problem:
                request.change(RecordEvent(context=request.context, name="backup.kept", details=details))
                return _refuse(request, _("The backup %(name)s cannot be deleted", name=path.name), problem)
            return request.redirect("/system", _("The backup %(name)s was deleted.", name=path.name))
        return request.confirm(
            _("Delete the backup %(name)s?", name=path.name),
            [_("This cannot be undone. Copies elsewhere are not affected.")],
            button=_("Delete"),
            back="/system",
        )

    def _start(
        self, request: PageRequest, kind: str, arguments: tuple[str, ...], on_end: OnEnd, message: str
    ) -> Response:
        environment = child_environment(self.site.settings)
        try:
            is_started = self._tasks().start(kind, (*PROGRAM, *arguments), environment, on_end)
        except OSError as problem:
            return _refuse(request, _("The task cannot be started"), problem)
        if not is_started:
            return request.redirect("/system", _(_BUSY), is_error=True)
        return request.redirect("/system", message)

    def _backups(self) -> Backups:
        settings = self.site.settings
        return Backups(settings.data_dir / "backups", database_path(settings.database_url_in_force))

    def _tasks(self) -> TaskRunner:
        return TaskRunner(self.site.settings.data_dir / "tasks")

    def _task_values(self) -> dict[str, Any]:
        tasks = self._tasks()
        backup, examination = tasks.find(_BACKUP), tasks.find(_EXAMINATION)
        return {
            "backup": backup,
            "examination": examination,
            "outcome": _outcome(examination),
            "backup_lines": () if backup is None else map(_without_file_name, backup.lines),
            "is_busy": any(one is not None and one.state is State.RUNNING for one in (backup, examination)),
            "size_in_progress": write_size(self._backups().size_in_progress()),
            "repair_command": _command_line("doctor --repair", self.site.settings),
            "has_database_url": self.site.settings.database_url is not None,
        }

    def _rate(self) -> Rate:
        """Calls per second since the page was shown about a minute ago, or since the server started."""
        with self._lock:
            if not self._samples:
                self._samples.append((self._started_at, 0))
            now, calls = monotonic(), self._counters.calls
            while len(self._samples) > 1 and now - self._samples[1][0] >= _RATE_PERIOD:
                self._samples.popleft()
            since, before = self._samples[0]
            self._samples.append((now, calls))
        seconds = max(now - since, 0.001)
        return Rate((calls - before) / seconds, seconds)


def _refuse(request: PageRequest, sentence: str, problem: OSError) -> Response:
    return request.redirect("/system", f"{sentence}: {problem.strerror or problem}.", is_error=True)


def _measure(
    tx: ReadTransaction, now: datetime
) -> tuple[inspection.Measured, projector.Lag, int, datetime | None]:
    sessions = inspection.count_sessions(tx, now)
    return inspection.measure(tx), projector.lag(tx), sessions, clock.find_doubt(tx, now)


def _record_backup(runner: Runner, origin: Origin, by: int, file: Path, task: Task) -> None:
    _record(runner, origin, by, *backup_event(task, file))


def _record_examination(runner: Runner, origin: Origin, by: int, task: Task) -> None:
    _record(runner, origin, by, "system.examined", {"outcome": _OUTCOMES[_outcome(task)]})


def _outcome(task: Task | None) -> str:
    """An examination's outcome by the doctor's last line and status: ``well``, ``wrong``, ``broken off``."""
    if task is None or not task.last_line.startswith("Looked at "):
        return "broken off"
    return "well" if task.status == 0 else "wrong"


_OUTCOMES = {
    "well": N_("everything is in order"),
    "wrong": N_("something is wrong"),
    "broken off": N_("it did not complete"),
}


def _without_file_name(line: str) -> str:
    """A line of `keywright backup` without the file name, which the page already shows."""
    _file, found, rest = line.partition(" as it was at ")
    return _("The backup contains everything as it was at %(time)s", time=rest) if found else line


def _record(runner: Runner, origin: Origin, by: int, name: str, details: dict[str, Any] | None) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    try:
        runner.change(RecordEvent(context=Context(now, origin, by), name=name, details=details))
    except (KeywrightError, RuntimeError) as problem:
        # The server may be about to stop.
        log.warning("the event %s was not recorded: %s", name, problem)


def _location(settings: Settings) -> str:
    path = database_path(settings.database_url_in_force)
    return without_password(settings.database_url_in_force) if path is None else str(path.absolute())


def _command_line(command: str, settings: Settings) -> str:
    """The command line for this installation."""
    return f"keywright {command} --data-dir {shlex.quote(str(settings.data_dir.absolute()))}"


def _memory() -> int:
    """The resident memory of this server process in bytes; 0 if the system does not report it."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _duration(seconds: float) -> str:
    """``3 d 2 h``: the two largest units."""
    rest, parts = int(seconds), []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, rest = divmod(rest, length)
        if number:
            parts.append(f"{number:,} {unit}")
    return " ".join(parts[:2]) or "0 s"
