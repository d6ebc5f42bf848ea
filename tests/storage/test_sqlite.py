"""Specifics of SQLite: pragmas, other programs, and a failing disk."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from keywright.core.errors import StoreBusy, StoreReadOnly, StoreUnavailable
from keywright.db import ReadTransaction, sqlite
from keywright.db.copies import write_copy
from keywright.db.sqlite import SqliteStorage
from keywright.engine.health import CheckDatabase
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from keywright.registry import open_executor
from tests.makers import (
    KEY,
    TOKEN,
    a_license,
    a_retry,
    a_storage,
    activate,
    create,
    deactivate,
    delete,
    validate,
)

ANY = LicenseFilter()


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[SqliteStorage]:
    with closing(a_storage(tmp_path)) as storage:
        yield storage


@contextmanager
def hold_sqlite_lock(storage: SqliteStorage, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Let another program hold SQLite's own lock, but not the one-writer lock."""
    with closing(sqlite3.connect(storage.path, isolation_level=None)) as foreign:
        foreign.execute(begin)
        yield
        foreign.execute("ROLLBACK")


def pragma(tx: ReadTransaction, name: str) -> object:
    return tx.connection.exec_driver_sql(f"PRAGMA {name}").scalar()


def insert_license(tx: ReadTransaction) -> None:
    """Write through a connection, perhaps a read-only one."""
    tx.connection.exec_driver_sql("UPDATE sequences SET last_id = 99")


def test_a_commit_is_in_the_log_and_on_the_disk_before_it_is_told(storage: SqliteStorage) -> None:
    full = 2
    with storage.write() as tx:
        assert pragma(tx, "journal_mode") == "wal"
        assert pragma(tx, "synchronous") == full
        assert pragma(tx, "foreign_keys") == 1
    with storage.read() as tx:
        assert pragma(tx, "journal_mode") == "wal"


def test_who_reads_beside_others_keeps_little_in_memory(storage: SqliteStorage) -> None:
    def kept(of: SqliteStorage) -> object:
        with of.read() as tx:
            return pragma(tx, "cache_size")

    with closing(storage.clone()) as beside:
        assert (kept(storage), kept(beside)) == (-16 * 1024, -2 * 1024)


def test_a_reader_cannot_write(storage: SqliteStorage) -> None:
    with pytest.raises(StoreUnavailable, match="readonly"), storage.read() as tx:
        insert_license(tx)
    with storage.write() as tx:
        assert tx.ids.next("license") == 1


def test_refusals_write_nothing(storage: SqliteStorage) -> None:
    executor = open_executor(storage)
    executor.execute([create(limit=1), activate()])
    with storage.write() as tx:
        before = tx.connection.exec_driver_sql("SELECT total_changes()").scalar_one()
    executor.execute([activate(), create(), deactivate(TOKEN), delete("unknown")])
    with storage.write() as tx:
        assert tx.connection.exec_driver_sql("SELECT total_changes()").scalar_one() == before


