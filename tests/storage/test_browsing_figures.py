"""Counts of all licenses are cached, for up to a minute."""

import threading
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from keywright.db import ReadTransaction, Storage, WriteTransaction, run_read
from keywright.db.bulk import bulk_insert
from keywright.db.schema import daily_counts, limit_refusals
from keywright.events import store as event_store
from keywright.licensing.activations import store as activation_store
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import Status
from keywright.search import statistics as of_figures
from keywright.search.statistics import Figures, Overview, RecentFigures, count_figures, list_days, overview
from tests.makers import NOW, a_license, an_event
from tests.storage.browsed import LicenseWithTerms, insert, many_licenses_with_terms
from tests.storage.conftest import Opener

DATABASES = ("sqlite",)

TODAY = NOW.date()


def insert_counts(tx: WriteTransaction, amounts: dict[tuple[int, str], int]) -> None:
    """Insert counts for this many days ago."""
    today = (TODAY - date(1970, 1, 1)).days
    values = [{"day": today - ago, "name": name, "amount": amount} for (ago, name), amount in amounts.items()]
    bulk_insert(daily_counts).execute(tx.connection, values)


def insert_refusals(tx: WriteTransaction, *refused: tuple[int, int, datetime]) -> None:
    values = [
        {"license_id": number, "refusals": times, "last_refused_at": int(at.timestamp())}
        for number, times, at in refused
    ]
    bulk_insert(limit_refusals).execute(tx.connection, values)


def an_overview(storage: Storage, **asked: Any) -> Overview:
    return run_read(storage, lambda tx: overview(tx, NOW, **asked))


def test_an_empty_database_has_an_overview(storage: Storage) -> None:
    found = an_overview(storage)
    assert (found.total, found.by_status, found.full, found.unused, found.expiring_30_days) == (
        0,
        {},
        0,
        0,
        0,
    )
    assert (found.refused_lately, found.latest_events, found.as_of) == ((), (), NOW)


def test_the_figures_are_what_counting_every_license_gives(storage: Storage) -> None:
    stored = many_licenses_with_terms(storage, 200, seed=3)
    found = run_read(storage, lambda tx: count_figures(tx, NOW))
    licenses = [one.license for one in stored]
    until = NOW + timedelta(days=30)
    assert found == Figures(
        by_status={status: sum(one.status == status for one in licenses) for status in Status},
        total=200,
        full=sum("full" in one.terms for one in stored),
        unused=sum("unused" in one.terms for one in stored),
        expiring_30_days=sum(
            one.expires_at is not None and NOW < one.expires_at <= until for one in licenses
        ),
        as_of=NOW,
    )


@pytest.mark.smoke
def test_each_of_thirty_days_has_its_counts_and_today_is_the_last(storage: Storage) -> None:
    with storage.write() as tx:
        insert_counts(
            tx,
            {
                (0, "license.activated"): 5,
                (29, "license.activated"): 7,
                (30, "license.activated"): 1_000,
                (-1, "license.activated"): 1_000,
                (1, "license.validated"): 3_000_000_000,
                (0, "license.deactivated"): 9,
            },
        )
    names = ("license.activated", "license.validated")
    found = run_read(storage, lambda tx: list_days(tx, names, last=TODAY, days=30))
    assert found == {
        "license.activated": (7, *[0] * 28, 5),
        "license.validated": (*[0] * 28, 3_000_000_000, 0),
    }
    of_product = run_read(storage, lambda tx: list_days(tx, names, last=TODAY, days=30, product_id=7))
    assert of_product == {name: (0,) * 30 for name in names}


@pytest.mark.smoke
def test_the_licenses_refused_last_are_named_but_not_those_that_are_gone(storage: Storage) -> None:
    licenses = [a_license(id=number, key=f"{number}") for number in range(1, 15)]
    with storage.write() as tx:
        license_store.save_new_licenses(tx, licenses)
        insert_refusals(tx, *((number, number, NOW - timedelta(hours=number)) for number in range(1, 15)))
        activation_store.delete_licenses(tx, {2})
    found = an_overview(storage).refused_lately
    assert [(one.license.id, one.refusals) for one in found] == [(n, n) for n in (1, *range(3, 11))]
    assert found[0].license == licenses[0]
    assert found[0].last_refused_at == NOW - timedelta(hours=1)


def test_the_latest_events_come_first(storage: Storage) -> None:
    with storage.write() as tx:
        event_store.save_events(
            tx, [an_event(license_id=number, details={"n": number}) for number in range(1, 13)]
        )
    found = an_overview(storage).latest_events
    assert [one.event for one in found] == [
        an_event(license_id=number, details={"n": number}) for number in range(12, 2, -1)
    ]
    assert [one.id for one in found] == list(range(12, 2, -1))
    with storage.write() as tx:
        event_store.save_events(tx, [an_event(name="user.created")] * 60)
    assert an_overview(storage, without="user.").latest_events == found


