"""Copies of an SQLite database, made before a migration, in the folder ``backups`` next to it."""

import re
import shutil
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from keywright.db.locks import rename_durably, sync_file
from keywright.db.sqlite import connect

#: The number of copies that are kept.
KEPT = 2
#: Bytes of the header that vary with writes and writers, not with the contents:
#: https://sqlite.org/fileformat2.html#the_database_header
_HEADER = 100
_VARYING = (slice(18, 20), slice(24, 28), slice(40, 44), slice(92, 100))
_CHUNK = 1 << 20


def name_pattern(database: Path) -> re.Pattern[str]:
    """Return a pattern for the names of its copies: the schema of each, and when it was made."""
    stem, suffix = re.escape(database.stem), re.escape(database.suffix)
    return re.compile(rf"{stem}-schema-(?P<schema>\w+)-(?P<day>\d{{8}})T(?P<time>\d{{6}})Z{suffix}", re.ASCII)


def make_copy(database: Path, revision: str) -> tuple[Path, bool]:
    """Return a copy of the database in its current state, and whether it was made now: an earlier attempt may
    have made it. The newest two copies are kept; no incomplete one remains. The caller holds the write lock.
    """
    folder = database.parent / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    _move_log(database)
    of_revision = [one for one in _list_copies(folder, database) if f"-schema-{revision}-" in one.name]
    copy = next((one for one in of_revision if _is_same(database, one)), None)
    is_new = copy is None
    if copy is None:
        draft = folder / f".{database.name}.copy"
        for left in (draft, Path(f"{draft}-journal")):
            left.unlink(missing_ok=True)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        copy = folder / f"{database.stem}-schema-{revision}-{stamp}{database.suffix}"
        write_copy(database, draft)
        rename_durably(draft, copy, is_overwriting=True)
    for one in [one for one in _list_copies(folder, database) if one != copy][KEPT - 1 :]:
        one.unlink(missing_ok=True)
    return copy, is_new


def write_copy(source: Path, target: Path) -> None:
    """Copy a consistent snapshot of a database, even while it is read, into a new file and sync that to disk;
    no incomplete file remains.
    """
    try:
        target.touch(mode=0o600, exist_ok=False)
        with closing(connect(source, "ro")) as old, closing(sqlite3.connect(target)) as new:
            new.execute("PRAGMA synchronous=OFF")
            old.backup(new)
            # A single file, which can be read anywhere without a log next to it.
            new.execute("PRAGMA journal_mode=DELETE")
        shutil.copymode(source, target)
        sync_file(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _list_copies(folder: Path, database: Path) -> list[Path]:
    """List the copies, newest first."""
    matches = map(name_pattern(database).fullmatch, (path.name for path in folder.iterdir()))
    found = sorted(((one["day"], one["time"], one[0]) for one in matches if one is not None), reverse=True)
    return [folder / name for _, _, name in found]


def _move_log(database: Path) -> None:
    """Checkpoint the write-ahead log into the database file, unless a reader prevents that."""
    with suppress(sqlite3.Error), closing(connect(database, "rw")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _is_same(database: Path, copy: Path) -> bool:
    """Whether the copy has the same contents as the database; False if a log makes that uncertain."""
    log = Path(f"{database}-wal")
    if (log.exists() and log.stat().st_size) or database.stat().st_size != copy.stat().st_size:
        return False
    with database.open("rb") as ours, copy.open("rb") as theirs:
        heads = [bytearray(one.read(_HEADER)) for one in (ours, theirs)]
        for head in heads:
            for part in _VARYING:
                head[part] = bytes(part.stop - part.start)
        rest = iter(partial(ours.read, _CHUNK), b"")
        return heads[0] == heads[1] and all(some == theirs.read(_CHUNK) for some in rest)
