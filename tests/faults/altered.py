"""Keywright with something changed in it: run as a program, it is the command ``keywright``.

Its first argument says what is changed, in words separated by commas. ``recording`` changes nothing that
matters: it writes down what is done to the database's file (``recorded.py`` reads it). The others are for
tests that must notice what is wrong then.
"""

import inspect
import json
import os
import re
import select
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta, tzinfo
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from sqlalchemy import event
from sqlalchemy.engine import Engine

from keywright.background import clean_up, clock, counters, job_runner, moments
from keywright.background import queue as work_queue
from keywright.cli import main
from keywright.db import ReadTransaction, migrations, session, sqlite
from keywright.engine.queue import Claims
from keywright.http.middleware import attempts, call_limits
from keywright.licensing.activations import rules
from keywright.licensing.licenses.model import License
from keywright.provisioning.shops import rules as shop_rules
from keywright.provisioning.shops.model import Renewal

# The package's function of this name hides the module.
_MIGRATE = import_module("keywright.db.migrate")
#: The revision of ``with a later schema``.
LATER = "9000"
_LATER_REVISION = f"""
import sqlalchemy as sa
from alembic import op

revision = "{LATER}"
down_revision = "{_MIGRATE.HEAD}"


def upgrade() -> None:
    op.add_column("licenses", sa.Column("later", sa.Text))
"""
#: What else the revision does in ``with a slow later schema``: it writes every chunk again.
_SLOW = """    op.execute("CREATE TABLE later AS SELECT * FROM job_file_chunks")
"""
_RECORD = "KEYWRIGHT_TESTS_RECORD"
_AHEAD = "KEYWRIGHT_TESTS_AHEAD"
_LOCK_TIMEOUT = 1.0
_CONNECT = sqlite3.connect
_numbers = count(1)


def altering_command(*alterations: str, record: Path | None = None, ahead: Path | None = None) -> list[str]:
    """What to run in place of the command ``keywright``; ``record`` is where ``recording`` writes to, and
    ``ahead`` the file that ``by a set clock`` reads.
    """
    files = {_RECORD: record, _AHEAD: ahead}
    variables = [f"{name}={file}" for name, file in files.items() if file is not None]
    return ["env", *variables, sys.executable, "-P", __file__, ",".join(alterations)]


def _replace(owner: object, name: str, value: object) -> None:
    """Replace what there is; a name that is gone must not pass for an alteration."""
    getattr(owner, name)
    setattr(owner, name, value)


class _Cursor(sqlite3.Cursor):
    """Of a ``_Connection``."""

    def execute(self, statement: str, *values: Any) -> "_Cursor":
        return self._watched(super().execute, statement, *values)

    def executemany(self, statement: str, *values: Any) -> "_Cursor":
        return self._watched(super().executemany, statement, *values)

    def _watched(self, execute: Callable[..., Any], statement: str, *values: Any) -> "_Cursor":
        connection: Any = self.connection
        try:
            execute(statement, *values)
        except sqlite3.OperationalError as problem:
            is_busy = problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            connection.note("refused" if is_busy else "failed")
            raise
        if statement == "BEGIN IMMEDIATE":
            connection.note("begun")
        return self


class _Connection(sqlite3.Connection):
    """A connection that says what it has done to whoever listens."""

    is_silent_about_failures = False

    @staticmethod
    def note_down(_number: int, _what: str) -> None:
        """Nobody listens."""

    def __init__(self, name: str, *arguments: Any, **options: Any) -> None:
        super().__init__(name, *arguments, **options)
        self._number = next(_numbers)
        self._may_write = "mode=ro" not in name
        self.note("opened")

    def note(self, what: str) -> None:
        if self._may_write:
            type(self).note_down(self._number, what)

    def cursor(self, *_: Any) -> Any:
        return super().cursor(_Cursor)

    def commit(self) -> None:
        try:
            super().commit()
        except sqlite3.OperationalError:
            self.note("failed")
            if not self.is_silent_about_failures:
                raise
            self.rollback()
            return
        self.note("committed")

    def rollback(self) -> None:
        super().rollback()
        self.note("undone")

    def close(self) -> None:
        # The last one to close moves what the log holds into the database.
        self.note("closing")
        super().close()
        self.note("closed")


