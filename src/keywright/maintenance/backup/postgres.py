"""Back up and restore PostgreSQL databases with pg_dump and pg_restore.

pg_restore only generates SQL, which this module runs on its own connection, because the transaction does more
than pg_restore can: lock servers out, check the result against the manifest, and advance the sequences
(docs/decisions/014-backups.md).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, BinaryIO, NamedTuple, cast

import psycopg
from psycopg import ConnectionInfo
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from keywright.core.crypto import KeyRing
from keywright.core.errors import ConfigurationError, RejectedByDatabase, StoreError
from keywright.db.locks import private_folder
from keywright.db.migrate import LOCK_OUT_SERVERS
from keywright.db.schema import ID_KINDS, metadata
from keywright.db.session import COUNT_SESSIONS, Session
from keywright.db.urls import without_password
from keywright.events.outbox_store import HOLD_WAITING, STOP_NOTIFYING
from keywright.maintenance.backup.archive import CHUNK, Backup, Progress
from keywright.maintenance.backup.manifest import (
    Description,
    Manifest,
    describe,
    list_tables,
    require_match,
    require_replaceable,
)
from keywright.maintenance.clock import believing

_VERSION = re.compile(r"\(PostgreSQL\) ((\d+)[^\s]*)")
_VERSION_TIMEOUT = 10.0
#: The application name of a backup's connection, shown in the server's list of connections.
APPLICATION = "keywright-backup"


class Program(NamedTuple):
    """A program on PATH."""

    name: str
    path: str
    #: As the program prints it, such as 18.4.
    version: str


def find_program(name: str, *, needed: int, reason: str) -> Program:
    """Find a program on PATH. Raises ``StoreError`` if it is missing or its major version is too old."""
    cure = (
        f"Install version {needed} or newer of PostgreSQL's client programs (on Debian and Ubuntu: "
        f"postgresql-client-{needed}), and make sure that they come first on PATH."
    )
    path = shutil.which(name)
    if path is None:
        raise StoreError(f"{name} is not on PATH, and {reason}. {cure}")
    answer = subprocess.run(  # noqa: S603
        [path, "--version"], capture_output=True, text=True, check=False, timeout=_VERSION_TIMEOUT
    )
    version = _VERSION.search(answer.stdout)
    if version is None:
        raise StoreError(f"{path} does not report its version, and {reason}. {cure}")
    if int(version[2]) < needed:
        raise StoreError(f"{path} has version {version[1]}, which is too old: {reason}. {cure}")
    return Program(name, path, version[1])


@contextmanager
def run_program(
    program: Program, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[BinaryIO]:
    """Run the program; the ``with`` block must read its output to the end.

    The program is killed if the block raises an exception. Raises ``StoreError`` if the program fails.
    """
    with TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603
            [program.path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(environment or {})},
        )
        output = cast(BinaryIO, process.stdout)
        try:
            yield output
        except BaseException:
            process.kill()
            raise
        finally:
            output.close()
            status = process.wait()
        if status:
            errors.seek(0)
            message = errors.read().decode(errors="replace").replace(f"{program.name}: ", "")
            message = "; ".join(message.split("\n")).strip("; ") or f"status {status}"
            raise StoreError(f"{program.name} failed: {message}.")


def hide_passwords(url: str, info: ConnectionInfo) -> tuple[str, dict[str, str]]:
    """Return a connection string for the same server that ``info`` is connected to, and environment variables
    for the URL's secrets, which must not appear in the process list.

    Raises ``ConfigurationError`` for a secret that libpq does not read from the environment.
    """
    parameters = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    parameters |= {"host": info.host, "port": str(info.port)}
    parameters.setdefault("application_name", APPLICATION)
    if "hostaddr" in parameters:
        parameters["hostaddr"] = info.hostaddr
    variables = {}
    for option in Conninfo.get_defaults():
        name = option.keyword.decode()
        if name in parameters and option.dispchar == b"*":
            if option.envvar is None:
                raise ConfigurationError(
                    f"{name} in the database URL would be visible in the list of processes."
                )
            variables[option.envvar.decode()] = parameters.pop(name)
    return make_conninfo("", **parameters), variables


_CONSEQUENCE = "none of it would be kept, so back it up first with `keywright backup`"
#: Override limits that the role or the URL sets for short transactions.
_LIFT_LIMITS = """
SELECT set_config(name, value, true)
FROM (VALUES ('statement_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
             ('lock_timeout', '10s'), ('enable_seqscan', 'on')) AS wanted (name, value)
"""
_SEQUENCES = [
    *(f"{kind}_id_seq" for kind in ID_KINDS),
    *(f"{table.name}_id_seq" for table in metadata.sorted_tables if table.autoincrement_column is not None),
]
_EXISTING = text(
    "SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(name) IS NOT NULL"
)
#: The beginnings of pg_restore's lines to omit: psql commands, and settings, which this session has already.
_LEFT_OUT = (b"\\", b"SET ", b"SELECT pg_catalog.set_config(")
#: https://www.postgresql.org/docs/current/sql-copy.html, "Text Format".
_END_OF_ROWS = b"\\.\n"
#: How many rows of a COPY to send at once: a row may have megabytes.
_ROWS_AT_ONCE = 20


class Dump(NamedTuple):
    """The description of a dumped database, and the program that dumped it."""

    description: Description
    made_at: datetime
    dumped_by: str


def dump(url: str, target: Path, progress: Progress) -> Dump:
    """Write a snapshot of the database to a new file, in pg_dump's custom format.

    Readers and writers are not blocked. Raises ``StoreError`` for a database that is not Keywright's, and if
    there is no suitable pg_dump; ``StoreUnavailable`` if the server cannot be reached.
    """
    name = without_password(url)
    options: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with closing(Session(url, **options)) as session, session.transaction() as connection:
        connection.exec_driver_sql(_LIFT_LIMITS)
        driver = _driver_connection(connection)
        major = driver.info.server_version // 10_000
        program = find_program("pg_dump", needed=major, reason=f"the server has version {major}")
        # pg_dump uses the same snapshot as the row counts here.
        snapshot = connection.execute(text("SELECT pg_export_snapshot()")).scalar_one()
        made_at = datetime.now(UTC).replace(microsecond=0)
        description = describe(connection, name)
        if description is None:
            raise StoreError(f"{name} contains no tables of Keywright.")
        conninfo, environment = hide_passwords(url, driver.info)
        arguments = [
            *("--format=custom", "--compress=1", "--no-owner", "--no-privileges", "--no-password"),
            *(f"--table={one}" for one in (*list_tables(connection), *_list_sequences(connection))),
            *(f"--snapshot={snapshot}", f"--dbname={conninfo}"),
        ]
        with target.open("xb") as file, run_program(program, *arguments, environment=environment) as output:
            while chunk := output.read(CHUNK):
                file.write(chunk)
                progress("dumped", file.tell(), 0)
    return Dump(description, made_at, f"pg_dump {program.version}")


def restore(
    backup: Backup,
    url: str,
    *,
    signed_by: KeyRing | None,
    is_overwriting: bool,
    before_replacing: Callable[[], None],
    progress: Progress,
) -> None:
    """Replace this database with that of the backup, in one transaction.

    Raises ``StoreError`` if it may not be replaced, if a server or command is connected to it, or if the
    backup is damaged; ``FateUnknown`` if the connection breaks during the commit.
    """
    name, dumped_by = without_password(url), backup.manifest.dumped_by
    reason = f"the backup was made by {dumped_by}"
    program = find_program("pg_restore", needed=_major_version(dumped_by), reason=reason)
    try:
        with closing(Session(url)) as session, session.transaction() as connection:
            _lock_out_servers(connection, backup.manifest, name, is_overwriting=is_overwriting)
            last_numbers = _last_numbers(connection)
            with private_folder(Path(gettempdir())) as folder:
                # Let pg_restore read a checked copy: the backup's own file may change after the check.
                payload = folder / "payload"
                with payload.open("xb") as file:
                    backup.read(file, progress, signed_by=signed_by)
                _drop(connection)
                arguments = ("--no-owner", "--no-privileges", "--file=-", str(payload))
                with run_program(program, *arguments) as script:
                    _run_script(connection, script)
            require_match(describe(connection, name), backup.manifest, backup.path)
            _continue_sequences(connection, last_numbers)
            if connection.execute(text("SELECT to_regclass('mail_outbox')")).scalar() is not None:
                # Hold and cancel mails: they may have been sent since the backup was made.
                connection.execute(text(HOLD_WAITING))
                connection.execute(text(STOP_NOTIFYING))
                connection.execute(text(believing(datetime.now(UTC))))
            before_replacing()
    except RejectedByDatabase as problem:
        raise StoreError(
            f"the tables cannot be created in {name}: {problem}. The role needs permission to create "
            "tables there."
        ) from problem


def _lock_out_servers(connection: Connection, manifest: Manifest, name: str, *, is_overwriting: bool) -> None:
    """Raise ``StoreError`` if a server or command is connected; prevent new ones during the transaction."""
    connection.exec_driver_sql(_LIFT_LIMITS)
    for statement in LOCK_OUT_SERVERS:
        connection.exec_driver_sql(statement)
    existing = describe(connection, name)
    require_replaceable(existing, manifest, name, _CONSEQUENCE, is_overwriting=is_overwriting)
    count = connection.execute(text(COUNT_SESSIONS)).scalar_one()
    if count:
        sessions = "1 session of Keywright is" if count == 1 else f"{count} sessions of Keywright are"
        raise StoreError(
            f"{name} is in use: {sessions} connected to it. Stop every server and command on it, then try "
            "again."
        )


def _run_script(connection: Connection, script: BinaryIO) -> None:
    """Run the SQL that pg_restore writes; send the rows that follow a COPY through the copy protocol."""
    cursor = _driver_connection(connection).cursor()
    statements: list[bytes] = []
    try:
        for line in script:
            if line.startswith(b"COPY "):
                cursor.execute(b"".join(statements))
                statements.clear()
                rows = takewhile(lambda row: row != _END_OF_ROWS, script)
                with cursor.copy(line) as target:
                    while some := b"".join(islice(rows, _ROWS_AT_ONCE)):
                        target.write(some)
            elif not line.startswith(_LEFT_OUT):
                statements.append(line)
        cursor.execute(b"".join(statements))
    except psycopg.Error as problem:
        message = str(problem).partition("\n")[0]
        raise StoreError(f"the server rejected the backup: {message}. Nothing was changed.") from None


def _drop(connection: Connection) -> None:
    """Drop Keywright's tables. Raises ``StoreError`` if another program's objects depend on them."""
    try:
        connection.exec_driver_sql(f"DROP TABLE {', '.join(list_tables(connection))}")
        # The sequences of a table are dropped with it.
        for name in _list_sequences(connection):
            connection.exec_driver_sql(f"DROP SEQUENCE {name}")
    except DBAPIError as problem:
        message = str(problem.orig).partition("\n")[0]
        raise StoreError(f"the existing tables cannot be replaced: {message}. Nothing was changed.") from None


def _list_sequences(connection: Connection) -> list[str]:
    return list(connection.execute(_EXISTING, {"names": _SEQUENCES}).scalars())


def _last_numbers(connection: Connection) -> dict[str, int]:
    numbers = {}
    for name in _list_sequences(connection):
        query = f"SELECT last_value FROM {name} WHERE is_called"  # noqa: S608
        last = connection.exec_driver_sql(query).scalar()
        if last is not None:
            numbers[name] = int(last)
    return numbers


def _continue_sequences(connection: Connection, last_numbers: dict[str, int]) -> None:
    """Advance each sequence to its last ID before the restore: IDs used since the backup are not reused."""
    restored, existing = _last_numbers(connection), _list_sequences(connection)
    for name, last in last_numbers.items():
        if name in existing and last > restored.get(name, 0):
            connection.execute(text("SELECT setval(:name, :last)"), {"name": name, "last": last})


def _major_version(dumped_by: str | None) -> int:
    digits = (dumped_by or "").partition(" ")[2].partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def _driver_connection(connection: Connection) -> psycopg.Connection[Any]:
    return cast(psycopg.Connection[Any], connection.connection.driver_connection)
