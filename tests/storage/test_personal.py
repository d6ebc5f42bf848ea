"""Personal data is erased when it is old, exported for customers, and erased at their request."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Table, select

from keywright.core.command import Context
from keywright.core.errors import TooMuchStored
from keywright.db import Storage, run_read
from keywright.db.schema import (
    activations,
    customers,
    events,
    leases,
    licenses,
    name_terms,
    refusals,
    search_terms,
)
from keywright.engine.executor import Executor
from keywright.events.model import Event
from keywright.licensing.activations.model import Activation
from keywright.licensing.notes import Notes, SaveNotes
from keywright.licensing.refusals import SaveRefusals
from keywright.maintenance import personal_data
from keywright.maintenance.personal_data import CustomerData, find_customer_data, read_pieces
from keywright.maintenance.personal_data_store import find_old_places, has_old_events
from keywright.maintenance.tasks import EraseCustomer, PurgeAddresses
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.importers.model import ImportedLicense, ImportLicenses
from keywright.provisioning.products import NameKind
from tests.jobs import decide, events_of
from tests.makers import (
    NOW,
    activate,
    an_origin,
    create,
    create_user,
    deactivate,
    deactivate_all,
    delete,
    reactivate,
    save_name,
    set_terms,
    take_lease,
    validate,
)
from tests.storage.projected import assert_followed, follow_all
from tests.unit.test_refusals import a_call

DATABASES = ("sqlite",)

DAY = timedelta(days=1)
THEIRS = an_origin(ip_address="203.0.113.77", user_agent="CANARY/1.0 (of Dora)")
OF_OTHERS = an_origin(ip_address="198.51.100.9", user_agent="another/1.0")
CUSTOMER, OTHER = 8, 9


def everything(storage: Storage) -> str:
    """All rows of the tables with data about customers."""

    def rows(table: Table) -> str:
        return run_read(
            storage, lambda tx: repr([tuple(row) for row in tx.connection.execute(select(table))])
        )

    return "\n".join(rows(one) for one in (licenses, activations, events, search_terms, customers, refusals))


def activate_license(executor: Executor, key: str, **fields: Any) -> Activation:
    record = decide(executor, activate(key, **{"origin": THEIRS} | fields))
    return record.activations[0]  # type: ignore[no-any-return]


def records(executor: Executor, key: str = "KEY") -> dict[str, Activation]:
    (found,) = executor.query([validate(key)])
    return {one.token: one for one in found.activations}


def forget(executor: Executor, storage: Storage, *, after_days: int = 90) -> int:
    """Erase everything this old; return the number of steps."""
    before, after, steps = NOW + 100 * DAY - after_days * DAY, (0, ""), 0
    while True:
        steps += 1
        places = run_read(storage, partial(find_old_places, before=before, after=after, limit=3))
        command = PurgeAddresses(
            context=Context(NOW + 100 * DAY, an_origin()), before=before, places=tuple(places.found)
        )
        looked_at = decide(executor, command)
        if places.after is None and not looked_at:
            assert not run_read(storage, lambda tx: has_old_events(tx, before))
            return steps
        after = places.after or after


# --- what is old ----------------------------------------------------------------------------------


@pytest.mark.smoke
def test_of_places_given_up_long_ago_address_and_user_agent_are_forgotten_and_no_more(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("KEY")])
    old, young, again, active = (activate_license(executor, "KEY", label=f"n{i}") for i in range(4))
    executor.execute([deactivate(one.token, "KEY") for one in (old, again)])
    executor.execute(
        [deactivate(young.token, "KEY", now=NOW + 50 * DAY), reactivate(again.token, "KEY", now=NOW + DAY)]
    )
    before = records(executor)
    forget(executor, storage)
    expected = before | {old.token: replace(before[old.token], ip_address="", user_agent="")}
    assert records(executor) == expected
    assert active.ip_address == expected[active.token].ip_address == THEIRS.ip_address


def test_the_license_is_not_found_by_a_forgotten_address(executor: Executor, storage: Storage) -> None:
    executor.execute([create("KEY")])
    token = activate_license(executor, "KEY").token
    executor.execute([deactivate(token, "KEY")])
    follow_all(executor)
    assert "i203.0.113.77" in everything(storage)
    forget(executor, storage)
    assert "203.0.113.77" not in everything(storage)
    assert_followed(storage)


def test_of_old_events_the_address_is_forgotten_whatever_the_clock_said_between(
    executor: Executor, storage: Storage
) -> None:
    moments = [NOW, NOW + 400 * DAY, NOW + DAY, NOW + 50 * DAY, NOW + 2 * DAY + 50 * DAY]
    for number, now in enumerate(moments):
        executor.execute([create(f"KEY-{number}", now=now, origin=THEIRS)])
        executor.execute([activate(f"KEY-{number}", now=now, label="Laptop")])
    forget(executor, storage)
    happened = [events_of(storage, number) for number in range(1, 6)]
    kept = [made.ip_address for made, _ in happened]
    assert kept == ["", "", "", THEIRS.ip_address, THEIRS.ip_address]
    assert ["name" in (activated.details or {}) for _, activated in happened] == [bool(one) for one in kept]


def test_many_are_forgotten_in_small_steps(
    executor: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal_data, "AT_ONCE", 4)
    executor.execute([create("KEY")])
    for _ in range(10):
        activate_license(executor, "KEY")
    executor.execute([deactivate_all("KEY")])
    assert forget(executor, storage) >= 5
    assert THEIRS.ip_address not in everything(storage)
    assert "CANARY" not in everything(storage)
    # Erased rows are not read again.
    assert forget(executor, storage) == 4


def test_a_place_that_was_taken_again_meanwhile_is_left_as_it_is(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("KEY")])
    token = activate_license(executor, "KEY").token
    executor.execute([deactivate(token, "KEY")])
    before = NOW + DAY
    places = run_read(storage, lambda tx: find_old_places(tx, before, after=(0, ""), limit=9))
    assert places.found == [(1, token)]
    executor.execute([reactivate(token, "KEY", now=NOW + 2 * DAY)])
    command = PurgeAddresses(context=Context(before, an_origin()), before=before, places=tuple(places.found))
    decide(executor, command)
    assert records(executor)[token].ip_address == THEIRS.ip_address


# --- a customer -----------------------------------------------------------------------------------


@pytest.fixture
def dora(executor: Executor, storage: Storage) -> None:
    """Customer 8 is Dora, with two licenses; customer 9 has another one."""
    executor.execute([create_user("alice"), save_name(NameKind.CUSTOMER, CUSTOMER, "Dora CANARY")])
    executor.execute(
        [save_name(NameKind.CUSTOMER, CUSTOMER, "Dora D. CANARY"), save_name(NameKind.CUSTOMER, OTHER, "Eve")]
    )
    executor.execute([save_name(NameKind.PRODUCT, CUSTOMER, "A product")])
    owned = {"D-1": CUSTOMER, "D-2": CUSTOMER, "E-1": OTHER}
    executor.execute(
        [create(key, customer_id=customer_id, origin=THEIRS) for key, customer_id in owned.items()]
    )
    for key in ("D-1", "D-1", "D-2"):
        activate_license(executor, key, label="Laptop CANARY", meta_data={"host": "CANARY"})
    (laptop, *_) = [one for one in events_of(storage, 1) if one.activation_id]
    assert (laptop.details or {})["name"] == "Laptop CANARY"
    activate_license(executor, "E-1", origin=OF_OTHERS, label="Office", meta_data={"host": "of Eve"})
    with_metadata = tuple(
        ImportedLicense(
            key=key, customer_id=customer_id, status=3, created_at=NOW, updated_at=NOW, metadata=metadata
        )
        for key, customer_id, metadata in (
            ("D-3", CUSTOMER, '{"phone":"CANARY"}'),
            ("E-2", OTHER, '{"phone":"phone of Eve"}'),
        )
    )
    context = Context(NOW, an_origin())
    executor.execute([ImportLicenses(context=context, source="shop", licenses=with_metadata)])
    refused = {"D-1": [a_call(device_name="CANARY")], "E-1": [a_call(device_name="tablet of Eve")]}
    executor.execute([SaveRefusals(context=context, refused=refused)])
    follow_all(executor)


def erase(executor: Executor) -> int:
    steps = 1
    command = EraseCustomer(context=Context(NOW, an_origin(actor="cli:root")), customer_id=CUSTOMER)
    while not decide(executor, command).is_complete:
        steps += 1
    return steps


@pytest.mark.usefixtures("dora")
def test_of_an_erased_customer_nothing_is_left_but_licenses_and_counters(
    executor: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal_data, "AT_ONCE", 2)
    executor.execute([create("D-4", customer_id=CUSTOMER)])
    activate_license(executor, "D-4", label="Deleted CANARY")
    executor.execute([delete("D-4")])
    follow_all(executor)
    query = select(licenses).order_by(licenses.c.id)
    before = run_read(storage, lambda tx: tx.connection.execute(query).all())
    tokens = records(executor, "D-1").keys()
    assert "canary" in str(run_read(storage, lambda tx: tx.connection.execute(select(name_terms)).all()))
    assert erase(executor) > 2
    left = everything(storage)
    assert "canary" not in left.lower()
    # The license of customer 9 was created from that address.
    assert left.count(THEIRS.ip_address) == 1
    follow_all(executor)
    assert_followed(storage)
    after = run_read(storage, lambda tx: tx.connection.execute(query).all())
    assert [one._mapping for one in after] == [
        one._mapping if one.customer_id == OTHER else {**one._mapping, "metadata": None} for one in before
    ]
    assert records(executor, "D-1").keys() == tokens
    assert [one.name for one in events_of(storage, 1)] == ["license.created", *["license.activated"] * 2]
    (event,) = [one for one in events_of(storage, 0) if one.name == "customer.erased"]
    assert (event.actor, event.details) == ("cli:root", {"number": CUSTOMER})


@pytest.mark.smoke
@pytest.mark.usefixtures("dora")
def test_who_held_a_lease_that_is_over_is_erased_and_who_holds_one_is_not(
    executor: Executor, storage: Storage
) -> None:
    terms = {"max_leases": 3}
    executor.execute([set_terms(terms, "D-1"), take_lease("CANARY now", "D-1", now=NOW)])
    executor.execute([take_lease("CANARY before", "D-1", now=NOW - DAY)])
    erase(executor)
    holders = select(leases.c.holder).order_by(leases.c.expires_at)
    assert run_read(storage, lambda tx: tx.connection.execute(holders).scalars().all()) == ["", "CANARY now"]


@pytest.mark.usefixtures("dora")
def test_what_others_have_is_not_erased(executor: Executor, storage: Storage) -> None:
    before = records(executor, "E-1")
    erase(executor)
    assert records(executor, "E-1") == before
    assert "phone of Eve" in everything(storage)
    assert "tablet of Eve" in everything(storage)
    left = everything(storage)
    assert "Eve" in left
    assert "A product" in left
    assert OF_OTHERS.ip_address in left


@pytest.mark.usefixtures("dora")
def test_a_customer_gets_all_that_is_stored_about_them(executor: Executor, storage: Storage) -> None:
    found = run_read(storage, lambda tx: find_customer_data(tx, CUSTOMER))
    assert found.customer is not None
    assert found.customer.name == "Dora D. CANARY"
    assert [one.details for one in found.events] == [
        {"kind": "customer", "number": CUSTOMER, "name": [None, "Dora CANARY"]},
        {"kind": "customer", "number": CUSTOMER, "name": ["Dora CANARY", "Dora D. CANARY"]},
    ]
    assert [one.license.key for one in found.licenses] == ["D-1", "D-2", "D-3"]
    first, second, _ = found.licenses
    assert {one.token: one for one in first.activations} == records(executor, "D-1")
    assert [one.name for one in second.events] == ["license.created", "license.activated"]
    assert all(isinstance(one, Event) for one in first.events)


@pytest.mark.smoke
def test_what_a_customer_gets_leaves_out_what_is_the_vendors(executor: Executor, storage: Storage) -> None:
    staff = Context(NOW, an_origin(actor="user:1", ip_address="203.0.113.5"))
    metadata = {"note": "Rude on the phone.", "shop": "B"}
    decide(executor, CreateCustomer(context=staff, fields=NewCustomer(id=CUSTOMER, metadata=metadata)))
    for key in ("D-1", "D-2"):
        decide(executor, create(key, customer_id=CUSTOMER))
        activate_license(executor, key)
        decide(executor, SaveNotes(context=staff, license=key, notes=Notes("Pays late.", ("rude",))))
        decide(executor, SaveRefusals(context=staff, refused={key: [a_call(device_name="Refused laptop")]}))
    decide(executor, delete(2, context=staff))
    vendors = run_read(storage, lambda tx: find_customer_data(tx, CUSTOMER))
    found = run_read(storage, lambda tx: find_customer_data(tx, CUSTOMER, for_customer=True))
    for text in ("Pays late.", "rude", "Refused laptop", "Rude on the phone."):
        assert (text in str(vendors), text in str(found)) == (True, False), text
    assert found.customer is not None
    assert found.customer.metadata == {"shop": "B"}
    for one in found.licenses:
        addresses = {event.name: event.ip_address for event in one.events}
        assert addresses["license.activated"] == THEIRS.ip_address
    assert [one.name for one in found.licenses[1].events][-1] == "license.deleted"
    assert staff.origin.ip_address not in str((vendors, found))


@pytest.mark.usefixtures("dora")
@pytest.mark.parametrize("at_once", [1, 2, 1_000])
def test_what_is_read_piece_by_piece_is_the_same(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    expected = run_read(storage, lambda tx: find_customer_data(tx, CUSTOMER))
    monkeypatch.setattr(personal_data, "_EVENTS_AT_ONCE", at_once)
    monkeypatch.setattr(personal_data, "_LICENSES_AT_ONCE", at_once)
    found = read_pieces(partial(run_read, storage), CUSTOMER)
    assert (found.customer, list(found.events)) == (expected.customer, expected.events)
    for one, other in zip(found.licenses, expected.licenses, strict=True):
        assert (one.license, one.activations, one.others) == (other.license, other.activations, other.others)
        assert list(one.events) == other.events


@pytest.mark.usefixtures("dora")
def test_more_than_one_answer_holds_is_refused_and_not_read_to_the_end(
    executor: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find() -> CustomerData:
        return run_read(storage, lambda tx: find_customer_data(tx, CUSTOMER))

    monkeypatch.setattr(personal_data, "MAX_ROWS", 5)
    with pytest.raises(TooMuchStored):
        find()
    monkeypatch.setattr(personal_data, "MAX_ROWS", 100)
    monkeypatch.setattr(personal_data, "MAX_LICENSES", 3)
    assert len(find().licenses) == 3
    # Deleted licenses with a snapshot also count.
    decide(executor, delete(1))
    assert len(find().licenses) == 3
    monkeypatch.setattr(personal_data, "MAX_LICENSES", 2)
    with pytest.raises(TooMuchStored):
        find()
