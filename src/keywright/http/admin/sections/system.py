"""The system: what runs here and how it is, backups, and the doctor."""

import logging
import platform
import shlex
import shutil
import sys
from collections import deque
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.config import Settings, child_environment
from keywright.core.command import Context, Origin
from keywright.core.errors import KeywrightError, NoSuchAddress
from keywright.db import ReadTransaction, database_path, without_password
from keywright.events.commands import RecordEvent
from keywright.http.admin.backups import Backups, media_type_of, pieces_of, require_readable
from keywright.http.admin.tasks import Errand, Errands, State
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.http.pages.runner import Runner
from keywright.http.pages.site import Site
from keywright.identity.rights import Right
from keywright.identity.sessions import SESSION_IDLE, SESSION_LONGEST
from keywright.maintenance import measuring
from keywright.search import projector

_BACKUP, _EXAMINATION = "backup", "examination"
_PROGRAM = (sys.executable, "-c", "from keywright.cli import main; main()")
#: A rate is that of the last minute, where somebody has looked a minute ago.
_RATE_OVER = 60.0
_BUSY = "Something is being done already. Wait until it is over, then try again."

log = logging.getLogger(__name__)


class Rate(NamedTuple):
    """So many calls a second, during the last so many seconds."""

    calls_per_second: float
    seconds: float


class System(Section):
    """What an administrator has to know of the server, and to do for it."""

    label = "System"
    path = "/system"
    icon = "system"
    right = Right.ADMINISTER

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._marks: deque[tuple[float, int]] = deque()
        self._lock = Lock()

    @page("")
    def show(self, request: PageRequest) -> Response:
        """How everything is."""
        site = self.site
        measured, lag, sessions = request.ask(lambda tx: _measured(tx, request.now))
        backups = self._backups()
        return request.render(
            "system/show.html",
            python=platform.python_version(),
            measured=measured,
            place=_place(site.settings),
            settings=site.settings,
            data_dir=site.settings.data_dir.absolute(),
            uptime=_duration(monotonic() - site.started_at),
            waiting=site.runner.waiting,
            calls=self.site.tallies.calls,
            rate=self._rate(),
            memory=_size(_memory()),
            database_size=_size(measured.size),
            sessions=sessions,
            lag=lag,
            is_dump_missing=measured.kind == "postgresql" and shutil.which("pg_dump") is None,
            backups=[(one, _size(one.size)) for one in backups.all()],
            folder=backups.folder,
            folder_of_copies=backups.folder_of_copies,
            **self._errands_for_page(),
        )

    @page("/errands/{kind:str}")
    def errand(self, request: PageRequest) -> Response:
        """How far it is, for the program in the browser."""
        kind = request.path_params["kind"]
        if kind not in (_BACKUP, _EXAMINATION):
            raise NoSuchAddress
        return request.render(f"system/{kind}.html", **self._errands_for_page())

    @page("/backup", methods=("POST",))
    def back_up(self, request: PageRequest) -> Response:
        """Have a backup made."""
        try:
            file = self._backups().prepare(request.now)
        except OSError as problem:
            return _not_done(request, "There is no place for backups", problem)
        ended = partial(_backup_ended, request.site.runner, request.browser.origin, request.user.id, file)
        return self._begun(request, _BACKUP, ("backup", str(file)), ended, "A backup is being made.")

    @page("/examine", methods=("POST",))
    def examine(self, request: PageRequest) -> Response:
        """Have the doctor look at everything."""
        ended = partial(_examination_ended, request.site.runner, request.browser.origin, request.user.id)
        return self._begun(request, _EXAMINATION, ("doctor",), ended, "The database is being examined.")

    @page("/backups/{name:str}/fetch", methods=("POST",))
    def fetch(self, request: PageRequest) -> Response:
        """Give a backup out; that is written down first."""
        path = self._backups().find(request.path_params["name"])
        try:
            length = require_readable(path)
        except OSError as problem:
            return _not_done(request, f"The backup {path.name} cannot be read", problem)
        request.change(
            RecordEvent(context=request.context, name="backup.fetched", details={"file": path.name})
        )
        return request.download(path.name, pieces_of(path), media_type=media_type_of(path), length=length)

    @page("/backups/{name:str}/delete", methods=("GET", "POST"))
    def delete(self, request: PageRequest) -> Response:
        """Delete a backup; that is written down first, and that it is still there where it cannot be done."""
        path = self._backups().find(request.path_params["name"])
        if request.is_post:
            details = {"file": path.name}
            request.change(RecordEvent(context=request.context, name="backup.deleted", details=details))
            try:
                path.unlink(missing_ok=True)
            except OSError as problem:
                request.change(RecordEvent(context=request.context, name="backup.kept", details=details))
                return _not_done(request, f"The backup {path.name} cannot be deleted", problem)
            return request.redirect("/system", f"The backup {path.name} is deleted.")
        return request.confirm(
            f"Delete the backup {path.name}?",
            ["It cannot be brought back. Copies that you have elsewhere stay."],
            button="Delete",
            back="/system",
        )

    def _begun(
        self, request: PageRequest, kind: str, arguments: tuple[str, ...], ended: Any, said: str
    ) -> Response:
        environment = child_environment(self.site.settings)
        try:
            is_begun = self._errands().begin(kind, (*_PROGRAM, *arguments), environment, ended)
        except OSError as problem:
            return _not_done(request, "This cannot be done", problem)
        if not is_begun:
            return request.redirect("/system", _BUSY, is_error=True)
        return request.redirect("/system", f"{said} You may leave this page meanwhile.")

    def _backups(self) -> Backups:
        settings = self.site.settings
        return Backups(settings.data_dir / "backups", database_path(settings.database_url_in_force))

    def _errands(self) -> Errands:
        return Errands(self.site.settings.data_dir / "errands")

    def _errands_for_page(self) -> dict[str, Any]:
        errands = self._errands()
        backup, examination = errands.find(_BACKUP), errands.find(_EXAMINATION)
        return {
            "backup": backup,
            "examination": examination,
            "judged": _judged(examination),
            "told": () if backup is None else map(_without_names, backup.lines),
            "is_busy": any(one is not None and one.state is State.RUNNING for one in (backup, examination)),
            "unfinished": _size(self._backups().unfinished()),
            "repair": _line_for("doctor --repair", self.site.settings),
            "is_database_named": self.site.settings.database_url is not None,
        }

    def _rate(self) -> Rate:
        """Calls a second since somebody looked a minute ago, or since the server began."""
        with self._lock:
            if not self._marks:
                self._marks.append((self.site.started_at, 0))
            now, calls = monotonic(), self.site.tallies.calls
            while len(self._marks) > 1 and now - self._marks[1][0] >= _RATE_OVER:
                self._marks.popleft()
            since, before = self._marks[0]
            self._marks.append((now, calls))
        seconds = max(now - since, 0.001)
        return Rate((calls - before) / seconds, seconds)


