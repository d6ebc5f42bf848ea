"""A query for many rows at once finds the same as many queries, whatever the number."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import event

from keywright.db import ReadTransaction, Storage
from keywright.db.bulk import MAX_KEYS, MAX_ROWS
from keywright.engine import idempotency
from keywright.engine.idempotency import IdempotencyRecord
from keywright.licensing.activations import store as activation_store
from keywright.licensing.licenses import store as license_store
from tests.makers import NOW, a_license, an_activation
from tests.storage.conftest import a_storage

pytestmark = pytest.mark.tier("ordinary")

SIZES = range(301)


def key(number: int) -> str:
    return f"key {number}"


def token(number: int) -> str:
    return f"{number:040x}"


def scope(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture(scope="module")
def many(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """320 licenses with two activations each, one of them active, and 320 idempotency records."""
    with a_storage(database, tmp_path_factory.mktemp("many")) as storage:
        with storage.write() as tx:
            license_store.save_new_licenses(tx, [a_license(id=n, key=key(n)) for n in range(1, 321)])
            activation_store.save_new_activations(
                tx,
                [an_activation(id=n, license_id=n, token=token(n)) for n in range(1, 321)]
                + [
                    an_activation(id=n + 1000, license_id=n, token=token(n + 1000), deactivated_at=NOW)
                    for n in range(1, 321)
                ],
            )
            scopes = [scope(n) for n in range(1, 321)]
            kept = {one: IdempotencyRecord(one, 200, b"") for one in scopes}
            idempotency.save_idempotency_records(tx, kept, dict.fromkeys(scopes, NOW))
        yield storage


@pytest.fixture(scope="module")
def tx(many: Storage) -> Iterator[ReadTransaction]:
    with many.read() as tx:
        yield tx


@contextmanager
def statements(tx: ReadTransaction) -> Iterator[list[tuple[str, int]]]:
    """Record the statements during the block, with their numbers of values."""
    seen: list[tuple[str, int]] = []

    def see(_connection: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
        seen.append((statement, len(values)))

    event.listen(tx.connection, "before_cursor_execute", see)
    yield seen
    event.remove(tx.connection, "before_cursor_execute", see)


def test_lookups_of_any_size_are_a_handful_of_statements(tx: ReadTransaction) -> None:
    is_sqlite = tx.connection.dialect.name == "sqlite"
    for size in SIZES[1:]:
        with statements(tx) as seen:
            license_store.find_licenses(tx, [key(n) for n in range(1, size + 1)])
        if is_sqlite:
            assert len(seen) == -(-size // MAX_KEYS)
            assert {values for _, values in seen} <= {1, 2, 4, 8, 16, 32, 64, MAX_KEYS}
        else:
            assert [values for _, values in seen] == [1]
            assert all(statement == seen[0][0] for statement, _ in seen)


def test_more_rows_than_one_statement_takes_are_changed_and_found(many: Storage) -> None:
    numbers = range(1_001, 1_001 + 2 * MAX_ROWS + 1)
    more = [a_license(id=n, key=key(n)) for n in numbers]
    with many.write() as tx:
        license_store.save_new_licenses(tx, more)
        license_store.save_licenses(tx, [(one, replace(one, times_activated=1)) for one in more])
        found = license_store.find_licenses(tx, [one.key for one in more])
        assert {one.id: one.times_activated for one in found.values()} == dict.fromkeys(numbers, 1)
        activation_store.delete_licenses(tx, numbers)
        assert license_store.find_licenses(tx, [one.key for one in more]) == {}


def test_any_number_of_licenses_is_found_at_once(tx: ReadTransaction) -> None:
    for size in SIZES:
        found = license_store.find_licenses(tx, [*map(key, range(1, size + 1)), *["unknown"] * (size % 3)])
        assert {one: license.id for one, license in found.items()} == {key(n): n for n in range(1, size + 1)}


def test_any_number_of_licenses_is_locked_at_once(many: Storage) -> None:
    with many.write() as tx:
        for size in (0, 1, 2, 3, 127, 128, 129, 255, 256, 257, 300):
            assert len(license_store.lock_licenses(tx, {key(n) for n in range(1, size + 1)})) == size


def test_the_activations_of_any_number_of_licenses_are_listed_once_each(tx: ReadTransaction) -> None:
    for size in SIZES:
        numbers = range(1, size + 1)
        everything = activation_store.list_activations(tx, numbers)
        assert {n: [one.id for one in records] for n, records in everything.items()} == {
            n: [n, n + 1000] for n in numbers
        }
        active = activation_store.list_active(tx, numbers)
        assert {n: [one.id for one in records] for n, records in active.items()} == {n: [n] for n in numbers}


def test_any_number_of_tokens_is_found_at_once_and_once_each(tx: ReadTransaction) -> None:
    for size in SIZES:
        numbers = range(1, size + 1)
        found = activation_store.find_activations(tx, [(n, token(n)) for n in numbers])
        assert sorted(one.id for one in found) == list(numbers)
        assert activation_store.find_activations(tx, [(n, token(n + 1)) for n in numbers]) == []


def test_any_number_of_idempotency_records_is_found_at_once(many: Storage) -> None:
    with many.write() as tx:
        for size in SIZES:
            numbers = range(1, size + 1)
            found = idempotency.lock_idempotency_records(tx, [scope(n) for n in numbers])
            assert {one: answer.request_digest for one, answer in found.items()} == {
                scope(n): scope(n) for n in numbers
            }