def _recording() -> None:
    record = os.open(os.environ.pop(_RECORD), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note_down(number: int, what: str) -> None:
        line = json.dumps([os.getpid(), number, what, time.monotonic_ns()])
        os.write(record, f"{line}\n".encode())

    _listen(note_down)


def _listen(note_down: Callable[[int, str], None]) -> None:
    """Have this called with the number of every connection that may write, and what it does.

    It calls those that listened before, too.
    """
    before = _Connection.note_down

    def tell(number: int, what: str) -> None:
        before(number, what)
        note_down(number, what)

    _Connection.note_down = staticmethod(tell)  # type: ignore[method-assign,assignment]
    _be_heard()


def _be_heard() -> None:
    _replace(sqlite3, "connect", partial(_CONNECT, factory=_Connection))


def _acknowledging_failures() -> None:
    """What could not be committed is answered as if it were."""
    _be_heard()
    _Connection.is_silent_about_failures = True


def _keeping_connections() -> None:
    """A connection is used again after it has failed."""
    _replace(sqlite.SqliteStorage, "_close_writer", lambda _: None)


def _unlocked() -> None:
    """Nobody is kept out while somebody writes, but by SQLite itself."""
    _replace(sqlite.SqliteStorage, "write_lock", lambda *_, **__: nullcontext())


def _committing_later() -> None:
    """PostgreSQL acknowledges commits that are not in its log yet."""
    setup, altered_times = re.subn(r"CASE WHEN .* END", "'off'", session._SETUP, flags=re.DOTALL)
    assert altered_times == 1
    _replace(session, "_SETUP", setup)


def _impatient() -> None:
    """Nobody waits long for the lock; there is nothing wrong with that."""
    _replace(sqlite, "LOCK_TIMEOUT", _LOCK_TIMEOUT)


def _standing_still() -> None:
    """It stops moving as soon as it may write."""

    def stand_still(_number: int, what: str) -> None:
        if what == "begun":
            os.kill(os.getpid(), signal.SIGSTOP)

    _listen(stand_still)


def _standing_still_at(revision: int) -> None:
    """A migration stops moving when it has got to this revision, before its end."""

    def stand_still(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if f"version_num='{revision:04}'" in statement:
            os.kill(os.getpid(), signal.SIGSTOP)

    event.listen(Engine, "after_cursor_execute", stand_still)


def _sleeping_by_select() -> None:
    """``time.sleep`` waits in another way; libfaketime lets the usual one fail."""
    _replace(time, "sleep", lambda seconds: select.select([], [], [], seconds))


def _limiting_by_the_clock() -> None:
    """The limiters measure by a clock that may jump."""
    for module in (call_limits, attempts):
        _replace(module, "monotonic", time.time)


def _expiring_anew() -> None:
    """Every activation of a license lets it expire as if it were the first one."""
    take_place: Callable[[License, Any], License] = rules.with_place_taken

    def with_place_taken(license: License, now: Any) -> License:
        if license.valid_for_days is not None:
            license = replace(license, expires_at=None)
        return take_place(license, now)

    _replace(rules, "with_place_taken", with_place_taken)


def _hurrying() -> None:
    """The loops in the background turn often."""
    _replace(clean_up, "_INTERVAL", timedelta(seconds=0.2))
    _replace(clean_up, "_PAUSE_IN_DOUBT", 0.2)
    _replace(clock, "_INTERVAL", 0.1)
    _replace(counters, "_SAVE_INTERVAL", 1.0)
    _replace(work_queue, "_INTERVAL", 0.1)
    _replace(moments, "_INTERVAL", 0.1)
    _replace(job_runner, "_CLEAN_UP_INTERVAL", 0.1)


def _believing_every_clock() -> None:
    """A wrong clock is as good as any."""
    _replace(clock.ClockGuard, "is_right", lambda _: True)


class _Datetime:
    """Stands for ``datetime`` in a module that reads the clock, and is it for everything else."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def __getattr__(self, name: str) -> Any:
        return getattr(datetime, name)

    def __call__(self, *values: Any, **named: Any) -> datetime:
        return datetime(*values, **named)

    def now(self, zone: tzinfo | None = None) -> datetime:
        return datetime.fromtimestamp(self._read(), zone)


def _by_a_set_clock() -> None:
    """The clock is as many seconds ahead as a file contains, that of the database, too. It is believed, also
    when it jumps, and what is done once an hour is done every few seconds.
    """
    file, real = os.open(os.environ.pop(_AHEAD), os.O_RDONLY), time.time

    def read() -> float:
        return real() + int(os.pread(file, 20, 0))

    for name in ("keywright.http.portal.app", "keywright.http.admin.app", "keywright.http.app"):
        import_module(name)
    for one in [module for name, module in sys.modules.items() if name.startswith("keywright.")]:
        if vars(one).get("time") is real:
            _replace(one, "time", read)
        if vars(one).get("datetime") is datetime and "datetime.now(" in inspect.getsource(one):
            _replace(one, "datetime", _Datetime(read))
    _replace(ReadTransaction, "read_clock", lambda _: None)
    _believing_every_clock()
    _replace(clean_up, "_MAX_CLOCK_CHANGE", timedelta(days=10_000))
    _replace(clean_up, "_INTERVAL", timedelta(seconds=3))
    # Those of a server that was killed are over after a second.
    _replace(work_queue, "Claims", partial(Claims, clock=lambda: 16 * time.monotonic()))
    _replace(moments, "_LOOK_AGAIN_INTERVAL", 0.0)


def _forgetting_renewals() -> None:
    """What a shop states about a renewal is stored, and changes no license."""
    learn = shop_rules.learn

    def learn_all_else(known: Any, change: Any, at: int) -> Any:
        return known if isinstance(change, Renewal) else learn(known, change, at)

    _replace(shop_rules, "learn", learn_all_else)


def _with_a_later_schema(more: str = "") -> None:
    """As a later version has it: one revision more."""
    scripts = Path(tempfile.mkdtemp()) / "scripts"
    shutil.copytree(next(iter(migrations.__path__)), scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "later.py").write_text(_LATER_REVISION + more)
    _replace(_MIGRATE, "_SCRIPTS", str(scripts))
    _replace(_MIGRATE, "HEAD", LATER)


_ALTERATIONS: dict[str, Callable[[], None]] = {
    "committing later": _committing_later,
    "recording": _recording,
    "acknowledging failures": _acknowledging_failures,
    "keeping connections": _keeping_connections,
    "unlocked": _unlocked,
    "impatient": _impatient,
    "standing still": _standing_still,
    "sleeping by select": _sleeping_by_select,
    "limiting by the clock": _limiting_by_the_clock,
    "expiring anew": _expiring_anew,
    "hurrying": _hurrying,
    "believing every clock": _believing_every_clock,
    "by a set clock": _by_a_set_clock,
    "forgetting renewals": _forgetting_renewals,
    **{f"standing still at {number}": partial(_standing_still_at, number) for number in range(17, 37)},
    "with a later schema": _with_a_later_schema,
    "with a slow later schema": partial(_with_a_later_schema, _SLOW),
}


if __name__ == "__main__":
    for alteration in sys.argv.pop(1).split(","):
        _ALTERATIONS[alteration]()
    main()
