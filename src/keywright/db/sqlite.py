"""What is special about SQLite: one file, one writer, and answers without a wait.

WAL with ``synchronous=FULL``: an acknowledged commit survives the loss of power. SQLite 3.7.0–3.51.2
can corrupt a WAL database when two connections write or checkpoint at the same instant
(https://sqlite.org/wal.html, "The WAL-reset bug"), so whoever writes, from whichever process, holds
one lock file and its folder's lock; readers are read-only and never checkpoint.
"""

import logging
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    Connection,
    Engine,
    bindparam,
    create_engine,
    event,
    exc,
    pool,
    select,
    update,
)

from keywright.core.crypto import KeyRing
from keywright.core.errors import FateUnknown, RejectedByDatabase, StoreBusy, StoreError, StoreUnavailable
from keywright.db.locks import PathLock
from keywright.db.schema import sequences
from keywright.db.secret_ids import QUERY, require_secrets
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: How long a write waits for other processes' writes, in seconds.
LOCK_TIMEOUT = 20.0
#: What one connection keeps of the file in memory, in KiB.
_CACHE_KIB = 16 * 1024
#: The same for who reads beside the others: pages, and long work, one for each thread. What they look at is
#: in the operating system's memory, too.
_CACHE_BESIDE_KIB = 2 * 1024
#: What the write-ahead log shrinks to when nobody needs more of it, in bytes. It grows as long as a reader
#: looks at one moment, and would keep that size.
_MOST_LOG_KEPT = 32 * 1024 * 1024
#: What the database says of a value; everything else it says is about itself.
_REJECTIONS = (exc.IntegrityError, exc.DataError, exc.ProgrammingError, exc.InterfaceError)
_MOUNTS = Path("/proc/self/mounts")
_NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs afs ncpfs lustre gpfs glusterfs fuse.glusterfs fuse.sshfs ceph".split()
)

_LAST_NUMBER = select(sequences.c.last_id).where(sequences.c.name == bindparam("name"))
_SET_LAST_NUMBER = (
    update(sequences).where(sequences.c.name == bindparam("where_name")).values(last_id=bindparam("last_id"))
)

log = logging.getLogger(__name__)


class SqliteStorage:
    """One database file. ``read`` from any number of processes, ``write`` from one at a time.

    One object is for one ``write`` and one ``read`` at a time, from whichever thread; whoever has
    several threads sees to that (the desk does).
    """

    #: Its answers come at once: waiting for them in another thread would take longer.
    is_local = True

    def __init__(
        self,
        path: Path,
        key_ring: KeyRing,
        *,
        cache_kib: int = _CACHE_KIB,
        engines: dict[str, Engine] | None = None,
    ) -> None:
        """``engines``, by mode, are those of another object on the same file: what one has compiled the
        others need not.
        """
        self.path = path
        self._key_ring = key_ring
        self._cache_kib = cache_kib
        self._engines: dict[str, Engine] = {} if engines is None else engines
        # A lock file can be removed, and another one made and locked; the folder is there as long as the
        # database.
        self._locks = (
            PathLock(Path(f"{path}.lock"), os.O_RDWR | os.O_CREAT),
            PathLock(path.parent, os.O_RDONLY),
        )
        #: One thread at a time may ask for them.
        self._turn = threading.Lock()
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._busy_timeout = -1

    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        """One moment of the database. Raises ``StoreUnavailable``."""
        try:
            if self._reader is None:
                self._reader = self._opened_reader()
            with self._reader.begin():
                yield ReadTransaction(self._reader, self._key_ring)
        except exc.DBAPIError as problem:
            self._drop_reader()
            raise StoreUnavailable(str(problem.orig)) from problem

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        """A transaction that is durable when the block ends without an exception.

        Raises ``StoreBusy`` when another process is writing and does not end within ``wait`` seconds,
        ``StoreUnavailable`` when the file cannot be written, ``RejectedByDatabase`` when the database
        turned something else down; in each case nothing was changed. Raises ``FateUnknown`` when all was
        written and the sync failed: whoever opens the file after a crash may find it.
        """
        with self.exclusively(wait=wait):
            try:
                writer = self._opened_writer(wait=wait)
                with writer.begin():
                    yield WriteTransaction(writer, self._key_ring, _Numbers(writer))
            except (*_REJECTIONS, OverflowError, UnicodeError) as problem:
                raise RejectedByDatabase(str(problem)) from problem
            except exc.DBAPIError as problem:
                # After a failed write or sync nothing that this connection believes can be trusted.
                self._drop_writer()
                raise _unavailable(problem) from problem

    @contextmanager
    def exclusively(self, *, wait: float | None = None) -> Iterator[None]:
        """Hold the one-writer lock, which no other process (or other storage object) has meanwhile.

        Raises ``StoreBusy`` when it is not free, ``StoreUnavailable`` when there can be no lock file.
        """
        patience = LOCK_TIMEOUT if wait is None else wait
        end = monotonic() + patience
        if not self._turn.acquire(timeout=patience):
            raise StoreBusy
        with ExitStack() as held:
            held.callback(self._turn.release)
            for lock in self._locks:
                lock.acquire(end)
                held.callback(lock.release)
            yield

    def beside(self) -> "SqliteStorage":
        """Another object on the same database, for another thread; whoever asks for it closes it."""
        return SqliteStorage(self.path, self._key_ring, cache_kib=_CACHE_BESIDE_KIB, engines=self._engines)

    def interrupt(self, *, writing: bool) -> None:
        """Nothing here waits for somebody who may never answer."""

    def close(self) -> None:
        """Close the file; what the log holds is moved into the database."""
        self._drop_reader()
        if self._writer is not None:
            with self.exclusively():
                self._drop_writer()
        for lock in self._locks:
            lock.close()

    def _engine(self, mode: str) -> Engine:
        if mode not in self._engines:
            self._engines[mode] = engine(self.path, mode)
        return self._engines[mode]

    def _connected(self, mode: str) -> Connection:
        """A new connection, if the secrets at hand are the ones that the database needs."""
        opened = self._engine(mode).connect()
        raw: Any = opened.connection.driver_connection
        try:
            require_secrets(raw.execute(QUERY).fetchone(), self._key_ring, str(self.path))
        except sqlite3.DatabaseError:
            # There is no such table or column yet; a file that cannot be read says so when it is used.
            return opened
        except BaseException:
            opened.close()
            raise
        return opened

    def _opened_reader(self) -> Connection:
        reader = self._connected("ro")
        if self._cache_kib != _CACHE_KIB:
            raw: Any = reader.connection.driver_connection
            raw.execute(f"PRAGMA cache_size=-{self._cache_kib}")
        return reader

    def _opened_writer(self, *, wait: float | None) -> Connection:
        if self._writer is None:
            self._writer = self._connected("rw")
            self._busy_timeout = -1
        # Only a program that is not Keywright can hold SQLite's own lock while we hold ours.
        milliseconds = int((LOCK_TIMEOUT if wait is None else wait) * 1000)
        if milliseconds != self._busy_timeout:
            self._busy_timeout = milliseconds
            raw: Any = self._writer.connection.driver_connection
            raw.execute(f"PRAGMA busy_timeout={milliseconds}")
        return self._writer

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file as Keywright does: mode ``rwc``, ``rw`` or ``ro``. Transactions are ours to begin."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=5,
    )
    if mode != "ro":
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA journal_size_limit={_MOST_LOG_KEPT}")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    return connection


