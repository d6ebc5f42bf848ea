"""Backups: one file that holds a database as it was at one moment, and that can be brought back.

Making one disturbs nobody who reads or writes meanwhile. Bringing one back changes nothing until the end,
and then everything at once: whenever it is broken off, there is the old database or the new one.
"""

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import BinaryIO, NamedTuple

from sqlalchemy.exc import DBAPIError

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreError
from keywright.db import database_path
from keywright.db.migrate import HEAD, State
from keywright.db.secret_marks import Marks, is_rotation_due, what_is_missing
from keywright.maintenance.backup import container, of_sqlite
from keywright.maintenance.backup.container import Backup, Progress
from keywright.maintenance.backup.describing import Manifest, in_words
from keywright.maintenance.backup.files import give_name, new_file, workplace

__all__ = [
    "Backup",
    "Made",
    "Manifest",
    "Progress",
    "in_words",
    "keep_secret",
    "make_backup",
    "require_fitting",
    "restore",
]

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OTHER_KIND = {
    "sqlite": (
        "this is a backup of an SQLite database, and the settings name one on a PostgreSQL server. Restore "
        "it into a file (--database-url sqlite:////a/new/folder/keywright.db), then `keywright copy` that."
    ),
    "postgresql": (
        "this is a backup of a PostgreSQL database, and the settings name an SQLite file. Restore it into an "
        "empty database on a PostgreSQL server (--database-url postgresql://…), then `keywright copy` that."
    ),
}


class Made(NamedTuple):
    """A backup that was made, and how many bytes it has."""

    manifest: Manifest
    size: int


def make_backup(
    url: str,
    to: Path | BinaryIO,
    *,
    made_by: str,
    key_ring: KeyRing | None,
    secret: str | None = None,
    is_overwriting: bool,
    progress: Progress,
) -> Made:
    """Make a backup of the database that the URL names, as it is now, signed by the key ring; unsigned where
    there is none. With the secret in it, if it is given.

    A file has its name only when it is whole and on the disk; where it fails, nothing is left. Beside it (or,
    when ``to`` is no file, where temporary files are), there is a copy of the database until the end.
    Raises ``StoreError`` when there can be no such backup, ``StoreUnavailable`` when the database cannot be
    read, ``OSError`` when the file cannot be written.
    """
    folder = Path(gettempdir())
    if isinstance(to, Path):
        _require_free(to, is_overwriting=is_overwriting)
        folder = to.absolute().parent
    with _in_words(folder), workplace(folder) as place:
        payload, draft = place / "payload", place / "backup"
        manifest = _take(url, payload, made_by, key_ring, progress, has_secret=secret is not None)
        write = partial(container.write, signed_by=key_ring, progress=progress)
        if not isinstance(to, Path):
            return Made(manifest, write(to, manifest, payload, secret))
        with new_file(draft) as file:
            size = write(file, manifest, payload, secret)
        give_name(draft, to, is_overwriting=is_overwriting)
        return Made(manifest, size)