def _not_done(request: PageRequest, sentence: str, problem: OSError) -> Response:
    return request.redirect("/system", f"{sentence}: {problem.strerror or problem}.", is_error=True)


def _measured(tx: ReadTransaction, now: datetime) -> tuple[measuring.Measured, projector.Lag, int]:
    sessions = measuring.count_sessions(
        tx, seen_after=now - SESSION_IDLE, created_after=now - SESSION_LONGEST
    )
    return measuring.measure(tx), projector.lag(tx), sessions


def _backup_ended(runner: Runner, origin: Origin, by: int, file: Path, errand: Errand) -> None:
    if errand.status == 0 and file.exists():
        _note(runner, origin, by, "backup.made", {"file": file.name, "size": file.stat().st_size})
    else:
        _note(runner, origin, by, "backup.failed", None)


def _examination_ended(runner: Runner, origin: Origin, by: int, errand: Errand) -> None:
    _note(runner, origin, by, "system.examined", {"outcome": _OUTCOMES[_judged(errand)]})


def _judged(errand: Errand | None) -> str:
    """``well``, ``wrong``, or ``broken off``: what the doctor's last line and exit status say."""
    if errand is None or not errand.verdict.startswith("Looked at "):
        return "broken off"
    return "well" if errand.status == 0 else "wrong"


_OUTCOMES = {
    "well": "everything is as it has to be",
    "wrong": "something is wrong",
    "broken off": "it did not come to an end",
}


def _without_names(line: str) -> str:
    """What `keywright backup` says, without the names of files that everybody can see."""
    _, found, rest = line.partition(" as it was at ")
    return f"It holds everything as it was at {rest}" if found else line


def _note(runner: Runner, origin: Origin, by: int, name: str, details: dict[str, Any] | None) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    try:
        runner.change(RecordEvent(context=Context(now, origin, by), name=name, details=details))
    except (KeywrightError, RuntimeError) as problem:
        # The server may be about to end.
        log.warning("%s could not be written down: %s", name, problem)


def _place(settings: Settings) -> str:
    path = database_path(settings.database_url_in_force)
    return without_password(settings.database_url_in_force) if path is None else str(path.absolute())


def _line_for(command: str, settings: Settings) -> str:
    """What to type for this command on the same installation."""
    return f"keywright {command} --data-dir {shlex.quote(str(settings.data_dir.absolute()))}"


def _memory() -> int:
    """How many bytes of memory this server process has now; 0 where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _size(size: int) -> str:
    for unit, bytes_each in (("GB", 10**9), ("MB", 10**6)):
        if size >= bytes_each:
            return f"{size / bytes_each:.1f} {unit}"
    return f"{size / 1000:.0f} kB"


def _duration(seconds: float) -> str:
    """``3 d 2 h``: the two largest units."""
    rest, said = int(seconds), []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, rest = divmod(rest, length)
        if number:
            said.append(f"{number:,} {unit}")
    return " ".join(said[:2]) or "0 s"