def is_made(path: Path) -> bool:
    """Whether there is a database. While one is made, SQLite has a journal beside it, which stays there when
    the power is lost then; only who may write can clear it away.
    """
    return path.exists() and not Path(f"{path}-journal").exists()


def create_file(path: Path) -> None:
    """Make an empty database that only its owner can read, or finish one that was begun, unless there is one
    already.
    """
    path.touch(mode=0o600)
    connect(path, "rw").close()


def copy(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment, also while others read it; all of it or nothing."""
    try:
        with closing(connect(source, "ro")) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
        shutil.copymode(source, target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def refuse_network_file_system(path: Path) -> None:
    """Raise ``StoreError`` where the file's locks and memory maps would not hold across hosts."""
    kind = _file_system_of(path)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"{path} is on a network file system ({kind}), where SQLite's locks do not hold. "
            "Put the data directory on a local disk."
        )
    if kind.startswith("fuse") or kind == "9p":
        log.warning("the data directory is on %s; make sure that its locks and syncs hold", kind)


def _file_system_of(path: Path) -> str:
    """The kind of the file system that a path is on, "" where the system does not tell (fstab(5))."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").split("\n")
    except OSError:
        return ""
    mounts = [line.split(" ")[1:3] for line in lines if line]
    unescaped = [(re.sub(r"\\(\d{3})", _octal, where), kind) for where, kind in mounts]
    resolved = path.resolve()
    on = [(where, kind) for where, kind in unescaped if resolved.is_relative_to(where)]
    # Of several file systems mounted at one place, the last one is seen.
    return max(reversed(on), key=lambda mount: len(mount[0]), default=("", ""))[1]


def _octal(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 8))


def engine(path: Path, mode: str) -> Engine:
    """An engine whose every connection is ``connect``'s, without a pool."""
    made = create_engine(
        "sqlite://",
        creator=lambda: connect(path, mode),
        poolclass=pool.NullPool,
        hide_parameters=True,
    )
    begin = "BEGIN" if mode == "ro" else "BEGIN IMMEDIATE"

    @event.listens_for(made, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return made


def _unavailable(problem: exc.DBAPIError) -> StoreUnavailable | StoreBusy | FateUnknown:
    code = getattr(problem.orig, "sqlite_errorcode", 0)
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy("another program holds SQLite's lock")
    if code == sqlite3.SQLITE_IOERR_FSYNC:
        return FateUnknown(str(problem.orig))
    return StoreUnavailable(str(problem.orig))


class _Numbers:
    """Gives out numbers, in a row and never twice; the one-writer lock makes that safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._given: dict[str, int] = {}
        self._stored: dict[str, int] = {}

    def next(self, kind: str) -> int:
        if kind not in self._given:
            last = self._connection.execute(_LAST_NUMBER, {"name": kind}).scalar_one()
            self._given[kind] = self._stored[kind] = last
        self._given[kind] += 1
        return self._given[kind]

    def save(self) -> None:
        for kind, last in self._given.items():
            if last != self._stored[kind]:
                self._connection.execute(_SET_LAST_NUMBER, {"where_name": kind, "last_id": last})
                self._stored[kind] = last
