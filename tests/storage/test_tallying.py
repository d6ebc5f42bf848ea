"""Storing the counts that server processes collected in memory."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import select

from keywright.core.command import Context
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import limit_refusals
from keywright.engine.executor import Executor
from keywright.identity.store import list_api_keys, save_new_api_key
from keywright.registry import open_executor
from keywright.search.statistics import PurgeRefusals
from tests.makers import LATER, NOW, an_api_key, an_origin, create
from tests.storage.conftest import EVERY_ISOLATION, RUN_AGAIN, Opener
from tests.storage.projected import day, list_counts, tally

DATABASES = RUN_AGAIN
pytestmark = pytest.mark.of_the_database


def refusals(storage: Storage) -> list[tuple[int, int, int]]:
    """Licenses at which calls were refused for lack of a place: ID, number of refusals, last time."""
    return run_read(storage, lambda tx: sorted(map(tuple, tx.connection.execute(select(limit_refusals)))))


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def test_validations_add_up_day_by_day(executor: Executor, storage: Storage) -> None:
    assert executor.execute([tally(validations=2)]) == [None]
    executor.execute([tally(validations=3)])
    executor.execute([tally(LATER, validations=4)])
    assert list_counts(storage) == {(day(NOW), "license.validated"): 5, (day(LATER), "license.validated"): 4}


def test_refusals_add_up_and_the_last_one_is_known(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a"), create("b")])
    executor.execute([tally(LATER, refused={"a": 2, "b": 1})])
    executor.execute([tally(NOW, refused={"a": 5})])
    first, second = refusals(storage)
    assert (first[1:], second[1:]) == ((7, seconds(LATER)), (1, seconds(LATER)))


def test_refusals_of_licenses_that_are_gone_are_not_kept(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a")])
    executor.execute([tally(refused={"a": 1, "gone": 9})])
    assert len(refusals(storage)) == 1


def test_refusals_that_are_old_are_deleted(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a"), create("b")])
    executor.execute([tally(refused={"a": 1})])
    executor.execute([tally(LATER, refused={"b": 1})])
    # Later counts, even by a clock that is far ahead, delete nothing.
    executor.execute([tally(NOW + timedelta(days=400), validations=1)])
    for before, left in ((NOW, 2), (NOW + timedelta(seconds=1), 1)):
        executor.execute([PurgeRefusals(context=Context(LATER, an_origin()), before=before)])
        assert len(refusals(storage)) == left


def test_when_an_api_key_was_used_last_only_moves_forward(executor: Executor, storage: Storage) -> None:
    for name in "xy":
        issue = partial(save_new_api_key, api_key=an_api_key(), consumer_key_hash=name)
        run_write(storage, issue)
    first, second = (one.id for one in run_read(storage, list_api_keys))

    def used_at() -> list[datetime | None]:
        return [one.last_used_at for one in run_read(storage, list_api_keys)]

    assert used_at() == [None, None]
    executor.execute([tally(used_api_keys={second: LATER, 99: NOW})])
    assert used_at() == [None, LATER]
    executor.execute([tally(used_api_keys={second: NOW, first: NOW})])
    assert used_at() == [NOW, LATER]


def test_nothing_counted_changes_nothing(executor: Executor, storage: Storage) -> None:
    assert executor.execute([tally()]) == [None]
    assert (list_counts(storage), refusals(storage)) == ({}, [])


@pytest.mark.databases(*EVERY_ISOLATION)
def test_those_who_keep_counts_at_once_do_not_hinder_each_other(open_again: Opener, storage: Storage) -> None:
    open_executor(storage).execute([create(f"{one}") for one in range(50)])
    there = {f"{one}": 1 for one in range(50)}
    back = dict(reversed(there.items()))

    def keep(executor: Executor, refused: dict[str, int]) -> list[object]:
        return [one for _ in range(20) for one in executor.execute([tally(validations=1, refused=refused)])]

    processes = [(open_executor(open_again()), there), (open_executor(open_again()), back)]
    with ThreadPoolExecutor(2) as pool:
        outcomes = [one for done in pool.map(keep, *zip(*processes, strict=True)) for one in done]
    kept = sum(one is None for one in outcomes)
    assert kept
    assert list_counts(storage) == {(day(NOW), "license.validated"): kept}
    assert {times for _, times, _ in refusals(storage)} == {kept}
