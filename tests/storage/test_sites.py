"""Sites that take no place, in the database: counters, doctor, undo and repair."""

from typing import Any

import pytest

from keywright.core.errors import LimitReached, UnknownLicense
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.events.store import list_events
from keywright.licensing.activations import store
from keywright.licensing.activations.model import Device
from keywright.licensing.activations.site_handlers import (
    ActivateSite,
    CheckSite,
    DeactivateSite,
    SitePlace,
)
from keywright.licensing.activations.sites import Item
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses
from keywright.licensing.undo.rules import UndoChanges
from keywright.maintenance import doctor
from tests.makers import (
    KEY,
    NOW,
    activate,
    activate_device,
    an_origin,
    create,
    deactivate,
    deactivate_all,
    delete,
    set_terms,
)

LIMIT, NONE = 2, Item()
TERMS = {"max_activations": LIMIT, "uncounted_hosts": ["*.test"], "max_uncounted": 3}


def on(place: str, **fields: Any) -> ActivateSite:
    given: dict[str, Any] = {"license": KEY, "device": Device(f"site:{place}", place)}
    return ActivateSite(context=activate().context, **given | fields)


def off(place: str) -> DeactivateSite:
    return DeactivateSite(context=activate().context, license=KEY, device=Device(f"site:{place}"))


@pytest.fixture
def shop(executor: Executor) -> Executor:
    executor.execute([create(KEY, limit=LIMIT), set_terms(TERMS)])
    return executor


def license_of(storage: Storage) -> License:
    with storage.read() as tx:
        return find_licenses(tx, [KEY])[KEY]


def counts(storage: Storage) -> tuple[int, int, int]:
    """The counts of places taken, sites without a place, and deactivated records; the doctor must agree."""
    assert list(doctor.examine(storage, lambda _: None)) == []
    license = license_of(storage)
    return license.times_activated, license.uncounted_count, license.deactivated_count


def refusals(outcomes: list[Any]) -> list[type | None]:
    return [type(one.refusal) if one.refusal else None for one in outcomes]


def test_sites_are_counted_by_their_hosts_in_a_batch_and_after_it(shop: Executor, storage: Storage) -> None:
    places = ("a.test", "b.test", "one.com", "c.test", "two.com", "three.com", "d.test", "a.test", "one.com")
    outcomes = shop.execute([on(one) for one in places])
    assert refusals(outcomes) == [None] * 5 + [LimitReached] * 2 + [None] * 2
    assert counts(storage) == (LIMIT, 3, 0)
    assert refusals(shop.execute([on("three.com"), on("d.test"), on("a.test")])) == [LimitReached] * 2 + [
        None
    ]
    outcomes = shop.execute([off("a.test"), off("one.com"), on("three.com"), on("d.test"), on("one.com")])
    assert refusals(outcomes) == [None] * 4 + [LimitReached]
    assert counts(storage) == (LIMIT, 3, 2)


def test_a_site_that_another_program_activates_gives_its_record_up_and_takes_a_place(
    shop: Executor, storage: Storage
) -> None:
    shop.execute([on("a.test"), activate_device("site:a.test")])
    assert counts(storage) == (1, 0, 0)
    number = license_of(storage).id
    with storage.read() as tx:
        events = list_events(tx, number, limit=3)
    assert [(one.name, (one.details or {}).get("activation_count")) for one in events] == [
        ("license.reactivated", 1),
        ("license.deactivated", 0),
        ("license.activated", 0),
    ]


def test_all_are_given_up_and_given_back_together(shop: Executor, storage: Storage) -> None:
    shop.execute([on("a.test"), on("one.com"), deactivate_all(KEY), on("b.test")])
    assert counts(storage) == (0, 1, 2)
    shop.execute([off("b.test"), deactivate_all(KEY)])
    assert counts(storage) == (0, 0, 3)


def test_freeing_is_undone_as_it_was(shop: Executor, storage: Storage) -> None:
    shop.execute([on("a.test"), on("one.com"), on("two.com")])
    freed = next(one for one in records_of(storage) if one.label == "a.test")
    context = activate(origin=an_origin(actor="user:7")).context
    shop.execute([deactivate(freed.token, origin=an_origin(actor="user:7"))])
    assert counts(storage) == (2, 0, 1)
    shop.execute([UndoChanges(context=context, license=license_of(storage).id, changed_at=NOW)])
    assert counts(storage) == (2, 1, 0)


