"""Back up and restore an SQLite database."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.exc import DBAPIError

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreBusy, StoreError
from keywright.db.locks import new_file, private_folder, rename_durably, sync_file, sync_folder
from keywright.db.migrate import migrate_sqlite
from keywright.db.sqlite import SqliteStorage, connect, make_engine, refuse_network_file_system
from keywright.events.outbox_store import HOLD_WAITING, STOP_NOTIFYING
from keywright.maintenance.backup.archive import Backup, Progress
from keywright.maintenance.backup.manifest import Description, describe, require_match, require_replaceable
from keywright.maintenance.clock import believing

#: The number of 4 KiB pages to copy at once; Ctrl-C works in between.
_PAGES_AT_ONCE = 2_048
#: The seconds to wait for other processes that have the file open; a server has it open all the time.
_LOCK_TIMEOUT = 2.0
_CONSEQUENCE = "its file would be kept next to the new one"
_EXISTS = "SELECT count(*) FROM sqlite_master WHERE name = ?"
#: The tables with the last assigned IDs, and their column: of licenses and activations, then of tables whose
#: IDs SQLite assigns.
_SEQUENCE_TABLES = {"sequences": "last_id", "sqlite_sequence": "seq"}


def dump(path: Path, copy: Path, progress: Progress) -> tuple[Description, datetime]:
    """Copy a snapshot of the database to a new file; return its description and the moment of the snapshot.

    Readers and writers are not blocked. Raises ``StoreError`` for a database that is not Keywright's, or is
    damaged.
    """
    copy.touch(mode=0o600, exist_ok=False)
    with closing(connect(path, "ro")) as source:
        # SQLite's online backup starts over whenever another process writes, and never ends under constant
        # load. Within a transaction, it copies a snapshot regardless of concurrent writes. The price: the log
        # cannot be reused, and grows, until the copy ends.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_master").fetchall()
        made_at = datetime.now(UTC).replace(microsecond=0)
        with closing(sqlite3.connect(copy, isolation_level=None)) as target:
            # Durability is not needed: an incomplete copy is removed anyway.
            target.execute("PRAGMA synchronous=OFF")
            source.backup(
                target,
                pages=_PAGES_AT_ONCE,
                progress=lambda _, left, pages: progress("copied", (pages - left) * 4096, pages * 4096),
            )
            # A single file, without a log next to it.
            target.execute("PRAGMA journal_mode=DELETE")
    return _require_undamaged(copy, str(path)), made_at


def restore(
    backup: Backup,
    path: Path,
    key_ring: KeyRing,
    *,
    signed_by: KeyRing | None,
    is_overwriting: bool,
    before_replacing: Callable[[], None],
    progress: Progress,
) -> Path | None:
    """Replace this file with the database of the backup, atomically. Return the file to which the old
    database was copied, if it was not empty.

    Raises ``StoreError`` if it may not be replaced, if another process has it open, or if the backup is
    damaged.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_network_file_system(path.parent)
    target = path.resolve()
    try:
        with closing(SqliteStorage(path, key_ring)) as storage, storage.write_lock():
            existing = _describe_file(target)
            require_replaceable(
                existing, backup.manifest, str(path), _CONSEQUENCE, is_overwriting=is_overwriting
            )
            with _lock_exclusively(target) as old, private_folder(target.parent) as folder:
                new = folder / target.name
                _extract(backup, new, signed_by, progress)
                with closing(SqliteStorage(new, key_ring)) as extracted:
                    migrate_sqlite(extracted, key_ring)
                _continue_sequences(new, old)
                before_replacing()
                is_kept = existing is not None and not existing.contents.is_empty
                return _replace(target, new, old, is_kept=is_kept)
    except StoreBusy:
        raise _in_use_error(path) from None


def _describe_file(path: Path) -> Description | None:
    if not path.exists():
        return None
    try:
        with closing(make_engine(path, "ro").connect()) as connection, connection.begin():
            return describe(connection, str(path))
    except DBAPIError as problem:
        raise _unreadable_error(path, problem.orig) from None


