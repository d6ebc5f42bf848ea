"""Programs that are no part of Keywright: a test that needs one is skipped where it is missing."""

import os
import shutil
from typing import NoReturn

import pytest

#: What must not be skipped: programs that must be there, and "image". `.ci/run` sets it.
REQUIRED = "TESTS_REQUIRE"
_ALSO = "/usr/local/sbin:/usr/sbin:/sbin"


def program(name: str) -> str:
    """The path of a program. Skips the test where there is none, or fails it if that must not be."""
    path = shutil.which(name) or shutil.which(name, path=_ALSO)
    if path is None:
        give_up(name, f"there is no {name} on this machine")
    return path


def give_up(name: str, missing: str) -> NoReturn:
    """Skip the test for want of ``name``, or fail it if that must not be; ``missing`` says so in words."""
    if is_required(name):
        pytest.fail(f"{missing}, and {REQUIRED} asks for it")
    pytest.skip(missing)


def is_required(name: str) -> bool:
    """Whether this must not be skipped."""
    return name in os.environ.get(REQUIRED, "").split()
