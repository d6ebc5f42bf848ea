"""Backups: a file with a snapshot of a database, from which it can be restored.

Servers can read and write while a backup is made. A restore is atomic: if it is interrupted, either the old
database or the new one exists.
"""

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import BinaryIO, NamedTuple

from msgspec.structs import replace
from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import DBAPIError

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreError, Unavailable
from keywright.db import ReadTransaction, WriteTransaction, database_path, look_at, open_storage, run_write
from keywright.db.locks import new_file, private_folder, rename_durably
from keywright.db.migrate import HEAD, DatabaseState, list_pending, read_state
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import checkpoints, release_files
from keywright.db.sealed_columns import SecretIds, describe_missing_secrets, is_rotation_due
from keywright.events.store import find_checkpoint
from keywright.maintenance.backup import archive, sqlite
from keywright.maintenance.backup.archive import Backup, Progress, unpack
from keywright.maintenance.backup.manifest import Manifest, list_tables, summarize
from keywright.provisioning.releases.files import list_stored, restore_file

__all__ = [
    "Backup",
    "Manifest",
    "NewBackup",
    "Progress",
    "find_backup_time",
    "list_file_names",
    "make_backup",
    "note_backup",
    "require_compatible",
    "restore",
    "restore_files",
    "summarize",
    "unpack",
]

#: The name, in ``checkpoints``, of the time (in seconds) of the last backup.
_MADE_AT = "backup_made_at"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OTHER_KIND = {
    "sqlite": (
        "this is a backup of an SQLite database, but the settings name a PostgreSQL database. Restore it "
        "into a file (--database-url sqlite:////a/new/folder/keywright.db), then use `keywright copy` on "
        "that."
    ),
    "postgresql": (
        "this is a backup of a PostgreSQL database, but the settings name an SQLite file. Restore it into "
        "an empty PostgreSQL database (--database-url postgresql://…), then use `keywright copy` on that."
    ),
}


class NewBackup(NamedTuple):
    """A new backup, and its size in bytes."""

    manifest: Manifest
    size: int


def make_backup(
    url: str,
    to: Path | BinaryIO,
    *,
    made_by: str,
    key_ring: KeyRing | None,
    secret: str | None = None,
    files_folder: Path | None = None,
    is_overwriting: bool,
    progress: Progress,
) -> NewBackup:
    """Back up the current state of the database that the URL names, signed with the key ring, if given. The
    backup includes the secret, and the files of releases, if the secret or the folder is given.

    A file gets its final name only once it is complete and synced; on failure, nothing is left. A temporary
    copy of the database is stored next to it or, if ``to`` is not a path, in the temporary directory. Raises
    ``StoreError`` if such a backup is impossible, ``StoreUnavailable`` if the database cannot be read,
    ``OSError`` if the file cannot be written.
    """
    parent = Path(gettempdir())
    if isinstance(to, Path):
        _require_free(to, is_overwriting=is_overwriting)
        parent = to.absolute().parent
    with _explain_errors(parent), private_folder(parent) as folder:
        payload, draft = folder / "payload", folder / "backup"
        manifest = _dump(url, payload, made_by, key_ring, progress, has_secret=secret is not None)
        # Listed after the dump: a file is stored before the database names it.
        files = [] if files_folder is None else [path for _, path in list_stored(files_folder)]
        manifest = replace(manifest, files=len(files))
        write = partial(archive.write, files=files, signed_by=key_ring, progress=progress)
        if not isinstance(to, Path):
            return NewBackup(manifest, write(to, manifest, payload, secret))
        with new_file(draft) as file:
            size = write(file, manifest, payload, secret)
        rename_durably(draft, to, is_overwriting=is_overwriting)
        return NewBackup(manifest, size)


def require_compatible(manifest: Manifest, url: str) -> None:
    """Raise ``StoreError`` unless this version can restore the backup into what the URL names."""
    if manifest.revision > HEAD:
        raise StoreError(
            f"the backup was made by a newer Keywright ({manifest.made_by}; its schema is "
            f"{manifest.revision!r}, this version supports up to {HEAD!r}). Install that version to restore "
            "it."
        )
    kind = "postgresql" if database_path(url) is None else "sqlite"
    if manifest.database != kind:
        raise StoreError(_OTHER_KIND[manifest.database])


def restore(
    backup: Backup,
    url: str,
    key_ring: KeyRing,
    *,
    is_unsigned: bool = False,
    is_overwriting: bool,
    before_replacing: Callable[[], None],
    progress: Progress,
) -> Path | None:
    """Replace the database that the URL names with that of the backup. A PostgreSQL database with an older
    schema is migrated when it is opened. Return the file to which a replaced SQLite database was copied, if
    any.

    ``before_replacing`` is called when only the last step can still fail. Raises ``StoreError``, and changes
    nothing, if the backup is damaged or not compatible; if it is not signed with the key ring, unless
    ``is_unsigned``; if a server is running; and if the database is not empty, unless ``is_overwriting``.
    """
    require_compatible(backup.manifest, url)
    secret_ids = SecretIds(backup.manifest.secret_id, backup.manifest.previous_secret_id)
    if (complaint := describe_missing_secrets(secret_ids, key_ring, "the backup")) is not None:
        raise StoreError(complaint)
    path = database_path(url)
    run: Callable[..., Path | None]
    if path is None:
        from keywright.maintenance.backup import postgres

        folder, run = Path(gettempdir()), partial(postgres.restore, backup, url)
    else:
        folder, run = path.parent, partial(sqlite.restore, backup, path, key_ring)
    with _explain_errors(folder):
        return run(
            signed_by=None if is_unsigned else key_ring,
            is_overwriting=is_overwriting,
            before_replacing=before_replacing,
            progress=progress,
        )


