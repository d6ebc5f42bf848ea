"""One server on each database for all scenarios that need no special settings."""

import re
from collections.abc import Iterator

import pytest

from tests.http.admin_browser import Visitor, make_users
from tests.http.asking import CANARY, Client
from tests.server import MAIL_WAITS, NO_LIMITS, RunningServer, running

#: What must never be in a log: a key that a test made, a token, a consumer key or secret, in clear or
#: as in an Authorization header.
SECRETS = re.compile(rf"{CANARY}|(?<![0-9a-f])[0-9a-f]{{40}}(?![0-9a-f])|ck_|cs_|\bBasic |Y2tf")


def assert_clean(server: RunningServer) -> None:
    """The server's log holds no secret and no fault."""
    log = server.log
    found = SECRETS.search(log)
    assert found is None, f"a secret in the log: {log[max(0, found.start() - 300) : found.end() + 100]}"
    faults = [line for line in log.splitlines() if '"level":"error"' in line or "Traceback" in line]
    assert faults == []


@pytest.fixture(scope="session")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server") / "data", database, **NO_LIMITS, **MAIL_WAITS) as server:
        yield server
        server.assert_consistent()
    assert_clean(server)


@pytest.fixture(scope="session")
def vendor(server: RunningServer) -> Iterator[Client]:
    """Who sells licenses: has an API key that may read and write."""
    with Client(server, server.api_key()) as client:
        yield client


@pytest.fixture(scope="session")
def program(server: RunningServer) -> Iterator[Client]:
    """A shipped program: has nothing but a license key."""
    with Client(server) as client:
        yield client


@pytest.fixture(scope="module")
def ada(server: RunningServer) -> Iterator[Visitor]:
    """An administrator on the pages."""
    yield from _sign_in(server, "ada")


@pytest.fixture(scope="module")
def bob(server: RunningServer) -> Iterator[Visitor]:
    """A user of the pages who does support."""
    yield from _sign_in(server, "bob")


@pytest.fixture(scope="module")
def carol(server: RunningServer) -> Iterator[Visitor]:
    """A user of the pages who may only read."""
    yield from _sign_in(server, "carol")


def _sign_in(server: RunningServer, name: str) -> Iterator[Visitor]:
    make_users(server)
    with Visitor(server) as visitor:
        yield visitor.sign_in(name)