@contextmanager
def _lock_exclusively(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Connect exclusively to a file, without a log next to it; yield None if the file does not exist."""
    if not path.exists():
        yield None
        return
    uri = f"file:{quote(str(path))}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_LOCK_TIMEOUT)) as old:
        try:
            # To leave WAL mode, SQLite needs exclusive access to the file, and then keeps its lock. A journal
            # on disk would need a rollback by a process with write access, if this one were killed; and it
            # would finally be removed by its name, which by then belongs to the new file.
            old.execute("PRAGMA locking_mode=EXCLUSIVE")
            if old.execute("PRAGMA journal_mode=MEMORY").fetchone() != ("memory",):
                raise _in_use_error(path)
            old.execute("BEGIN EXCLUSIVE")
            old.execute("COMMIT")
        except sqlite3.Error as problem:
            code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise _in_use_error(path) from None
            raise _unreadable_error(path, problem) from None
        try:
            yield old
        except BaseException:
            with suppress(sqlite3.Error):
                old.execute("PRAGMA journal_mode=WAL")
            raise


def _extract(backup: Backup, new: Path, signed_by: KeyRing | None, progress: Progress) -> None:
    """Write the backup's database to a new file, and check it against the manifest."""
    with new_file(new) as file:
        backup.read(file, progress, signed_by=signed_by)
    database = _require_undamaged(new, f"the database in {backup.path}")
    require_match(database, backup.manifest, backup.path)


def _require_undamaged(path: Path, name: str) -> Description:
    """Describe the file. Raises ``StoreError`` for a damaged database, or one that is not Keywright's."""
    with closing(make_engine(path, "ro").connect()) as connection, connection.begin():
        damage = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        if damage != "ok":
            raise StoreError(
                f"{name} is damaged ({damage}), so a backup of it would be useless. Keep the existing "
                "backups; `keywright doctor` shows details."
            )
        description = describe(connection, name)
    if description is None:
        raise StoreError(f"{name} contains no tables of Keywright.")
    return description


def _continue_sequences(new: Path, old: sqlite3.Connection | None) -> None:
    """Continue the ID sequences of the old file, so that IDs assigned since the backup are not reused. Hold
    waiting mails, and cancel unfinished mailing jobs: they may have been sent since. Save the current time as
    plausible.
    """
    with closing(connect(new, "rw")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for table, column in _SEQUENCE_TABLES.items():
            restored = _last_numbers(connection, table, column)
            for name, last in _last_numbers(old, table, column).items():
                if name not in restored:
                    connection.execute(f"INSERT INTO {table} VALUES (?, ?)", (name, last))  # noqa: S608
                elif last > restored[name]:
                    statement = f"UPDATE {table} SET {column} = ? WHERE name = ?"  # noqa: S608
                    connection.execute(statement, (last, name))
        if connection.execute(_EXISTS, ("mail_outbox",)).fetchone() == (1,):
            connection.execute(HOLD_WAITING)
            connection.execute(STOP_NOTIFYING)
            connection.execute(believing(datetime.now(UTC)))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _last_numbers(connection: sqlite3.Connection | None, table: str, column: str) -> dict[str, int]:
    if connection is None or connection.execute(_EXISTS, (table,)).fetchone() == (0,):
        return {}
    return dict(connection.execute(f"SELECT name, {column} FROM {table}"))  # noqa: S608


def _replace(target: Path, new: Path, old: sqlite3.Connection | None, *, is_kept: bool) -> Path | None:
    """Rename the new file to the old one's name. At every moment, the file with that name is complete."""
    suffix = f".before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    sync_file(new)
    if old is None:
        # SQLite would mistake the log of a removed database for that of the new one.
        for leftover in (f"{target}-wal", f"{target}-journal", f"{target}-shm"):
            with suppress(FileNotFoundError):
                os.rename(leftover, f"{leftover}{suffix}")
        new.replace(target)
        sync_folder(target.parent)
        return None
    kept = _keep(old, new.with_name("kept"), f"{target}{suffix}") if is_kept else None
    Path(f"{target}-shm").unlink(missing_ok=True)
    with target.open("rb+") as file:
        new.replace(target)
        sync_folder(target.parent)
        # A process that opened the old file just now, and waits for the lock, finds it empty and opens it
        # again; otherwise it would keep working on the old database. If the file has another name, too, keep
        # it: it may be its owner's backup.
        if not os.fstat(file.fileno()).st_nlink:
            file.truncate(0)
    return kept


def _keep(old: sqlite3.Connection, draft: Path, name: str) -> Path:
    """Copy the old database to a file with this name, with a number added if the name is taken."""
    with new_file(draft), closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        old.backup(copy)
    for number in count(1):
        kept = Path(name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            rename_durably(draft, kept, is_overwriting=False)
            break
    return kept


def _in_use_error(path: Path) -> StoreError:
    return StoreError(f"{path} is in use by a server or another command. Stop it, then try again.")


def _unreadable_error(path: Path, problem: object) -> StoreError:
    return StoreError(
        f"{path} cannot be read ({problem}). To restore, first move it away, together with {path.name}-wal "
        f"and {path.name}-journal, if they exist."
    )
