"""One machine of the cluster: PostgreSQL under Patroni, and a member of etcd."""

import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from drill import patroni, programs
from drill.folders import kill_all_in
from drill.places import Place
from drill.trouble import Trouble

#: How long a node may take to shut down.
_TIMEOUT = 60.0
#: libpq waits at least 2 s.
_CONNECT_SECONDS = 2


class Node:
    """A node in its place; ``peers`` are the places of the others."""

    def __init__(self, place: Place, peers: list[Place], folder: Path, *, synchronous: bool) -> None:
        self.name = place.name
        self.place = place
        self.log = folder.with_suffix(".log")
        self._peers = peers
        self._folder = folder
        self._etcd: subprocess.Popen[bytes] | None = None
        self._patroni: subprocess.Popen[bytes] | None = None
        self._configuration = folder / "patroni.yml"
        self._configuration.write_text(
            patroni.configuration(place, peers, str(folder), synchronous=synchronous)
        )

    def start(self) -> None:
        """Start its programs; returns at once."""
        command = patroni.etcd_command(self.place, self._peers, str(self._folder))
        self._etcd = programs.start(command, self._folder, self.log, self.place.prefix)
        command = [programs.patroni(), str(self._configuration)]
        self._patroni = programs.start(command, self._folder, self.log, self.place.prefix)

    def check(self) -> None:
        """Raises ``Trouble`` when a program has ended that nobody stopped."""
        for name, program in (("etcd", self._etcd), ("Patroni", self._patroni)):
            if program is not None and program.poll() is not None:
                raise Trouble(f"{name} of {self.name} has ended:\n{self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End all its processes at once, as when a machine is lost."""
        kill_all_in(self._folder)
        for program in (self._patroni, self._etcd):
            if program is not None:
                program.wait()
        self._patroni = self._etcd = None

    def begin_stop(self) -> None:
        """Have Patroni shut PostgreSQL down and give up its lease; returns at once."""
        assert self._patroni is not None
        self._patroni.terminate()

    def end_stop(self) -> None:
        """Return when that is done and etcd has ended, too, as when a machine is shut down."""
        for program in (self._patroni, self._etcd):
            assert program is not None
            program.terminate()
            program.wait(_TIMEOUT)
        self._patroni = self._etcd = None

    def query(self, query: LiteralString) -> list[tuple[Any, ...]]:
        """Ask its PostgreSQL, as superuser. Raises ``psycopg.Error``."""
        with closing(self._connect("postgres")) as connection:
            return connection.execute(query).fetchall()

    def query_at_once(self, database: str, *queries: LiteralString) -> list[list[tuple[Any, ...]]]:
        """Ask several questions of the same moment of this database. Raises ``psycopg.Error``."""
        with closing(self._connect(database)) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            return [connection.execute(query).fetchall() for query in queries]

    def execute(self, statement: LiteralString) -> None:
        """Tell its PostgreSQL to do this, as superuser. Raises ``psycopg.Error``."""
        with closing(self._connect("postgres")) as connection:
            connection.execute(statement)

    def is_primary(self) -> bool:
        """Whether its PostgreSQL can be reached and takes changes."""
        with suppress(psycopg.Error):
            return self.query("SELECT pg_is_in_recovery()") == [(False,)]
        return False

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(
            host=self.place.outside,
            port=self.place.ports.postgres,
            user=patroni.SUPERUSER,
            dbname=database,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            tcp_user_timeout=10_000,
            options="-c statement_timeout=60s",
        )
