"""A database in an SQLite file: one writer, and no network latency.

WAL with ``synchronous=FULL``: an acknowledged commit survives a power failure. SQLite 3.7.0–3.51.2 can
corrupt a WAL database when two connections write or checkpoint at the same instant
(https://sqlite.org/wal.html, "The WAL-reset bug"), so every write, from any process, holds the lock of one
lock file and of its folder; readers are read-only and never checkpoint.
"""

import logging
import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, bindparam, create_engine, event, exc, pool, select, update

from keywright.core import errors as e
from keywright.core.crypto import KeyRing
from keywright.db.locks import PathLock
from keywright.db.schema import sequences
from keywright.db.sealed_columns import QUERY, require_secrets
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.db.watch import Watch

#: How long a write waits for those of other processes, in seconds.
LOCK_TIMEOUT = 20.0
#: The page cache of a connection, in KiB.
_CACHE_KIB = 16 * 1024
#: The page cache of clones, in KiB: the pages and the jobs have one per thread, and the operating system
#: caches the file, too.
_CLONE_CACHE_KIB = 2 * 1024
#: The write-ahead log is truncated to this size after a checkpoint, in bytes. It grows while a read
#: transaction is open, and would keep its size.
_MAX_WAL_BYTES = 32 * 1024 * 1024
#: Errors about a value; all others are about the database.
_REJECTIONS = (exc.IntegrityError, exc.DataError, exc.ProgrammingError, exc.InterfaceError)
_MOUNTS = Path("/proc/self/mounts")
_NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs afs ncpfs lustre gpfs glusterfs fuse.glusterfs fuse.sshfs ceph".split()
)

_LAST_ID = select(sequences.c.last_id).where(sequences.c.name == bindparam("name"))
_SET_LAST_ID = (
    update(sequences).where(sequences.c.name == bindparam("where_name")).values(last_id=bindparam("last_id"))
)

log = logging.getLogger(__name__)


class SqliteStorage:
    """A database file. Any number of processes may ``read``, and one at a time may ``write``.

    An object serves one ``write`` and one ``read`` at a time, from any thread; callers with several threads
    must ensure that (the desk does).
    """

    #: Statements return immediately: executing them in another thread would take longer.
    is_local = True
    #: A file has no replica.
    replica_state = None

    def __init__(
        self,
        path: Path,
        key_ring: KeyRing,
        *,
        cache_kib: int = _CACHE_KIB,
        engines: dict[str, Engine] | None = None,
        watch: Watch | None = None,
    ) -> None:
        """``engines``, by mode, are another object's on the same file, to share compiled statements."""
        self.watch = watch or Watch()
        self.path = path
        self._key_ring = key_ring
        self._cache_kib = cache_kib
        self._engines: dict[str, Engine] = {} if engines is None else engines
        # A lock file can be deleted and replaced by another one; the folder stays with the database.
        self._locks = (
            PathLock(Path(f"{path}.lock"), os.O_RDWR | os.O_CREAT),
            PathLock(path.parent, os.O_RDONLY),
        )
        #: Held by the thread that holds the locks or waits for them.
        self._thread_lock = threading.Lock()
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._busy_timeout = -1

    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        """Begin a transaction that sees a consistent snapshot. Raises ``StoreUnavailable``."""
        try:
            if self._reader is None:
                self._reader = self._open_reader()
            with self._reader.begin():
                yield ReadTransaction(self._reader, self._key_ring)
        except exc.DBAPIError as problem:
            self._close_reader()
            raise e.StoreUnavailable(str(problem.orig)) from problem

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        """Begin a transaction that is durable when the block ends without an exception.

        Raises ``StoreBusy`` if another process writes for longer than ``wait`` seconds, ``StoreUnavailable``
        if the file cannot be written, ``RejectedByDatabase`` if it rejects a value: in each case, nothing was
        changed. Raises ``FateUnknown`` if everything was written but the sync failed: after a crash, it may
        be in the file or not.
        """
        with self.write_lock(wait=wait):
            try:
                writer = self._get_writer(wait=wait)
                with writer.begin():
                    yield WriteTransaction(writer, self._key_ring, _IdGenerator(writer))
                    began = perf_counter()
                self.watch.observe_commit(perf_counter() - began)
            except (*_REJECTIONS, OverflowError, UnicodeError) as problem:
                raise e.RejectedByDatabase(str(problem)) from problem
            except exc.DBAPIError as problem:
                # After a failed write or sync, the cache of this connection may be wrong.
                self._close_writer()
                raise _translate_error(problem) from problem

    @contextmanager
    def write_lock(self, *, wait: float | None = None) -> Iterator[None]:
        """Hold the lock for a single writer, across processes and storage objects.

        Raises ``StoreBusy`` if it is not free in time, ``StoreUnavailable`` if the lock file cannot be
        created.
        """
        timeout = LOCK_TIMEOUT if wait is None else wait
        deadline = monotonic() + timeout
        if not self._thread_lock.acquire(timeout=timeout):
            raise e.StoreBusy
        with ExitStack() as held:
            held.callback(self._thread_lock.release)
            for lock in self._locks:
                lock.acquire(deadline)
                held.callback(lock.release)
            yield

    @property
    def key_ring(self) -> KeyRing:
        """The key ring that seals and signs with the installation's secret."""
        return self._key_ring

    def clone(self) -> "SqliteStorage":
        """Return another object on the same database, for another thread; the caller closes it."""
        return SqliteStorage(
            self.path,
            self._key_ring,
            cache_kib=_CLONE_CACHE_KIB,
            engines=self._engines,
            watch=self.watch,
        )

    def interrupt(self, *, writing: bool) -> None:
        """Do nothing: no statement waits for a server."""

    def close(self) -> None:
        """Close the file; the write-ahead log is checkpointed into the database."""
        self._close_reader()
        if self._writer is not None:
            with self.write_lock():
                self._close_writer()
        for lock in self._locks:
            lock.close()

    def _connect(self, mode: str) -> Connection:
        """Open a connection. Raises ``SecretMissing``."""
        if mode not in self._engines:
            self._engines[mode] = make_engine(self.path, mode)
        connection = self._engines[mode].connect()
        raw: Any = connection.connection.driver_connection
        try:
            require_secrets(raw.execute(QUERY).fetchone(), self._key_ring, str(self.path))
        except sqlite3.DatabaseError:
            # The table or column does not exist yet; the first statement fails if the file cannot be read.
            return connection
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_reader(self) -> Connection:
        reader = self._connect("ro")
        if self._cache_kib != _CACHE_KIB:
            raw: Any = reader.connection.driver_connection
            raw.execute(f"PRAGMA cache_size=-{self._cache_kib}")
        return reader

    def _get_writer(self, *, wait: float | None) -> Connection:
        if self._writer is None:
            self._writer = self._connect("rw")
            self._busy_timeout = -1
        # SQLite's own lock can only be held by another program while this process holds Keywright's.
        milliseconds = int((LOCK_TIMEOUT if wait is None else wait) * 1000)
        if milliseconds != self._busy_timeout:
            self._busy_timeout = milliseconds
            raw: Any = self._writer.connection.driver_connection
            raw.execute(f"PRAGMA busy_timeout={milliseconds}")
        return self._writer

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file in the mode ``rwc``, ``rw`` or ``ro``, with Keywright's settings and autocommit."""
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
        connection.execute(f"PRAGMA journal_size_limit={_MAX_WAL_BYTES}")
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    return connection


