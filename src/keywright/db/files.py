"""Files that get their name only when they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO


@contextmanager
def private_folder(parent: Path) -> Iterator[Path]:
    """A new folder that only its owner can enter; it is removed after the block, with everything in it."""
    with TemporaryDirectory(prefix=".keywright-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A new file, for its owner only; it is on the disk when the block ends without an exception."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)


def rename_durably(draft: Path, path: Path, *, is_overwriting: bool) -> None:
    """Give a complete file its name, so that it has it after a power loss, too.

    Raises ``FileExistsError`` for a name that is taken, unless ``is_overwriting``.
    """
    if is_overwriting:
        draft.replace(path)
    else:
        _rename_if_free(draft, path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Make what is in a file survive a power loss."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_if_free(draft: Path, path: Path) -> None:
    try:
        # Unlike a rename, a link never replaces a file.
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems, such as those of network drives, have no links.
        if path.exists():
            raise FileExistsError(f"{path} exists") from None
        draft.rename(path)
