"""A query for many things at once finds the same as many queries, whatever their number."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from keywright.model import KeptAnswer
from keywright.storage import Reading, Storage
from keywright.storage.queries import MOST_AT_ONCE, in_sizes
from tests.makers import NOW, a_license, a_storage, an_activation

SIZES = range(301)


def key(number: int) -> str:
    return f"key {number}"


def token(number: int) -> str:
    return f"{number:040x}"


def scope(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """320 licenses with two activations each, one of them active, and 320 kept answers."""
    folder: Path = tmp_path_factory.mktemp("many")
    with closing(a_storage(folder)) as storage:
        with storage.write() as tx:
            tx.save_new_licenses([a_license(id=n, key=key(n)) for n in range(1, 321)])
            tx.save_new_activations(
                [an_activation(id=n, license_id=n, token=token(n)) for n in range(1, 321)]
                + [
                    an_activation(id=n + 1000, license_id=n, token=token(n + 1000), deactivated_at=NOW)
                    for n in range(1, 321)
                ]
            )
            for n in range(1, 321):
                tx.save_kept_answer(scope(n), KeptAnswer(scope(n), 200, b""), NOW)
        yield storage


@pytest.fixture(scope="module")
def tx(many: Storage) -> Iterator[Reading]:
    with many.read() as tx:
        yield tx


def test_a_list_is_cut_into_runs_of_powers_of_two_and_filled_up_with_its_own_values() -> None:
    for size in SIZES:
        runs = list(in_sizes(range(size)))
        assert {one for run in runs for one in run} == set(range(size))
        assert all(len(run) in (1, 2, 4, 8, 16, 32, 64, MOST_AT_ONCE) for run in runs)
        assert len(runs) == -(-size // MOST_AT_ONCE)


def test_any_number_of_licenses_is_found_at_once(tx: Reading) -> None:
    for size in SIZES:
        found = tx.find_licenses([key(n) for n in range(1, size + 1)])
        assert {one: license.id for one, license in found.items()} == {key(n): n for n in range(1, size + 1)}


def test_any_number_of_licenses_is_locked_at_once(many: Storage) -> None:
    with many.write() as tx:
        for size in (0, 1, 2, 3, 127, 128, 129, 255, 256, 257, 300):
            assert len(tx.lock_licenses({key(n) for n in range(1, size + 1)})) == size


def test_unknown_keys_among_known_ones_are_left_out(tx: Reading) -> None:
    for size in (1, 2, 5, 128, 129, 300):
        found = tx.find_licenses([key(n) for n in range(321 - size, 321)] + ["unknown"] * size)
        assert set(found) == {key(n) for n in range(321 - size, 321)}


def test_the_activations_of_any_number_of_licenses_are_listed_once_each(tx: Reading) -> None:
    for size in SIZES:
        numbers = range(1, size + 1)
        everything = tx.list_activations(numbers)
        assert {n: [one.id for one in records] for n, records in everything.items()} == {
            n: [n, n + 1000] for n in numbers
        }
        active = tx.list_active(numbers)
        assert {n: [one.id for one in records] for n, records in active.items()} == {n: [n] for n in numbers}


def test_any_number_of_tokens_is_found_at_once_and_once_each(tx: Reading) -> None:
    for size in SIZES:
        numbers = range(1, size + 1)
        found = tx.find_activations([(n, token(n)) for n in numbers])
        assert sorted(one.id for one in found) == list(numbers)
        assert tx.find_activations([(n, token(n + 1)) for n in numbers]) == []


def test_any_number_of_kept_answers_is_found_at_once(tx: Reading) -> None:
    for size in SIZES:
        numbers = range(1, size + 1)
        found = tx.find_kept_answers([scope(n) for n in numbers])
        assert {one: answer.request_digest for one, answer in found.items()} == {
            scope(n): scope(n) for n in numbers
        }