def is_complete(path: Path) -> bool:
    """Whether the database exists and was created completely: while SQLite creates one, there is a journal
    next to it, which remains after a power failure until the file is opened for writing.
    """
    return path.exists() and not Path(f"{path}-journal").exists()


def create_file(path: Path) -> None:
    """Create an empty database that only its owner can read, unless it exists; complete an incomplete one."""
    path.touch(mode=0o600)
    connect(path, "rw").close()


def refuse_network_file_system(path: Path) -> None:
    """Raise ``StoreError`` on a file system whose locks and memory maps do not work across hosts."""
    kind = _file_system_of(path)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise e.StoreError(
            f"{path} is on a network file system ({kind}), where SQLite's locks are not reliable. Put the "
            "data directory on a local disk."
        )
    if kind.startswith("fuse") or kind == "9p":
        log.warning("the data directory is on %s; make sure that its locks and syncs hold", kind)


def _file_system_of(path: Path) -> str:
    """Return the type of a path's file system, "" if there is no list of mounts (fstab(5))."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").split("\n")
    except OSError:
        return ""
    mounts = [line.split(" ")[1:3] for line in lines if line]
    unescaped = [
        (re.sub(r"\\(\d{3})", lambda escape: chr(int(escape[1], 8)), where), kind) for where, kind in mounts
    ]
    resolved = path.resolve()
    on = [(where, kind) for where, kind in unescaped if resolved.is_relative_to(where)]
    # Of several file systems mounted at one path, the last one is visible.
    return max(reversed(on), key=lambda mount: len(mount[0]), default=("", ""))[1]


def make_engine(path: Path, mode: str) -> Engine:
    """Return an engine without a pool, whose connections are made by ``connect``."""
    engine = create_engine(
        "sqlite://",
        creator=lambda: connect(path, mode),
        poolclass=pool.NullPool,
        hide_parameters=True,
    )
    begin = "BEGIN" if mode == "ro" else "BEGIN IMMEDIATE"

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _translate_error(problem: exc.DBAPIError) -> e.StoreUnavailable | e.StoreBusy | e.FateUnknown:
    code = getattr(problem.orig, "sqlite_errorcode", 0)
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return e.StoreBusy("another program holds SQLite's lock")
    if code == sqlite3.SQLITE_IOERR_FSYNC:
        return e.FateUnknown(str(problem.orig))
    if code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY):
        return e.StoreReadOnly(str(problem.orig))
    return e.StoreUnavailable(str(problem.orig))


class _IdGenerator:
    """Generates consecutive IDs from the table ``sequences``; the write lock makes that safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last: dict[str, int] = {}
        self._saved: dict[str, int] = {}

    def next(self, kind: str) -> int:
        self._last[kind] = self._find_last(kind) + 1
        return self._last[kind]

    def skip(self, kind: str, until: int) -> int:
        last = self._find_last(kind)
        self._last[kind] = max(last, until)
        return last

    def _find_last(self, kind: str) -> int:
        if kind not in self._last:
            last = self._connection.execute(_LAST_ID, {"name": kind}).scalar_one()
            self._last[kind] = self._saved[kind] = last
        return self._last[kind]

    def save(self) -> None:
        for kind, last in self._last.items():
            if last != self._saved[kind]:
                self._connection.execute(_SET_LAST_ID, {"where_name": kind, "last_id": last})
                self._saved[kind] = last
