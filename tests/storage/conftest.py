"""One fixture per thing that the contract tests need; another database is one more parameter."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from keywright.keys import KeyRing
from keywright.storage import Storage
from tests.makers import KEY_RING, a_storage

#: Opens the same database again: another object, as another process has one.
Opener = Callable[..., Storage]


@pytest.fixture(params=["sqlite"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the test's database, any number of times; closes all of them at the end."""
    openers = {"sqlite": a_storage}
    with ExitStack() as stack:

        def opened(key_ring: KeyRing = KEY_RING) -> Storage:
            return stack.enter_context(closing(openers[request.param](tmp_path / "data", key_ring)))

        yield opened


@pytest.fixture
def storage(open_again: Opener) -> Storage:
    """A database with nothing in it."""
    return open_again()