def restore_files(backup: Backup, folder: Path) -> None:
    """Restore the files of releases in a backup to the folder of files. Raises ``StoreError``."""
    with _explain_errors(folder):
        for part in backup.files:
            restore_file(folder, part.sha256, backup.read_file(part))


def _require_free(file: Path, *, is_overwriting: bool) -> None:
    if not file.absolute().parent.is_dir():
        raise StoreError(f"there is no folder {file.absolute().parent}. Create it, or name another.")
    if not file.exists():
        return
    if not is_overwriting:
        raise StoreError(f"{file} already exists. Choose another name, or use --overwrite.")
    if file.is_dir():
        raise StoreError(f"{file} is a folder. Name a file.")
    if file.stat().st_size and not archive.is_backup(file):
        # A mistyped name must not cost a database, or a secret.
        raise StoreError(
            f"{archive.not_a_backup_error(file)} It was not replaced: remove it yourself, or choose "
            "another name."
        )


def _dump(
    url: str, payload: Path, made_by: str, key_ring: KeyRing | None, progress: Progress, *, has_secret: bool
) -> Manifest:
    path = database_path(url)
    if path is None:
        from keywright.maintenance.backup import postgres

        description, made_at, dumped_by = postgres.dump(url, payload, progress)
    else:
        description, made_at = sqlite.dump(path, payload, progress)
        dumped_by = None
    state = description.state
    _require_right_secret(state, key_ring, has_secret=has_secret)
    return Manifest(
        format=archive.FORMAT,
        made_at=made_at,
        made_by=made_by,
        dumped_by=dumped_by,
        database="postgresql" if path is None else "sqlite",
        revision=state.revision or "",
        secret_id=state.secret_id or "",
        previous_secret_id=state.previous_secret_id,
        has_secret=has_secret,
        installed_at=description.installed_at,
        contents=description.contents,
    )


def _require_right_secret(state: DatabaseState, key_ring: KeyRing | None, *, has_secret: bool) -> None:
    if key_ring is None:
        return
    if key_ring.find_ring(state.secret_id) is None:
        raise StoreError("this is not the secret that the database was written with.")
    secret_ids = SecretIds(state.secret_id or "", state.previous_secret_id)
    if has_secret and is_rotation_due(secret_ids, key_ring):
        raise StoreError(
            "the secret is being rotated, and a single secret cannot read the backup. Finish the rotation "
            "with `keywright secret rotate`, or make the backup without --with-secret."
        )


def note_backup(url: str, key_ring: KeyRing, made_at: datetime) -> None:
    """Store in the database when its last backup was made, for monitoring. Do nothing if a migration is
    pending, if the database cannot be written, or if this would create the lock file of an SQLite database,
    perhaps as another user.
    """
    path = database_path(url)
    if path is not None and not Path(f"{path}.lock").exists():
        return
    with suppress(Unavailable):
        if not list_pending(look_at(url, read_state).revision or ""):
            with closing(open_storage(url, key_ring)) as storage:
                run_write(storage, partial(_note_backup, made_at=made_at))


def list_file_names(url: str, limit: int) -> list[str]:
    """The names of the first release files whose bytes are stored; empty for a schema without releases."""
    column = release_files.c
    query = select(column.name).where(column.stored_at.is_not(None)).distinct().order_by(column.name)

    def read(connection: Connection, _name: str) -> list[str]:
        has_files = release_files.name in list_tables(connection)
        return list(connection.execute(query.limit(limit)).scalars()) if has_files else []

    return look_at(url, read)


def find_backup_time(tx: ReadTransaction) -> datetime | None:
    """When the last backup was made; None if there is none."""
    made_at = find_checkpoint(tx, _MADE_AT)
    return to_datetime(made_at) if made_at else None


def _note_backup(tx: WriteTransaction, made_at: datetime) -> None:
    # Replace even a later time: the clock may have been ahead.
    tx.connection.execute(delete(checkpoints).where(checkpoints.c.name == _MADE_AT))
    tx.connection.execute(insert(checkpoints).values(name=_MADE_AT, last_id=to_seconds(made_at)))


@contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    """Convert database errors, and a full disk in this folder, to ``StoreError`` with a sentence."""
    try:
        yield
    except (sqlite3.Error, DBAPIError) as problem:
        cause = problem.orig if isinstance(problem, DBAPIError) else problem
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise _full_error(folder) from problem
        raise StoreError(
            f"the database or its copy cannot be used: {cause}. Nothing was changed."
        ) from problem
    except OSError as problem:
        if problem.errno in _NO_SPACE:
            raise _full_error(folder) from problem
        raise


def _full_error(folder: Path) -> StoreError:
    return StoreError(
        f"not enough space in {folder}: for a short time, it needs twice the size of the database. Nothing "
        "was changed, and temporary files were deleted."
    )
