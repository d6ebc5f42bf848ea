"""Folders for what need not outlast the power."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

_MEMORY = Path("/dev/shm")


def a_folder() -> TemporaryDirectory[str]:
    """A new folder: where TMPDIR says, else in memory where there is a way."""
    is_in_memory = "TMPDIR" not in os.environ and _MEMORY.is_dir()
    return TemporaryDirectory(dir=_MEMORY if is_in_memory else None)
