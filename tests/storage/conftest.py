"""The databases of the contract tests: each test has one of its own, of every kind of its module's
``DATABASES``.

A module whose rules no database can break has SQLite alone there. Those of its tests that are marked
``smoke`` run on PostgreSQL, too: together they execute each of its statements.

``make test`` runs on PostgreSQL what is marked ``smoke`` or ``of_the_database``; ``make test-rest`` the rest.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from keywright.core.crypto import KeyRing
from keywright.db import ReadTransaction, Storage, open_storage
from keywright.engine.executor import Executor
from keywright.registry import open_executor
from tests.databases import KINDS, a_postgres_url
from tests.makers import KEY_RING, make_sqlite_file, url_of
from tests.storage.unlucky import Unlucky
from tools.postgres import binaries

#: Opens the same database again: another object, as another process has one.
Opener = Callable[..., Storage]

#: What a URL can say of the isolation of changes; transactions are then undone by the server, too.
ISOLATED = {
    "repeatable read": "?options=-c%20default_transaction_isolation%3Drepeatable%5C%20read",
    "serializable": "?options=-c%20default_transaction_isolation%3Dserializable",
}
#: For ``DATABASES`` of tests whose transactions meet: what others make of them depends on the isolation.
EVERY_ISOLATION = (*KINDS, *ISOLATED)
#: For those of changes that come one after the other and may have to be run again: one isolation shows it.
RUN_AGAIN = (*KINDS, "serializable")


@pytest.fixture
def url(database: str, tmp_path: Path) -> Iterator[str]:
    """The URL of the test's own database, which has all tables and nothing in them."""
    if database == "sqlite":
        own = url_of(tmp_path / "data")
        make_sqlite_file(own)
        yield own
        return
    with a_postgres_url() as url:
        yield url + ISOLATED.get(database, "")


@contextmanager
def a_storage(database: str, folder: Path) -> Iterator[Storage]:
    """A database with nothing in it, for as long as the block runs; for modules whose tests only read."""
    with ExitStack() as stack:
        if database == "postgresql":
            url = stack.enter_context(a_postgres_url())
        else:
            url = url_of(folder)
            make_sqlite_file(url)
        yield stack.enter_context(closing(open_storage(url, KEY_RING)))


@pytest.fixture
def open_again(url: str) -> Iterator[Opener]:
    """Opens the test's database, any number of times; closes all of them at the end."""
    with ExitStack() as stack:

        def opened(key_ring: KeyRing = KEY_RING) -> Storage:
            return stack.enter_context(closing(open_storage(url, key_ring)))

        yield opened


@pytest.fixture
def storage(open_again: Opener) -> Storage:
    """A database with nothing in it."""
    return open_again()


@pytest.fixture
def executor(database: str, url: str, storage: Storage) -> Iterator[Executor]:
    """The operations on that database; where transactions can be undone by the server, many are."""
    if database not in ISOLATED:
        yield open_executor(storage)
        return
    with closing(Unlucky(url, KEY_RING)) as unlucky:
        yield open_executor(unlucky)


#: What reads the clock of the database.
_READ_CLOCK = ReadTransaction.read_clock


@pytest.fixture(autouse=True)
def clock_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided by the database's clock is decided by the commands': tests choose their moments."""
    monkeypatch.setattr(ReadTransaction, "read_clock", lambda _tx: None)


@pytest.fixture
def clock_of_database(clock_of_commands: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database's clock decides, as it does where no test is."""
    monkeypatch.setattr(ReadTransaction, "read_clock", _READ_CLOCK)


@pytest.fixture
def programs(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump and pg_restore of the server's version are on PATH."""
    if database == "postgresql":
        monkeypatch.setenv("PATH", f"{binaries()}:{os.environ['PATH']}")


@pytest.fixture
def elsewhere(database: str, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of the same kind."""
    if database == "sqlite":
        yield url_of(tmp_path / "elsewhere")
        return
    with a_postgres_url(empty=True) as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file for a backup, in a folder of its own."""
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "keywright.tar"
