"""What runs on the simulated disk is what runs everywhere: Keywright's own statements and settings."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from sqlalchemy import text

from keywright.core.errors import RejectedByDatabase
from keywright.db import sqlite
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import store as license_store
from keywright.registry import open_executor
from tests.makers import (
    a_license,
    a_retry,
    activate,
    create,
    deactivate,
    delete,
    open_or_make,
    reactivate,
    update,
    validate,
)
from tests.power.disk import Disk
from tests.power.driver import Driver, driven_by

#: How a database is written, and when it is synced.
SETTINGS = (
    "journal_mode synchronous foreign_keys wal_autocheckpoint page_size cache_size locking_mode fullfsync "
    "checkpoint_fullfsync journal_size_limit auto_vacuum mmap_size"
).split()


class Noting(sqlite3.Cursor):
    """Writes down what it is told."""

    statements: list[str]

    def execute(self, statement: str, values: Any = ()) -> Self:
        self.statements.append(statement)
        return super().execute(statement, values)

    def executemany(self, statement: str, runs: Iterable[Any]) -> Self:
        self.statements.append(statement)
        return super().executemany(statement, runs)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said to the standard library's driver."""
    said: list[str] = []

    class Cursor(Noting):
        statements = said

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
            return self.cursor().execute(statement, values)  # type: ignore[no-any-return]

    class Module:
        def __getattr__(self, name: str) -> Any:
            return getattr(sqlite3, name)

        def connect(self, *given: Any, **options: Any) -> sqlite3.Connection:
            return sqlite3.connect(*given, factory=Connection, **options)

    monkeypatch.setattr(sqlite, "sqlite3", Module())
    return said


def live(folder: Path) -> list[str]:
    """Do everything that a Keywright does every day; in words, how it was answered."""
    with closing(open_or_make(folder)) as storage:
        executor = open_executor(storage)
        given = executor.execute([create("A", 3), create("B"), activate("A"), activate("A"), activate("?")])
        token = given[2].activations[0].token
        for commands in (
            [
                deactivate(token, "A"),
                activate("B", idempotency=a_retry("call")),
                update("B", times_activated_max=2),
            ],
            [reactivate(token, "A"), activate("B", idempotency=a_retry("call")), create("A")],
            [activate("A") for _ in range(3)],
            [delete("B")],
        ):
            given += executor.execute(commands)
        given += executor.query([validate("A"), validate("B")])
    return [in_words(one) for one in given]


def in_words(outcome: Any) -> str:
    said = outcome.license if isinstance(outcome, LicenseRecord) else outcome
    return f"{type(outcome).__name__}: {said}"


def test_keywright_says_the_same_over_it(tmp_path: Path, statements: list[str]) -> None:
    expected = live(tmp_path / "anywhere")
    driver = Driver(Disk(tmp_path / "disk"))
    with driven_by(driver):
        assert live(tmp_path / "disk") == expected
    assert driver.statements == statements
    assert {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "BEGIN IMMEDIATE"} < set(statements)


@contextmanager
def connection_to(folder: Path) -> Iterator[Callable[[str], Any]]:
    """Asks Keywright's connection about its settings."""
    with closing(open_or_make(folder)) as storage, storage.write() as tx:
        yield lambda name: tx.connection.execute(text(f"PRAGMA {name}")).scalar_one()


def test_the_settings_are_those_of_keywright(tmp_path: Path) -> None:
    with connection_to(tmp_path / "anywhere") as setting:
        expected = {name: setting(name) for name in SETTINGS}
    with driven_by(Driver(Disk(tmp_path / "disk"))), connection_to(tmp_path / "disk") as setting:
        assert {name: setting(name) for name in SETTINGS} == expected
    full = 2
    assert (expected["journal_mode"], expected["synchronous"]) == ("wal", full)
    assert (expected["foreign_keys"], expected["wal_autocheckpoint"]) == (1, 1_000)


def test_an_error_is_the_same_error(tmp_path: Path) -> None:
    expected = refusal(tmp_path / "anywhere")
    with driven_by(Driver(Disk(tmp_path / "disk"))):
        assert refusal(tmp_path / "disk") == expected


def refusal(folder: Path) -> tuple[str, object]:
    """How it is said that two licenses have one number."""
    with (
        closing(open_or_make(folder)) as storage,
        pytest.raises(RejectedByDatabase) as refused,
        storage.write() as tx,
    ):
        license_store.save_new_licenses(tx, [a_license(), a_license()])
    return str(refused.value), type(refused.value.__cause__)
