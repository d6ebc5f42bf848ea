"""Events that are not for everybody are left out before pages are made of them."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from keywright.db import Storage, run_read
from keywright.events import store as event_store
from keywright.search import feed
from keywright.search.feed import EventPage, list_events
from keywright.search.statistics import overview
from keywright.search.store import EventRecord
from tests.makers import NOW, an_event, an_event_filter
from tests.storage.conftest import a_storage
from tests.tables import each_row

NAMES = ("user.signed_in", "license.created", "user.created", "users.no", "user_created", "user")
HIDDEN = ("user.signed_in", "user.created")


@pytest.fixture(scope="module")
def storage(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """One database for all tests: they only read."""
    with a_storage(database, tmp_path_factory.mktemp("hidden")) as made:
        yield made


@pytest.fixture(scope="module")
def happened(storage: Storage) -> list[EventRecord]:
    """200 events, the newest first; the 50 newest are about users."""
    chance = random.Random(4)
    names = [chance.choice(NAMES) for _ in range(150)] + ["user.signed_in"] * 50
    with storage.write() as tx:
        event_store.save_events(
            tx,
            [an_event(name=name, license_id=number % 2, actor="user:1") for number, name in enumerate(names)],
        )
    found = run_read(storage, lambda tx: list_events(tx, limit=1_000)).events
    assert len(found) == 200
    return list(found)


def all_pages(storage: Storage, limit: int, budget: float, **where: Any) -> Iterator[EventPage]:
    before_id = None
    with storage.read() as tx:
        while True:
            page = list_events(
                tx, an_event_filter(without="user.", **where), before_id=before_id, limit=limit, budget=budget
            )
            yield page
            before_id = page.before_id
            if before_id is None:
                return


@each_row(("step", "budget"), [(3, 0.0), (3, 60.0), (40, 0.0), (40, 60.0), (1_000, 60.0)])
@each_row("asked", [{}, {"license_id": 1}, {"actor": "user:1"}, {"name": "user."}, {"day": NOW.date()}])
def test_all_pages_together_are_all_but_what_is_left_out(
    storage: Storage,
    happened: list[EventRecord],
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, Any],
    *,
    step: int,
    budget: float,
) -> None:
    monkeypatch.setattr(feed, "_STEP", step)
    pages = list(all_pages(storage, 7, budget=budget, **asked))
    for page in pages:
        assert page.is_incomplete == (page.before_id is not None and len(page.events) < 7)
        assert not (budget and page.is_incomplete)
    assert [one for page in pages for one in page.events] == [
        one for one in happened if _is_wanted(one, asked)
    ]


def _is_wanted(one: EventRecord, asked: dict[str, Any]) -> bool:
    if one.event.name in HIDDEN or asked.get("name") == "user.":
        return False
    return asked.get("license_id") in (None, one.event.license_id)


def test_the_latest_events_of_an_overview_are_as_many_as_without(
    storage: Storage, happened: list[EventRecord]
) -> None:
    expected = [one for one in happened if one.event.name not in HIDDEN][:10]
    assert list(run_read(storage, lambda tx: overview(tx, NOW, without="user.")).latest_events) == expected
    assert list(run_read(storage, lambda tx: overview(tx, NOW)).latest_events) == happened[:10]
