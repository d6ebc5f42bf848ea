"""Files that have their name only when they are whole."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """A folder in this one that only its owner can enter; it is removed after the block, with all in it."""
    with TemporaryDirectory(prefix=".keywright-", dir=folder, ignore_cleanup_errors=True) as place:
        yield Path(place)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that there was not, for its owner only; on the disk when the block ends without an exception."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)


def give_name(draft: Path, path: Path, *, is_overwriting: bool) -> None:
    """Let a whole file have its name, and survive the loss of power under it.

    Raises ``FileExistsError`` for a name that is taken, unless it may be.
    """
    if is_overwriting:
        draft.replace(path)
    else:
        _link(draft, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in it survive the loss of power, where the file system knows how."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(draft: Path, path: Path) -> None:
    try:
        # Unlike a rename, a link never replaces what is there.
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems, those of network drives among them, have no links.
        if path.exists():
            raise FileExistsError(f"{path} exists") from None
        draft.rename(path)
