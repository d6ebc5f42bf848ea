"""A real server in a process of its own, for tests that come in from outside."""

import atexit
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
from filelock import FileLock

from keywright.config import Settings
from keywright.config.installation import load_key_ring, open_installation
from keywright.db import Storage, database_path, run_read
from keywright.identity import store as identity_store
from keywright.identity.model import Permissions
from keywright.maintenance.doctor import examine
from tests import forking
from tests.databases import a_postgres_url, execute, with_long_timeout
from tests.forking import Forked, fork
from tests.makers import issue_api_key, revoke_api_key

#: The command, as it is installed beside this Python.
KEYWRIGHT = str(Path(sys.executable).with_name("keywright"))
#: Whether coverage is measured: it sees processes that start, and none that are forked.
_IS_MEASURED = any(name.startswith("COVERAGE_PROCESS") for name in os.environ)
#: In seconds; a busy machine is no reason to fail.
TIMEOUT = 60.0
_ADDRESS = re.compile(r"http://(?:127\.0\.0\.1|\[::1\]):(\d+)")

#: A mail server that never answers: mails are queued, and wait.
MAIL_WAITS: dict[str, Any] = {"smtp_url": "smtp://127.0.0.1:9", "mail_from": "keys@example.com"}
#: Settings of a server that a test suite may call as often as it likes.
NO_LIMITS: dict[str, Any] = {
    "unknown_key_limit": 0,
    "bad_credentials_limit": 0,
    "bad_request_limit": 0,
    "license_change_limit": 0,
    "address_change_limit": 0,
    "trial_limit": 0,
}


def wait_until(condition: Callable[[], Any], what: str) -> None:
    """Return soon after the condition holds. Raises ``AssertionError`` after ``TIMEOUT`` seconds."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < TIMEOUT, f"waited {TIMEOUT:.0f} s in vain for {what}"
        # Seldom after a while: to ask for a page, for example, costs processor time on both sides.
        time.sleep(min(max(waited / 10, 0.005), 0.1))


def _forkable(command: Sequence[str]) -> tuple[str | None, Sequence[str], dict[str, str]] | None:
    """The script that runs Keywright altered (None: nothing is altered), its arguments, and more variables of
    its environment; None for a command that has to be started as it is.
    """
    words, variables = [*command], dict[str, str]()
    if words[0] == "env":
        words = words[1:]
        while "=" in words[0] and not words[0].startswith("LD_"):
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
    if words[0] == KEYWRIGHT:
        return None, words[1:], variables
    is_script = words[:2] == [sys.executable, "-P"] and words[2] != "-c"
    return (words[2], words[3:], variables) if is_script else None


def environment(**settings: object) -> dict[str, str]:
    """The environment of a Keywright process with these settings and no others."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KEYWRIGHT_")}
    ours = {f"KEYWRIGHT_{name.upper()}": str(value) for name, value in settings.items()}
    return {**inherited, "PYTHONUNBUFFERED": "1", **ours}


