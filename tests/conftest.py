"""Which tests run, on which databases, and in which order."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from tests.databases import KINDS, stop_postgres
from tests.tiers import COLLECTED, OPTIONS, is_left_out, tier_of

#: These take longest and start first, one in each worker, so that none of them is left for the end; of two
#: neighbors, the one that takes longer is first.
LONGEST = (
    "tests/http/test_jobs_servers.py",
    "tests/browser/test_every_page.py",
    "tests/unit/test_proof_tools.py",
    "tests/deploy/test_containers.py",
    "tests/faults/test_failover.py",
    "tests/docs/test_how_to.py",
    "tests/faults/test_kills.py",
    "tests/faults/test_hung_database.py",
    "tests/browser/test_payloads.py",
    "tests/deploy/test_rolling_restart.py",
)

# No test fails because the machine is slow.
settings.register_profile("keywright", deadline=None)
settings.load_profile("keywright")

# Without bytecode on the disk, each of the many servers that the tests start would compile Keywright again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# What is made until the first test stays until the end: to look through it again and again takes a second.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let ``--tier`` select tests."""
    parser.addoption("--tier", choices=OPTIONS, default="all", help="which tests to run (tests/tiers.py)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the modules that the tier does not need."""
    return True if is_left_out(collection_path, config.option.tier) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that uses the fixture ``database`` once for each kind of database that it needs."""
    if "database" in metafunc.fixturenames:
        metafunc.parametrize("database", _kinds(metafunc), indirect=True, scope="session")


def _kinds(metafunc: pytest.Metafunc) -> Sequence[str]:
    """The kinds that the test's mark ``databases`` names; for a ``smoke`` test, all; otherwise those that its
    module's ``DATABASES`` names, by default all.
    """
    if mark := metafunc.definition.get_closest_marker("databases"):
        return mark.args
    if metafunc.definition.get_closest_marker("smoke"):
        return KINDS
    return getattr(metafunc.module, "DATABASES", KINDS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier; the longest first in each worker, the others in their order."""
    config.stash[COLLECTED] = list(items)
    tiers = OPTIONS[config.option.tier]
    config.hook.pytest_deselected(items=[item for item in items if tier_of(item) not in tiers])
    items[:] = _dealt([item for item in items if tier_of(item) in tiers], _number_of_workers())
    gc.freeze()
    gc.enable()


def _number_of_workers() -> int:
    """How many processes of xdist share the tests."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in parts of the same length: xdist gives each worker one, and who is done takes from the end
    of another's. Each part begins with its share of the longest, with those of a file together, because they
    may share a server.
    """
    files = [[item for item in items if item.nodeid.startswith(path)] for path in LONGEST]
    others = [item for item in items if not item.nodeid.startswith(LONGEST)]
    dealt: list[pytest.Item] = []
    for worker in range(workers):
        part = [item for file in [one for one in files if one][worker::workers] for item in file]
        length = (len(items) - len(dealt)) // (workers - worker)
        room = max(length - len(part), 0)
        dealt += part + others[:room]
        del others[:room]
    return dealt + others


@pytest.fixture(scope="session")
def database(request: pytest.FixtureRequest) -> str:
    """The kind of database that the test runs on."""
    kind: str = request.param
    return kind


def pytest_configure() -> None:
    """End as after Ctrl-C when told to end, also in the background, where a shell ignores Ctrl-C. Processes
    that the tests start inherit this.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """Stop the PostgreSQL server."""
    stop_postgres()