# --- figures of a minute ago ----------------------------------------------------------------------


@pytest.fixture
def add(storage: Storage) -> Any:
    """Add a license."""
    numbers = iter(range(1, 100))

    def added() -> None:
        number = next(numbers)
        with storage.write() as tx:
            insert(tx, [LicenseWithTerms(a_license(id=number, key=f"{number}"), frozenset())])

    return added


def test_figures_are_counted_anew_after_a_minute_or_when_the_clock_was_put_back(
    storage: Storage, add: Any
) -> None:
    recent = RecentFigures()

    def total_at(seconds: int) -> int:
        return run_read(storage, lambda tx: recent.get(tx, NOW + timedelta(seconds=seconds))).total

    assert total_at(0) == 0
    add()
    assert total_at(59) == 0
    assert total_at(60) == 1
    add()
    assert total_at(119) == 1
    assert total_at(59) == 2


def test_a_few_licenses_are_counted_each_time(storage: Storage, add: Any) -> None:
    recent = RecentFigures(few=2)
    totals = []
    for _ in range(5):
        totals.append(an_overview(storage, recent=recent).total)
        add()
    assert totals == [0, 1, 2, 3, 3]


def test_while_one_thread_counts_the_others_get_the_figures_there_are(
    open_again: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_again(), open_again()
    recent = RecentFigures()
    run_read(one, lambda tx: recent.get(tx, NOW))
    is_counting, may_go_on = threading.Event(), threading.Event()
    count = of_figures.count_figures

    def count_slowly(*arguments: Any) -> Figures:
        is_counting.set()
        assert may_go_on.wait(30)
        return count(*arguments)

    monkeypatch.setattr(of_figures, "count_figures", count_slowly)
    later = NOW + timedelta(minutes=2)
    counting = threading.Thread(target=lambda: run_read(one, lambda tx: recent.get(tx, later)))
    counting.start()
    assert is_counting.wait(30)
    assert run_read(other, lambda tx: recent.get(tx, later)).as_of == NOW
    may_go_on.set()
    counting.join(30)
    assert run_read(other, lambda tx: recent.get(tx, later)).as_of == later


def test_who_comes_first_together_counts_once(open_again: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    storages = [open_again() for _ in range(4)]
    recent, counted, count = RecentFigures(), [], of_figures.count_figures

    def count_and_note(*arguments: Any) -> Figures:
        counted.append(1)
        return count(*arguments)

    monkeypatch.setattr(of_figures, "count_figures", count_and_note)
    threads = [
        threading.Thread(target=lambda one=one: run_read(one, lambda tx: recent.get(tx, NOW)))
        for one in storages
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counted == [1]


def test_many_are_counted_behind_who_asks_and_only_once(storage: Storage, add: Any) -> None:
    asked: list[Callable[[ReadTransaction], None]] = []
    recent = RecentFigures(many=0, enqueue=asked.append)

    def total_at(seconds: int) -> int:
        return run_read(storage, lambda tx: recent.get(tx, NOW + timedelta(seconds=seconds))).total

    add()
    # Nothing is cached yet: the first caller waits.
    assert (total_at(0), asked) == (1, [])
    add()
    assert [total_at(60), total_at(61)] == [1, 1]
    assert len(asked) == 1
    run_read(storage, asked[0])
    assert recent.are_recent(NOW + timedelta(seconds=61))
    assert (total_at(61), len(asked)) == (2, 1)


def test_figures_can_be_asked_for_before_anybody_waits_for_them(storage: Storage, add: Any) -> None:
    asked: list[Callable[[ReadTransaction], None]] = []
    recent = RecentFigures(enqueue=asked.append)
    add()
    recent.refresh(NOW)
    recent.refresh(NOW)
    assert len(asked) == 1
    run_read(storage, asked[0])
    recent.refresh(NOW)
    assert len(asked) == 1
    add()
    assert run_read(storage, lambda tx: recent.get(tx, NOW)).total == 1


def test_what_was_to_be_counted_and_was_not_is_asked_for_again(storage: Storage, add: Any) -> None:
    asked: list[Callable[[ReadTransaction], None]] = []
    recent = RecentFigures(many=0, enqueue=asked.append)
    add()
    run_read(storage, lambda tx: recent.get(tx, NOW))
    for seconds in (60, 69, 70, 79, 80):
        recent.refresh(NOW + timedelta(seconds=seconds))
    assert len(asked) == 3


def test_after_counting_failed_the_next_counts(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    recent = RecentFigures()

    def fail(*_: Any) -> Figures:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(of_figures, "count_figures", fail)
        with pytest.raises(RuntimeError):
            run_read(storage, lambda tx: recent.get(tx, NOW))
    assert run_read(storage, lambda tx: recent.get(tx, NOW)).total == 0