def test_a_write_begins_at_once_so_that_nothing_comes_between_reading_and_writing(
    storage: SqliteStorage,
) -> None:
    with (
        storage.write(),
        closing(sqlite3.connect(storage.path, timeout=0)) as foreign,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        foreign.execute("BEGIN IMMEDIATE")


def test_without_waiting_a_foreign_lock_is_busy_at_once_and_later_forgotten(storage: SqliteStorage) -> None:
    with hold_sqlite_lock(storage):
        with pytest.raises(StoreBusy), storage.write(wait=0):
            pass
        with storage.read() as tx:
            assert license_store.count_licenses(tx, ANY) == 0
    with storage.write(wait=0) as tx:
        license_store.save_new_licenses(tx, [a_license()])


def test_a_lock_that_comes_in_the_middle_of_the_work_is_busy_too(storage: SqliteStorage) -> None:
    executor = open_executor(storage)
    executor.execute([create()])
    with hold_sqlite_lock(storage):
        with pytest.raises(StoreBusy):
            executor.execute([create("a"), create("b")], wait=0)
        (answer,) = executor.query([validate()])
        assert answer.license.key == KEY
    assert [one.license.key for one in executor.execute([create("a"), create("b")], wait=0)] == ["a", "b"]


def test_a_foreign_lock_is_waited_for_no_longer_than_the_limit_and_each_command_told_so(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT", 0.05)
    executor = open_executor(storage)
    with hold_sqlite_lock(storage):
        outcomes = executor.execute([create("a"), create("b")])
    assert [type(one) for one in outcomes] == [StoreBusy, StoreBusy]
    with storage.write():
        pass


def test_a_full_disk_makes_changes_unavailable_and_heals(storage: SqliteStorage) -> None:
    executor = open_executor(storage)
    executor.execute([create()])
    with storage.write() as tx:
        pages = pragma(tx, "page_count")
        pragma(tx, f"max_page_count={pages}")
    many = [create(f"key {n}" + "x" * 200) for n in range(500)]
    outcomes = executor.execute(many)
    assert {type(one) for one in outcomes} == {StoreReadOnly}
    (answer,) = executor.query([validate()])
    assert answer.license.key == KEY
    # The failed connection was closed; a new one has space again.
    assert [one.license.id for one in executor.execute(many[:2])] == [2, 3]


def test_an_answer_to_a_change_that_did_not_last_is_not_kept(storage: SqliteStorage) -> None:
    executor = open_executor(storage)
    executor.execute([create()])
    with storage.write() as tx:
        pragma(tx, "max_page_count=1")
    many = [create(f"key {n}" + "x" * 200) for n in range(500)]
    outcomes = executor.execute([activate(idempotency=a_retry("call")), *many])
    assert {type(one) for one in outcomes} == {StoreReadOnly}
    (outcome,) = executor.execute([activate(idempotency=a_retry("call"))])
    assert outcome.license.times_activated == 1


def test_a_database_that_vanished_is_unavailable_for_questions_and_changes(
    storage: SqliteStorage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage.close()
    hidden = tmp_path / "hidden.db"
    storage.path.rename(hidden)
    executor = open_executor(storage)
    assert isinstance(executor.query([validate()])[0], StoreUnavailable)
    assert isinstance(executor.execute([create()])[0], StoreUnavailable)
    assert not storage.path.exists()
    # It is logged once a minute.
    assert isinstance(executor.query([validate()])[0], StoreUnavailable)
    hidden.rename(storage.path)
    assert executor.execute([create()])[0].license.key == KEY
    assert executor.query([validate()])[0].license.key == KEY
    # A periodic writer logs that the database can be written again.
    assert [one.message.partition(":")[0] for one in caplog.records] == [
        "the database cannot be read",
        "the database cannot be written",
        "the database answers again after 0 s",
    ]


def test_a_database_that_was_overwritten_does_not_answer(storage: SqliteStorage) -> None:
    storage.close()
    storage.path.write_bytes(b"dear diary\n" * 10_000)
    (outcome,) = open_executor(storage).query([CheckDatabase()])
    assert isinstance(outcome, StoreUnavailable)


def test_closing_moves_the_log_into_the_database_and_allows_opening_again(storage: SqliteStorage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    with storage.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 1
    assert Path(f"{storage.path}-wal").stat().st_size > 0
    storage.close()
    storage.close()
    assert not Path(f"{storage.path}-wal").exists()
    with storage.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 1


def test_a_reader_neither_moves_nor_shortens_the_log(storage: SqliteStorage, tmp_path: Path) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    log = Path(f"{storage.path}-wal")
    before = (storage.path.read_bytes(), log.read_bytes())
    reader = a_storage(tmp_path)
    with reader.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 1
    reader.close()
    assert (storage.path.read_bytes(), log.read_bytes()) == before


def test_a_copy_is_made_while_others_write(storage: SqliteStorage, tmp_path: Path) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
        write_copy(storage.path, tmp_path / "before.db")
    write_copy(storage.path, tmp_path / "after.db")
    counts = []
    for name in ("before.db", "after.db"):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            counts.append(connection.execute("SELECT count(*) FROM licenses").fetchone()[0])
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert counts == [0, 1]
