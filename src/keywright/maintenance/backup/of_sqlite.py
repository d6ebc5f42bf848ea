"""An SQLite database goes into a backup and comes back, as one file."""

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
from keywright.db.migrate import migrate_sqlite
from keywright.db.sqlite import SqliteStorage, connect, engine, refuse_network_file_system
from keywright.maintenance.backup.container import Backup, Progress
from keywright.maintenance.backup.describing import Described, describe, require_replaceable, same
from keywright.maintenance.backup.files import give_name, new_file, sync_folder, workplace

#: How much is copied at once, in pages of 4 KiB; in between, Ctrl-C is heard.
_PAGES = 2_048
#: How long it is waited for others who have the file open, in seconds; a server has it open all the time.
_PATIENCE = 2.0
_KEPT = "the file would be kept beside the new one"
#: The last numbers given, by name: of licenses and activations, then of what SQLite numbers itself.
_NUMBERS = {"sequences": "last_id", "sqlite_sequence": "seq"}


def copy_out(path: Path, copy: Path, progress: Progress) -> tuple[Described, datetime]:
    """Copy the database, as it is now, into a new file; what it is, and the moment that the copy shows.

    Whoever reads or writes meanwhile is not kept waiting. Raises ``StoreError`` for a database that is not
    Keywright's, or not sound.
    """
    copy.touch(mode=0o600, exist_ok=False)
    with closing(connect(path, "ro")) as source:
        # SQLite's online backup begins again whenever another process has written, and under a constant load
        # never ends. Within a transaction, it copies what that transaction sees: one moment, whatever is
        # written meanwhile. The price: the log cannot begin anew before it ends, and grows until then.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_master").fetchall()
        made_at = datetime.now(UTC).replace(microsecond=0)
        with closing(sqlite3.connect(copy, isolation_level=None)) as target:
            # Whatever goes wrong, nobody wants the half of it.
            target.execute("PRAGMA synchronous=OFF")
            source.backup(target, pages=_PAGES, progress=_in_pages(progress))
            # One file, which can be read wherever it is, without a log beside it.
            target.execute("PRAGMA journal_mode=DELETE")
    return _sound(copy, str(path)), made_at


def put_back(
    backup: Backup,
    path: Path,
    key_ring: KeyRing,
    *,
    signed_by: KeyRing | None,
    is_overwriting: bool,
    before_replacing: Callable[[], None],
    progress: Progress,
) -> Path | None:
    """Let the database of the backup take the place of this file: nothing is changed until the end, and then
    all of it at once. Where the old one is kept, if there was something in it.

    Raises ``StoreError`` when it may not be replaced, when somebody has it open, or when the backup is not
    whole.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_network_file_system(path.parent)
    place = path.resolve()
    try:
        with closing(SqliteStorage(path, key_ring)) as storage, storage.exclusively():
            there = _look(place)
            require_replaceable(there, backup.manifest, str(path), _KEPT, is_overwriting=is_overwriting)
            with _alone(place) as old, workplace(place.parent) as folder:
                new = folder / place.name
                _read_out(backup, new, signed_by, progress)
                with closing(SqliteStorage(new, key_ring)) as read_out:
                    migrate_sqlite(read_out, key_ring)
                _go_on_counting(new, old)
                before_replacing()
                is_kept = there is not None and not there.contents.is_empty
                return _replace(place, new, old, is_kept=is_kept)
    except StoreBusy:
        raise _in_use(path) from None


def _look(path: Path) -> Described | None:
    """What is in the file now; None when nothing is."""
    if not path.exists():
        return None
    try:
        with closing(engine(path, "ro").connect()) as connection, connection.begin():
            return describe(connection, str(path))
    except DBAPIError as problem:
        raise _unreadable(path, problem.orig) from None


@contextmanager
def _alone(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Have a file that exists to oneself, without a log beside it: everything is in the file."""
    if not path.exists():
        yield None
        return
    where = f"file:{quote(str(path))}?mode=rw"
    with closing(sqlite3.connect(where, uri=True, isolation_level=None, timeout=_PATIENCE)) as old:
        try:
            # To leave the log, SQLite must be alone with the file, and what it has locked it keeps. A journal
            # on the disk would need somebody who may write, if this process were killed; and it would be
            # removed by its name in the end, which is the new file's then.
            old.execute("PRAGMA locking_mode=EXCLUSIVE")
            if old.execute("PRAGMA journal_mode=MEMORY").fetchone() != ("memory",):
                raise _in_use(path)
            old.execute("BEGIN EXCLUSIVE")
            old.execute("COMMIT")
        except sqlite3.Error as problem:
            code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise _in_use(path) from None
            raise _unreadable(path, problem) from None
        try:
            yield old
        except BaseException:
            with suppress(sqlite3.Error):
                old.execute("PRAGMA journal_mode=WAL")
            raise


