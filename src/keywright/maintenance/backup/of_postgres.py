"""A PostgreSQL database goes into a backup through pg_dump, and comes back in one transaction."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from keywright.core.crypto import KeyRing
from keywright.core.errors import RejectedByDatabase, StoreError
from keywright.db.schema import metadata
from keywright.db.session import Session
from keywright.db.urls import without_password
from keywright.maintenance.backup.container import CHUNK, Backup, Progress
from keywright.maintenance.backup.describing import (
    Described,
    Manifest,
    describe,
    require_replaceable,
    same,
    tables_there,
)
from keywright.maintenance.backup.programs import Program, connection_of, find, running

_KEPT = "nothing of it would be kept, so make a backup of it first, with `keywright backup`"
#: The role, and what else the URL says, may have limits that are for short transactions.
_UNHURRIED = """
SELECT set_config(name, value, true)
FROM (VALUES ('statement_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
             ('lock_timeout', '10s'), ('enable_seqscan', 'on')) AS wanted (name, value)
"""
#: Whoever starts a server reads this table first, and waits.
_DOOR = (
    "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))",
    "LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE",
)
_OTHERS = text(
    """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
       AND (application_name LIKE 'keywright%'
            OR split_part(application_name, ' +', 1) = current_setting('application_name'))"""
)
#: Every sequence of ours, and the last number that it gave.
_SEQUENCES = [
    *("license_numbers", "activation_numbers"),
    *(f"{table.name}_id_seq" for table in metadata.sorted_tables if table.autoincrement_column is not None),
]
_THERE = text("SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(name) IS NOT NULL")


class Dumped(NamedTuple):
    """What was dumped."""

    described: Described
    made_at: datetime
    dumped_by: str


def dump(url: str, target: Path, progress: Progress) -> Dumped:
    """Write the database, as it is now, into a new file, in pg_dump's custom format.

    Whoever reads or writes meanwhile is not kept waiting. Raises ``StoreError`` for a database that is not
    Keywright's, and where there is no pg_dump that can do it; ``StoreUnavailable`` when the server cannot be
    reached.
    """
    name = without_password(url)
    moment: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with closing(Session(url, **moment)) as session, session.transaction() as connection:
        connection.exec_driver_sql(_UNHURRIED)
        raw = _raw(connection)
        major = raw.info.server_version // 10_000
        program = find("pg_dump", needed=major, because=f"the server is of version {major}")
        # What is counted here and what pg_dump writes is of the same moment.
        snapshot = connection.execute(text("SELECT pg_export_snapshot()")).scalar_one()
        made_at = datetime.now(UTC).replace(microsecond=0)
        described = describe(connection, name)
        if described is None:
            raise StoreError(f"there is nothing of Keywright's in {name}.")
        wanted = [*tables_there(connection), *_sequences_there(connection)]
        where, hidden = connection_of(url, raw.info)
        arguments = [
            *("--format=custom", "--compress=1", "--no-owner", "--no-privileges", "--no-password"),
            *(f"--table={one}" for one in wanted),
            *(f"--snapshot={snapshot}", f"--dbname={where}"),
        ]
        with target.open("xb") as file, running(program, *arguments, environment=hidden) as dumped:
            while chunk := dumped.read(CHUNK):
                file.write(chunk)
                progress("dumped", file.tell(), 0)
    return Dumped(described, made_at, f"pg_dump {program.version}")


def put_back(
    backup: Backup,
    url: str,
    *,
    signed_by: KeyRing | None,
    is_overwriting: bool,
    before_replacing: Callable[[], None],
    progress: Progress,
) -> None:
    """Let the database of the backup take the place of this one, in one transaction.

    Raises ``StoreError`` when it may not be replaced, when somebody is connected to it, or when the backup
    is not whole; ``FateUnknown`` when the connection broke while the transaction was committed.
    """
    name = without_password(url)
    major = _major(backup.manifest.dumped_by)
    program = find("pg_restore", needed=major, because=f"the backup was made by {backup.manifest.dumped_by}")
    try:
        with closing(Session(url)) as session, session.transaction() as connection:
            numbers = _have_alone(connection, backup.manifest, name, is_overwriting=is_overwriting)
            backup.read(None, progress, signed_by=signed_by)
            _drop(connection)
            _run_script(connection, backup, program, signed_by, progress)
            found = describe(connection, name)
            if found is None or not same(found, backup.manifest):
                raise StoreError(f"{backup.path} says of its database what is not so. Take another backup.")
            _go_on_counting(connection, numbers)
            before_replacing()
    except RejectedByDatabase as problem:
        raise StoreError(
            f"the tables cannot be made in {name}: {problem}. The role needs the right to create tables "
            "there."
        ) from problem


def _have_alone(
    connection: Connection, manifest: Manifest, name: str, *, is_overwriting: bool
) -> dict[str, int]:
    """See to it that nobody else is there, nor comes until the end of the transaction; the last numbers that
    were given there.
    """
    connection.exec_driver_sql(_UNHURRIED)
    for statement in _DOOR:
        connection.exec_driver_sql(statement)
    there = describe(connection, name)
    require_replaceable(there, manifest, name, _KEPT, is_overwriting=is_overwriting)
    others = connection.execute(_OTHERS).scalar_one()
    if others:
        sessions = "1 session of Keywright is" if others == 1 else f"{others} sessions of Keywright are"
        raise StoreError(
            f"{name} is in use: {sessions} connected to it. Stop every server and command on it, then try "
            "again."
        )
    return _numbers(connection)


def _run_script(
    connection: Connection,
    backup: Backup,
    program: Program,
    signed_by: KeyRing | None,
    progress: Progress,
) -> None:
    """Make the tables, and fill them, as pg_restore says. It could connect and do that by itself, but not in
    this transaction, in which nobody else is there.
    """
    arguments = ("--no-owner", "--no-privileges", "--file=-")
    cursor = _raw(connection).cursor()

    def feed(pipe: BinaryIO) -> None:
        backup.read(pipe, progress, signed_by=signed_by)

    try:
        with running(program, *arguments, feed=feed) as script:
            for statement in _statements(script):
                if statement.startswith(b"COPY "):
                    with cursor.copy(statement) as rows:
                        for some in _rows(script):
                            rows.write(some)
                else:
                    cursor.execute(statement)
    except psycopg.Error as problem:
        words = str(problem).partition("\n")[0]
        raise StoreError(f"the server did not take the backup: {words}. Nothing was changed.") from None


def _statements(script: BinaryIO) -> Iterator[bytes]:
    """The statements of what pg_restore has written. The rows that belong to a COPY come after it in
    ``script``, and are to be read there before the next statement.
    """
    lines: list[bytes] = []
    for line in script:
        # Between statements there are remarks, commands to psql, and settings, which this session has.
        is_remark = line.startswith((b"--", b"\\", b"SET ", b"SELECT pg_catalog.set_config")) or line == b"\n"
        if lines or not is_remark:
            lines.append(line)
        if lines and line.endswith(b";\n"):
            yield b"".join(lines)
            lines.clear()


def _rows(script: BinaryIO) -> Iterator[bytes]:
    """What belongs to a COPY: https://www.postgresql.org/docs/current/sql-copy.html, "Text Format"."""
    some: list[bytes] = []
    size = 0
    for line in script:
        if line == b"\\.\n":
            break
        some.append(line)
        size += len(line)
        if size >= CHUNK:
            yield b"".join(some)
            some, size = [], 0
    yield b"".join(some)


def _drop(connection: Connection) -> None:
    """Make room. Raises ``StoreError`` where something of somebody else's needs our tables."""
    try:
        connection.exec_driver_sql(f"DROP TABLE {', '.join(tables_there(connection))}")
        # Those of a table have gone with it.
        for name in _sequences_there(connection):
            connection.exec_driver_sql(f"DROP SEQUENCE {name}")
    except DBAPIError as problem:
        words = str(problem.orig).partition("\n")[0]
        raise StoreError(f"what is there cannot be replaced: {words}. Nothing was changed.") from None


def _sequences_there(connection: Connection) -> list[str]:
    query = text(
        "SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(name) IS NOT NULL"
    )
    return list(connection.execute(query, {"names": _SEQUENCES}).scalars())


def _numbers(connection: Connection) -> dict[str, int]:
    """The last number that each sequence gave."""
    given = {}
    for name in _sequences_there(connection):
        query = f"SELECT last_value FROM {name} WHERE is_called"  # noqa: S608
        last = connection.exec_driver_sql(query).scalar()
        if last is not None:
            given[name] = int(last)
    return given


def _go_on_counting(connection: Connection, before: dict[str, int]) -> None:
    """Give no number that was given before, to whatever came after the backup."""
    now, there = _numbers(connection), _sequences_there(connection)
    for name, last in before.items():
        if name in there and last > now.get(name, 0):
            connection.execute(text("SELECT setval(:name, :last)"), {"name": name, "last": last})


def _major(dumped_by: str | None) -> int:
    digits = (dumped_by or "").partition(" ")[2].partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def _raw(connection: Connection) -> psycopg.Connection[Any]:
    return cast(psycopg.Connection[Any], connection.connection.driver_connection)