def require_fitting(manifest: Manifest, url: str) -> None:
    """Raise ``StoreError`` unless this version can restore the backup into what the URL names."""
    if manifest.revision > HEAD:
        raise StoreError(
            f"the backup was made by a newer Keywright ({manifest.made_by}; its schema is "
            f"{manifest.revision!r}, this version knows up to {HEAD!r}). Install that version to restore it."
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
    """Let the backup's database take the place of the one that the URL names; an older schema is brought up
    to date when it is opened. Where an SQLite file that was there is kept.

    ``before_replacing`` is called when nothing can go wrong any more but the last step. Raises ``StoreError``
    when the backup is not whole or does not fit, when it is not signed by the key ring, unless it may be
    ``is_unsigned``, when a server is running, and, unless ``is_overwriting``,
    when there is something already; nothing was changed then.
    """
    require_fitting(backup.manifest, url)
    marks = Marks(backup.manifest.secret_mark, backup.manifest.previous_secret_mark)
    if (complaint := what_is_missing(marks, key_ring, "the backup")) is not None:
        raise StoreError(complaint)
    signed_by = None if is_unsigned else key_ring
    path = database_path(url)
    if path is None:
        from keywright.maintenance.backup import of_postgres

        of_postgres.put_back(
            backup,
            url,
            signed_by=signed_by,
            is_overwriting=is_overwriting,
            before_replacing=before_replacing,
            progress=progress,
        )
        return None
    with _in_words(path.parent):
        return of_sqlite.put_back(
            backup,
            path,
            key_ring,
            signed_by=signed_by,
            is_overwriting=is_overwriting,
            before_replacing=before_replacing,
            progress=progress,
        )


def keep_secret(secret: str, file: Path) -> None:
    """Put the secret into a new file, for its owner only. Raises ``FileExistsError`` if there is one."""
    with workplace(file.absolute().parent) as place:
        with new_file(place / "secret") as draft:
            draft.write(f"{secret}\n".encode())
        give_name(place / "secret", file, is_overwriting=False)


def _require_free(file: Path, *, is_overwriting: bool) -> None:
    if not file.absolute().parent.is_dir():
        raise StoreError(f"there is no folder {file.absolute().parent}. Make it, or name another.")
    if not file.exists():
        return
    if not is_overwriting:
        raise StoreError(f"{file} is there already. Choose another name, or say --overwrite.")
    if file.is_dir():
        raise StoreError(f"{file} is a folder. Name a file in it.")
    if file.stat().st_size:
        try:
            Backup(file).close()
        except StoreError as problem:
            # A slip of the hand must not cost a database, or a secret.
            raise StoreError(
                f"{problem} It is left alone: remove it yourself, or choose another name."
            ) from None


def _take(
    url: str, payload: Path, made_by: str, key_ring: KeyRing | None, progress: Progress, *, has_secret: bool
) -> Manifest:
    path = database_path(url)
    if path is None:
        from keywright.maintenance.backup import of_postgres

        described, made_at, dumped_by = of_postgres.dump(url, payload, progress)
    else:
        described, made_at = of_sqlite.copy_out(path, payload, progress)
        dumped_by = None
    state = described.state
    if key_ring is not None and key_ring.find_ring(state.secret_mark) is None:
        raise StoreError("the secret at hand is not the one that this database was written with.")
    if has_secret and key_ring is not None and is_rotation_due(_marks_of(state), key_ring):
        raise StoreError(
            "the secret is being rotated, and one of them is not enough to read the backup. Finish that with "
            "`keywright secret rotate`, or make the backup without the secret in it."
        )
    return Manifest(
        format=container.FORMAT,
        made_at=made_at,
        made_by=made_by,
        dumped_by=dumped_by,
        database="postgresql" if path is None else "sqlite",
        revision=state.revision or "",
        secret_mark=state.secret_mark or "",
        previous_secret_mark=state.previous_secret_mark,
        has_secret=has_secret,
        is_signed=key_ring is not None,
        installed_at=described.installed_at,
        contents=described.contents,
    )


def _marks_of(state: State) -> Marks:
    return Marks(state.secret_mark or "", state.previous_secret_mark)


@contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    """Say in words what went wrong with a file in this folder."""
    try:
        yield
    except (sqlite3.Error, DBAPIError) as problem:
        said = problem.orig if isinstance(problem, DBAPIError) else problem
        if getattr(said, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise _full(folder) from problem
        raise StoreError(
            f"the database or its copy cannot be used: {said}. Nothing was changed."
        ) from problem
    except OSError as problem:
        if problem.errno in _NO_SPACE:
            raise _full(folder) from problem
        raise


def _full(folder: Path) -> StoreError:
    return StoreError(
        f"there is not enough space in {folder}: for a moment, twice what the database needs. Nothing was "
        "changed, and nothing is left there."
    )