class RunningServer:
    """``keywright serve`` on a free port. ``settings`` are those of keywright.config.Settings; without
    ``database_url``, the database is a file in ``data_dir``. ``program`` is what is run in place of the
    installed command.
    """

    def __init__(self, data_dir: Path, *, program: Sequence[str] = (KEYWRIGHT,), **settings: object) -> None:
        self.data_dir = data_dir
        self._program = program
        self.database_url = str(settings.get("database_url") or f"sqlite:///{data_dir}/keywright.db")
        self.settings = {"log_format": "json", "log_calls": "all", **settings}
        self.port = 0
        self._log = data_dir.parent / f"{data_dir.name}.log"
        self._process: subprocess.Popen[bytes] | Forked
        self.start()

    def start(self, port: int = 0) -> None:
        """Start it on this port, or on any that is free."""
        command = [*self._program, "serve", "--data-dir", str(self.data_dir), "--port", str(port)]
        before = len(self.log)
        folder, variables = self.data_dir.parent, environment(**self.settings)
        forkable = None if _IS_MEASURED else _forkable(command)
        if forkable is not None:
            script, arguments, more = forkable
            self._process = fork(
                arguments, output=self._log, folder=folder, environment=variables | more, script=script
            )
        else:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
        found: list[str] = []

        def has_address() -> bool:
            assert self._process.poll() is None, f"the server ended at once:\n{self.log[before:]}"
            found.extend(_ADDRESS.findall(self.log, before))
            return bool(found)

        wait_until(has_address, "the server's address")
        self.port = int(found[0])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """All that the server has written, to stdout and stderr, in all its lives."""
        return self._log.read_text(encoding="utf-8") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        """The process that was started."""
        return self._process.pid

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(TIMEOUT)

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """``kill -9``."""
        self.signal(signal.SIGKILL)
        self.wait()

    def api_key(
        self, permissions: Permissions = Permissions.READ_WRITE, product_id: int | None = None
    ) -> tuple[str, str]:
        """A new consumer key and its secret."""
        with self.storage() as storage:
            issued = issue_api_key(storage, "a test", permissions, _now(), product_id=product_id)
        return issued.consumer_key, issued.consumer_secret

    def revoke(self, credentials: tuple[str, str]) -> None:
        """End this API key."""
        with self.storage() as storage:
            for one in run_read(storage, identity_store.list_api_keys):
                if credentials[0].endswith(one.key_suffix):
                    revoke_api_key(storage, one.id, _now())

    @contextmanager
    def storage(self) -> Iterator[Storage]:
        """The database, opened beside the server."""
        place = self._place
        if "database_url" in place:
            place["database_url"] = with_long_timeout(place["database_url"])
        with closing(open_installation(Settings(data_dir=self.data_dir, **place))) as storage:
            yield storage

    def cli(self, *arguments: str) -> str:
        """Run a command on the same data directory, and return what it prints."""
        command = [forking.command(), *arguments, "--data-dir", str(self.data_dir)]
        done = subprocess.run(
            command,
            cwd=self.data_dir.parent,
            env=environment(**self._place),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    @property
    def _place(self) -> dict[str, Any]:
        """The settings that say which database it is, and what its keys are sealed with."""
        return {name: value for name, value in self.settings.items() if name in ("database_url", "secret")}

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What the database itself says; ``?`` stands for a value."""
        path = database_path(self.database_url)
        if path is None:
            return execute(self.database_url, query.replace("?", "%s"), *values)
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.sql(f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608

    @contextmanager
    def holding_changes(self) -> Iterator[None]:
        """As if another process were writing: every change of a license waits until the block ends.

        On PostgreSQL it waits for two seconds at most, and is refused then.
        """
        path = database_path(self.database_url)
        if path is not None:
            with FileLock(f"{path}.lock"):
                yield
            return
        with closing(psycopg.connect(self.database_url)) as connection:
            connection.execute("LOCK TABLE licenses IN EXCLUSIVE MODE")
            yield
            connection.rollback()

    def assert_consistent(self) -> None:
        """The doctor finds nothing, beside the running server: every counter is the number of active
        records and within its limit, nothing is an orphan, the events tell the story, the file is sound.
        """
        with self.storage() as storage:
            found = list(examine(storage, lambda _: None))
        assert found == [], found
        if database_path(self.database_url) is not None:
            assert self.sql("PRAGMA integrity_check") == [("ok",)]


class _Installation:
    """A data directory with nothing in its database, to be copied: making one is most of a first start."""

    def __init__(self) -> None:
        self._folder = mkdtemp(prefix="keywright-")
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        settings = Settings(data_dir=Path(self._folder))
        open_installation(settings).close()
        self.key_ring = load_key_ring(settings)

    def copy_to(self, data_dir: Path, *, with_database: bool) -> None:
        ignored = shutil.ignore_patterns(*([] if with_database else ["keywright.db*"]))
        shutil.copytree(self._folder, data_dir, ignore=ignored)


_empty_installation = lru_cache(maxsize=1)(_Installation)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@contextmanager
def running(
    data_dir: Path, database: str = "sqlite", *, program: Sequence[str] = (KEYWRIGHT,), **settings: object
) -> Iterator[RunningServer]:
    """A server for as long as the block runs, on a new database of this kind; or, with ``database_url``,
    on that one.
    """
    with ExitStack() as stack:
        is_new = not {"database_url", "secret"} & settings.keys() and not data_dir.exists()
        if database == "postgresql" and "database_url" not in settings:
            url = (
                a_postgres_url(key_ring=_empty_installation().key_ring)
                if is_new
                else a_postgres_url(empty=True)
            )
            settings["database_url"] = stack.enter_context(url)
        if is_new:
            _empty_installation().copy_to(data_dir, with_database=database == "sqlite")
        server = RunningServer(data_dir, program=program, **settings)
        stack.callback(server.stop)
        yield server
