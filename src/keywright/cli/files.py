"""Files that commands write."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path
from typing import BinaryIO


@contextmanager
def open_output(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file for its owner only that gets its name when it is complete.

    Raises ``OSError`` with the name of the folder or of the file.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(path.parent))
    try:
        yield from _open_file(path)
    except OSError as problem:
        # The name of a temporary file says nothing, and the error of a full disk has none.
        raise OSError(problem.errno, problem.strerror or str(problem), str(path)) from None


def _open_file(path: Path) -> Iterator[BinaryIO]:
    from keywright.db.locks import new_file, private_folder, rename_durably

    if path.exists() and not path.is_file():
        # Such as a pipe.
        with path.open("wb") as file:
            yield file
        return
    with private_folder(path.parent) as folder:
        with new_file(folder / path.name) as file:
            yield file
        rename_durably(folder / path.name, path, is_overwriting=True)