def records_of(storage: Storage) -> list[Any]:
    number = license_of(storage).id
    with storage.read() as tx:
        return store.list_activations(tx, [number])[number]


def test_a_full_license_gives_the_place_of_the_same_host(shop: Executor, storage: Storage) -> None:
    shop.execute([on("one.com/blog"), on("two.com")])
    moved, other = shop.execute([on("one.com"), on("three.com")])
    assert refusals([moved, other]) == [None, LimitReached]
    assert counts(storage) == (LIMIT, 0, 1)
    active = {one.label for one in records_of(storage) if one.deactivated_at is None}
    assert active == {"one.com", "two.com"}
    again = shop.execute([on("one.com"), on("one.com/blog")])
    assert [(one.refusal, one.is_changed) for one in again] == [(None, False), (None, True)]
    assert counts(storage) == (LIMIT, 0, 1)


def test_wrong_counters_are_found_and_mended(shop: Executor, storage: Storage) -> None:
    shop.execute([on("a.test"), on("b.test"), on("one.com")])
    number = license_of(storage).id
    with storage.write() as tx:
        tx.connection.exec_driver_sql("UPDATE licenses SET times_activated = 2, uncounted_count = 1")
    [finding] = doctor.examine(storage, lambda _: None)
    assert finding.code == "counter.wrong"
    doctor.repair(storage, finding, NOW, an_origin())
    assert counts(storage) == (1, 2, 0)
    with storage.write() as tx:
        tx.connection.exec_driver_sql("UPDATE licenses SET uncounted_count = 5")
        tx.connection.exec_driver_sql("UPDATE activations SET is_counted = 1 WHERE label = 'b.test'")
    [finding] = doctor.examine(storage, lambda _: None)
    assert (finding.code, finding.license_id) == ("counter.wrong", number)
    doctor.repair(storage, finding, NOW, an_origin())
    assert counts(storage) == (2, 1, 0)


def test_a_check_states_what_is_there(shop: Executor, storage: Storage) -> None:
    shop.execute([on("one.com")])

    def check(place: str, item: Item = NONE, key: str = KEY) -> SitePlace:
        query = CheckSite(key=key, fingerprint=f"site:{place}", item=item, now=NOW)
        [found] = shop.query([query])
        assert isinstance(found, SitePlace)
        return found

    here, elsewhere = check("one.com"), check("two.com")
    assert here.activation is not None
    assert here.activation.label == "one.com"
    assert (elsewhere.activation, elsewhere.is_item) == (None, True)
    assert not check("one.com", Item("4711")).is_item
    assert isinstance(check("one.com", key="no-such-key").refusal, UnknownLicense)


def test_a_site_of_another_product_changes_nothing(shop: Executor, storage: Storage) -> None:
    wrong = Item("4711")
    refused, unknown = shop.execute([on("one.com", item=wrong), on("one.com", license="no-such-key")])
    assert (refused.is_item, refused.activation, refused.is_changed) == (False, None, False)
    assert isinstance(unknown.refusal, UnknownLicense)
    assert counts(storage) == (0, 0, 0)
    shop.execute([on("one.com")])
    context = activate().context
    order = DeactivateSite(context=context, license=KEY, device=Device("site:one.com"), item=wrong)
    assert not shop.execute([order])[0].is_changed
    assert counts(storage) == (1, 0, 0)


def test_a_place_that_is_not_held_is_not_given_up(shop: Executor, storage: Storage) -> None:
    outcomes = shop.execute([off("one.com"), on("one.com"), off("one.com"), off("one.com")])
    assert [one.is_changed for one in outcomes] == [False, True, True, False]
    assert counts(storage) == (0, 0, 1)
    again, gone, none = shop.execute([on("one.com"), delete(KEY), on("one.com")])
    assert again.is_changed
    assert gone is None
    assert isinstance(none.refusal, UnknownLicense)
