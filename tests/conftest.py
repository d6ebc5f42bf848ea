"""The databases that tests run on, and in which order they run."""

import os
import signal
import sys
from collections.abc import Sequence

import pytest

from tests.databases import KINDS, stop_postgres

#: What takes longest, most of it waiting, is begun first: nobody is to wait for one of these in the end.
LONGEST = (
    "tests/faults/test_failover.py",
    "tests/deploy/test_rolling_restart.py",
    "tests/faults/test_hung_database.py",
    "tests/faults/test_kills.py",
    "tests/http/test_jobs_servers.py",
    "tests/deploy/test_containers.py",
    "tests/unit/test_proof_tools.py",
    "tests/browser/test_every_page.py",
    "tests/browser/test_payloads.py",
)

# As where Keywright is installed, its bytecode is on the disk: each of the many servers that the tests start
# would compile all of it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


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
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, the others as they were."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.fixture(scope="session")
def database(request: pytest.FixtureRequest) -> str:
    """The kind of database that the test runs on."""
    kind: str = request.param
    return kind


def pytest_configure() -> None:
    """Who is told to end leaves in good order, as after Ctrl-C; and so does whom the tests start, although a
    shell lets what it runs in the background ignore that.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the pictures of the pages are (see ``tests/browser``)."""
    reports = [one for some in terminalreporter.stats.values() for one in some]
    properties = [one for report in reports for one in getattr(report, "user_properties", ())]
    for folder in sorted({value for name, value in properties if name == "pictures"}):
        terminalreporter.write_line(f"pictures of the pages: {folder}")


def pytest_unconfigure() -> None:
    """Leave no server behind."""
    stop_postgres()
