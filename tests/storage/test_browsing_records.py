"""A license is shown with its latest activations; events are found among very many, in steps."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from keywright.db import Storage, run_read
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.licensing.activations import store as activation_store
from keywright.licensing.licenses import store as license_store
from keywright.search import feed
from keywright.search.feed import EventPage, list_events
from keywright.search.license_pages import LicenseDetails, get_license
from keywright.search.store import EventFilter
from tests.databases import KINDS
from tests.makers import NOW, a_license, an_activation, an_event, an_event_filter
from tests.storage.conftest import a_storage
from tests.tables import each_row

DATABASES = ("sqlite",)

# --- a license ------------------------------------------------------------------------------------


def details(storage: Storage, license_id: int, first: int = 0) -> LicenseDetails | None:
    return run_read(storage, lambda tx: get_license(tx, license_id, first))


def test_a_license_comes_with_its_activations_the_active_and_the_latest_first(storage: Storage) -> None:
    license = a_license(id=7, times_activated=2, deactivated_count=2)
    ended = {"updated_at": NOW, "deactivated_at": NOW}
    made = [
        an_activation(id=1, token="1" * 40, license_id=7),
        an_activation(id=2, token="2" * 40, license_id=7, created_at=NOW + timedelta(hours=2), **ended),
        an_activation(id=3, token="3" * 40, license_id=7, created_at=NOW + timedelta(hours=1)),
        an_activation(id=4, token="4" * 40, license_id=7, created_at=NOW + timedelta(hours=2), **ended),
    ]
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [license, a_license(id=8, key="other")])
        activation_store.save_new_activations(tx, [*made, an_activation(id=5, license_id=8)])
    found = details(storage, 7)
    assert found == LicenseDetails(license, (made[2], made[0], made[3], made[1]), total=4, active=2)


def test_of_very_many_activations_the_active_come_first_and_all_are_counted(storage: Storage) -> None:
    made = [
        an_activation(
            id=number,
            token=f"{number:040}",
            created_at=NOW + timedelta(seconds=number),
            deactivated_at=None if number % 4 == 0 else NOW,
        )
        for number in range(500)
    ]
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(times_activated=125, deactivated_count=375)])
        activation_store.save_new_activations(tx, made)
    found = details(storage, 1)
    assert found is not None
    assert (found.total, found.active, found.previous, found.next) == (500, 125, None, 50)
    assert [one.id for one in found.activations] == list(range(496, 296, -4))
    third = details(storage, 1, 100)
    assert third is not None
    assert (third.previous, third.next) == (50, 150)
    assert [one.id for one in third.activations[24:27]] == [0, 499, 498]
    last = details(storage, 1, 450)
    assert last is not None
    assert (last.previous, last.next, last.activations[-1].id) == (400, None, 1)


@pytest.mark.parametrize("license_id", [0, 2, -1, 2**63 - 1, 2**63, 10**30])
def test_a_license_that_is_not_there_is_none(storage: Storage, license_id: int) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    assert details(storage, license_id) is None


# --- events ---------------------------------------------------------------------------------------

NAMES = ("license.created", "license.activated", "user.created", "licensed", "license%created")
ACTORS = ("program", "cli:root", "cli:ada", "user:1", "user:12", "cli_x")
START = datetime(2026, 1, 10, tzinfo=UTC)
#: The customers and products of licenses.
OWNERS = {1: (31, 7), 2: (31, None), 3: (None, 7)}


class Past(NamedTuple):
    """A database, and the events in it with their IDs, oldest first."""

    storage: Storage
    events: list[tuple[int, Event]]


@pytest.fixture(scope="module")
def past(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    """100 events of ten days; some IDs are missing."""
    with a_storage(database, tmp_path_factory.mktemp("past")) as storage:
        yield Past(storage, happened(storage))


def happened(storage: Storage) -> list[tuple[int, Event]]:
    chance = random.Random(21)
    events = [
        an_event(
            occurred_at=START + timedelta(minutes=144 * number),
            name=chance.choice(NAMES),
            actor=chance.choice(ACTORS),
            license_id=chance.choice((0, 0, 1, 2, 3)),
            details=chance.choice((None, {"key": "…1234"})),
        )
        for number in range(100)
    ]
    with storage.write() as tx:
        license_store.save_new_licenses(
            tx,
            [
                a_license(id=number, key=f"KEY-{number}", customer_id=customer, product_id=product)
                for number, (customer, product) in OWNERS.items()
            ],
        )
        event_store.save_events(tx, events)
    with storage.read() as tx:
        found = list_events(tx, limit=1_000).events
    assert [one.event for one in found] == events[::-1]
    return [(one.id, one.event) for one in found[::-1]]


def is_asked_for(event: Event, asked: dict[str, Any]) -> bool:
    name, actor, day, without = (asked.get(one) for one in ("name", "actor", "day", "without"))
    return (
        asked.get("license_id") in (None, event.license_id)
        and asked.get("customer_id") in (None, OWNERS.get(event.license_id, (None, None))[0])
        and asked.get("product_id") in (None, OWNERS.get(event.license_id, (None, None))[1])
        and (name in (None, event.name) or (name.endswith(".") and event.name.startswith(name)))
        and (actor in (None, event.actor) or (actor.endswith(":") and event.actor.startswith(actor)))
        and day in (None, event.occurred_at.date())
        and (without is None or not event.name.startswith(without))
    )


def all_pages(storage: Storage, limit: int, budget: float, **asked: Any) -> list[EventPage]:
    found, before_id = [], None
    with storage.read() as tx:
        while True:
            found.append(
                list_events(tx, an_event_filter(**asked), before_id=before_id, limit=limit, budget=budget)
            )
            before_id = found[-1].before_id
            if before_id is None:
                return found


@pytest.mark.databases(*KINDS)
@each_row("budget", [0.0, 60.0])
@each_row(
    "asked",
    [
        {},
        {"license_id": 0},
        {"license_id": 2},
        {"license_id": 9},
        {"name": "license.created"},
        {"name": "license."},
        {"name": "nothing."},
        {"actor": "user:1"},
        {"actor": "cli:"},
        {"name": "%."},
        {"actor": "cl_:"},
        {"actor": "program", "name": "user.created", "license_id": 1},
        {"day": date(2026, 1, 10)},
        {"day": date(2026, 1, 14), "license_id": 1},
        {"day": date(2026, 1, 19), "name": "license."},
        {"customer_id": 31},
        {"product_id": 7, "name": "license."},
        {"customer_id": 31, "product_id": 7},
        {"customer_id": 31, "license_id": 3},
        {"customer_id": 31, "day": date(2026, 1, 14)},
        {"customer_id": 32},
        {"day": date(2026, 1, 9)},
        {"day": date(2026, 1, 20)},
        {"day": date(1970, 1, 2)},
        {"day": date(9998, 12, 30)},
        {"without": "license."},
        {"without": "license.", "license_id": 1},
        {"without": "user.", "actor": "user:1"},
        {"without": "user.", "name": "user."},
        {"without": "license.", "day": date(2026, 1, 14)},
        {"without": "license.", "customer_id": 31},
    ],
)
def test_all_pages_of_events_together_are_what_is_asked_for(
    past: Past, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], budget: float
) -> None:
    expected = [pair for pair in past.events[::-1] if is_asked_for(pair[1], asked)]
    for limit, step, gathered in ((7, 10, 0), (40, 1_000, 1_000), (1, 3, 2), (9, 5, 50)):
        monkeypatch.setattr(feed, "_STEP", step)
        # With 0, a customer's events are searched among all; with 1,000, by the licenses.
        monkeypatch.setattr(feed, "_MAX_GATHERED", gathered)
        monkeypatch.setattr(feed, "_AT_ONCE", step)
        found = all_pages(past.storage, limit=limit, budget=budget, **asked)
        assert [(one.id, one.event) for page in found for one in page.events] == expected
        assert [page.is_incomplete for page in found[:-1]] == [
            len(page.events) < limit for page in found[:-1]
        ]
        assert not found[-1].is_incomplete
        if budget:
            assert not any(page.is_incomplete for page in found)
            # No page announces more if there are none.
            assert len(found) == max(1, -(-len(expected) // limit))


@each_row(
    "asked",
    [
        {"license_id": -1},
        {"license_id": 2**63},
        {"name": "a\x00b"},
        {"actor": "\ud800"},
        {"customer_id": -1},
        {"product_id": 2**63},
        {"before_id": 0},
        {"before_id": -(10**30)},
    ],
)
def test_what_cannot_be_is_not_found(past: Past, asked: dict[str, Any]) -> None:
    before_id = asked.get("before_id")
    where = EventFilter(**{name: value for name, value in asked.items() if name != "before_id"})
    found = run_read(past.storage, lambda tx: list_events(tx, where, before_id=before_id, limit=5))
    assert found == EventPage((), None, is_incomplete=False)


def test_before_a_number_that_no_event_has_there_are_all(past: Past) -> None:
    with past.storage.read() as tx:
        assert list_events(tx, before_id=10**30, limit=5) == list_events(tx, limit=5)
