"""Lists of events by day, kind and actor; and the properties of a database."""

from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from keywright.db import ReadTransaction, Storage, run_read, run_write
from keywright.db.migrate import HEAD
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.licensing.licenses.store import save_new_licenses
from keywright.maintenance import inspection
from keywright.search import feed
from keywright.search.feed import EventPage
from keywright.search.store import EventFilter, find_first_event_id
from tests.makers import NOW, TOKEN, a_license, an_event, an_event_filter, create_user, start_session

pytestmark = pytest.mark.of_the_database

MIDNIGHT = datetime(2026, 1, 15, tzinfo=UTC)


def happened(storage: Storage, *moments: datetime, **fields: Any) -> None:
    run_write(
        storage,
        lambda tx: event_store.save_events(tx, [an_event(occurred_at=one, **fields) for one in moments]),
    )


def of_day(storage: Storage, day: date, **asked: Any) -> list[datetime]:
    """The times of events, newest first, read in steps."""
    found, before = list[datetime](), None
    while True:

        def question(tx: ReadTransaction, before: int | None = before) -> EventPage:
            return feed.list_events(tx, an_event_filter(day=day, **asked), before_id=before, limit=3)

        page = run_read(storage, question)
        found += [one.event.occurred_at for one in page.events]
        before = page.before_id
        if before is None:
            return found


def test_of_no_events_there_are_none(storage: Storage) -> None:
    assert of_day(storage, MIDNIGHT.date()) == []


def test_clocks_may_be_some_minutes_apart(storage: Storage) -> None:
    late = [MIDNIGHT + timedelta(minutes=minutes) for minutes in (-20, 30, -10, 5, -1, 0, 40, -40, 70)]
    happened(storage, *late)
    assert sorted(of_day(storage, MIDNIGHT.date())) == sorted(one for one in late if one >= MIDNIGHT)


def test_an_event_is_found_by_its_moment_in_few_steps(storage: Storage) -> None:
    happened(storage, *(NOW + timedelta(minutes=minute) for minute in range(1000)))
    first = run_read(storage, lambda tx: find_first_event_id(tx, NOW))
    for minute in (0, 1, 500, 999, 1000):
        moment = NOW + timedelta(minutes=minute)
        assert run_read(storage, partial(find_first_event_id, moment=moment)) == first + minute


@pytest.mark.parametrize("most", [10_000, 0])
def test_the_events_about_a_customer_are_among_its_own(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    # Found by the index, or searched among all.
    monkeypatch.setattr(feed, "_MAX_GATHERED", most)
    run_write(storage, lambda tx: save_new_licenses(tx, [a_license(id=1, customer_id=7, product_id=2)]))
    about = {"license_id": 0, "details": {"number": 7}}
    happened(storage, NOW, name="customer.updated", **about)
    happened(storage, NOW, name="license.created", license_id=1)
    happened(storage, NOW, name="customer.updated", license_id=0, details={"number": 8})
    happened(storage, NOW, name="name.saved", license_id=0, details={"kind": "product", "number": 7})
    happened(storage, NOW, name="name.saved", license_id=0, details={"kind": "customer", "number": 7})

    def names(**asked: Any) -> list[str]:
        page = run_read(storage, lambda tx: feed.list_events(tx, EventFilter(**asked), limit=9))
        return [one.event.name for one in page.events]

    assert names(customer_id=7) == ["name.saved", "license.created", "customer.updated"]
    assert names(customer_id=7, name="customer.") == ["customer.updated"]
    assert names(customer_id=7, product_id=2) == ["license.created"]


def test_a_database_says_what_it_is(storage: Storage, database: str) -> None:
    measured = run_read(storage, inspection.measure)
    assert measured.kind == database
    assert measured.revision == HEAD
    assert measured.version.replace(".", "").isdigit()
    assert 50_000 < measured.size < 50_000_000


def test_sessions_are_counted_as_long_as_they_are_good(storage: Storage, executor: Executor) -> None:
    (user,) = executor.execute([create_user()])
    executor.execute([start_session(user.id), start_session(user.id, TOKEN[::-1])])

    def count(now: datetime) -> int:
        return run_read(storage, lambda tx: inspection.count_sessions(tx, now))

    end = NOW + timedelta(hours=10)
    assert (count(end - timedelta(seconds=1)), count(end)) == (2, 0)
