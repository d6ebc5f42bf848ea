"""The databases that tests run on."""

import signal

import pytest

from tests.databases import KINDS, stop_postgres


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that uses the fixture ``database`` runs once for each kind of its module's ``DATABASES``; where
    a module has none, once for each of ``KINDS``.
    """
    if "database" in metafunc.fixturenames:
        kinds = getattr(metafunc.module, "DATABASES", KINDS)
        metafunc.parametrize("database", kinds, indirect=True, scope="session")


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