def _read_out(backup: Backup, new: Path, signed_by: KeyRing | None, progress: Progress) -> None:
    """The database of a backup, in a new file, as it was."""
    with new_file(new) as file:
        backup.read(file, progress, signed_by=signed_by)
    if not same(_sound(new, f"the database in {backup.path}"), backup.manifest):
        raise StoreError(f"{backup.path} says of its database what is not so. Take another backup.")


def _sound(path: Path, name: str) -> Described:
    """What the file is. Raises ``StoreError`` unless it is a sound database of Keywright's."""
    with closing(engine(path, "ro").connect()) as connection, connection.begin():
        damage = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        if damage != "ok":
            raise StoreError(
                f"{name} is damaged ({damage}), and no backup of it would be of use. Keep the backups that "
                "there are; `keywright doctor` says more."
            )
        described = describe(connection, name)
    if described is None:
        raise StoreError(f"there is nothing of Keywright's in {name}.")
    return described


def _go_on_counting(new: Path, old: sqlite3.Connection | None) -> None:
    """Let the new file give no number that the old one has given, to whatever came after the backup."""
    with closing(connect(new, "rw")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for table, column in _NUMBERS.items():
            for name, last in _numbers(old, table, column).items():
                mine = _numbers(connection, table, column)
                if name not in mine:
                    connection.execute(f"INSERT INTO {table} VALUES (?, ?)", (name, last))  # noqa: S608
                elif last > mine[name]:
                    words = f"UPDATE {table} SET {column} = ? WHERE name = ?"  # noqa: S608
                    connection.execute(words, (last, name))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _numbers(connection: sqlite3.Connection | None, table: str, column: str) -> dict[str, int]:
    known = "SELECT count(*) FROM sqlite_master WHERE name = ?"
    if connection is None or connection.execute(known, (table,)).fetchone() == (0,):
        return {}
    return dict(connection.execute(f"SELECT name, {column} FROM {table}"))  # noqa: S608


def _replace(place: Path, new: Path, old: sqlite3.Connection | None, *, is_kept: bool) -> Path | None:
    """Let the new file have the old one's name. At each moment, the file of that name is whole."""
    mark = f".before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    _sync(new)
    if old is None:
        # What a database left behind that was taken away would be taken for a part of the new one.
        for rest in (f"{place}-wal", f"{place}-journal", f"{place}-shm"):
            with suppress(FileNotFoundError):
                os.rename(rest, f"{rest}{mark}")
        new.replace(place)
        sync_folder(place.parent)
        return None
    kept = _keep(old, new.with_name("kept"), f"{place}{mark}") if is_kept else None
    Path(f"{place}-shm").unlink(missing_ok=True)
    with place.open("rb+") as file:
        new.replace(place)
        sync_folder(place.parent)
        # Whoever opened the old file in this very moment and waits for the lock finds nothing in it, and
        # opens it again; else it would see for ever what was there before. Another name for it may be
        # somebody's idea of a backup.
        if not os.fstat(file.fileno()).st_nlink:
            file.truncate(0)
    return kept


def _keep(old: sqlite3.Connection, draft: Path, name: str) -> Path:
    """Copy the old database into a file of this name, or of one like it that is free."""
    with new_file(draft), closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        old.backup(copy)
    for more in count(1):
        kept = Path(name if more == 1 else f"{name}-{more}")
        with suppress(FileExistsError):
            give_name(draft, kept, is_overwriting=False)
            break
    return kept


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _in_pages(progress: Progress) -> Callable[[int, int, int], None]:
    return lambda _status, left, pages: progress("copied", (pages - left) * 4096, pages * 4096)


def _in_use(path: Path) -> StoreError:
    return StoreError(
        f"{path} is in use: a server is running on it, or another command. Stop the server, then try again."
    )


def _unreadable(path: Path, problem: object) -> StoreError:
    return StoreError(
        f"{path} cannot be read ({problem}). To restore, move it away first, and with it {path.name}-wal and "
        f"{path.name}-journal, if they are there."
    )
