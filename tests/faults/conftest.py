"""What the tests of faults happen to: servers of PostgreSQL that may be hurt, and what stands around them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.installations import Database
from tests.faults.proxy import Proxy, run_proxy
from tests.server import RunningServer, running
from tools import postgres as servers
from tools.postgres import FAST, PostgresServer


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server of a test file's own; whoever stops it starts it again."""
    with servers.running(**FAST) as server:
        yield server


@pytest.fixture
def store(postgres: PostgresServer) -> Iterator[Database]:
    """A database with the licenses of ``store.keys``; it must be sound in the end."""
    store = Database(postgres)
    yield store
    store.assert_sound()


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    """Between Keywright and the server."""
    with run_proxy(postgres.port) as proxy:
        yield proxy


@pytest.fixture
def keywright(store: Database, tmp_path: Path) -> Iterator[RunningServer]:
    """A Keywright on ``store``."""
    with running(tmp_path / "data", **store.settings()) as server:
        yield server


@pytest.fixture
def distant(store: Database, proxy: Proxy, tmp_path: Path) -> Iterator[RunningServer]:
    """A Keywright that reaches ``store`` through ``proxy``."""
    with running(tmp_path / "distant", **store.settings(port=proxy.port)) as server:
        yield server
