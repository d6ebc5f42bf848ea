"""What all processes of a test run need, and one of them makes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first of the processes that run these tests makes, for all of them."""
    is_one_of_several = os.environ.get("PYTEST_XDIST_WORKER") is not None
    folder = (factory.getbasetemp().parent if is_one_of_several else factory.getbasetemp()) / name
    with FileLock(f"{folder}.lock"):
        if not Path(f"{folder}.made").exists():
            make(folder)
            Path(f"{folder}.made").touch()
    return folder
