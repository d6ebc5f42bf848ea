"""Programs that are no part of Keywright: a test that needs one is skipped where it is missing."""

import os
import shutil

import pytest

#: What must not be skipped: programs that must be there, and "image". `.ci/run` sets it.
REQUIRED = "TESTS_REQUIRE"
_ALSO = "/usr/local/sbin:/usr/sbin:/sbin"


def program(name: str) -> str:
    """The path of a program. Skips the test where there is none, or fails it if that must not be."""
    path = shutil.which(name) or shutil.which(name, path=_ALSO)
    if path is None:
        missing = f"there is no {name} on this machine"
        if is_required(name):
            pytest.fail(f"{missing}, and {REQUIRED} asks for it")
        pytest.skip(missing)
    return path


def is_required(name: str) -> bool:
    """Whether this must not be skipped."""
    return name in os.environ.get(REQUIRED, "").split()
