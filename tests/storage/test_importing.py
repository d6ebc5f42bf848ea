"""Imported licenses are stored completely, found, and used like any others."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import LimitReached
from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseSource, Status
from keywright.maintenance import doctor
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.importers.model import (
    Imported,
    ImportedActivation,
    ImportedGenerator,
    ImportedLicense,
    ImportedNames,
    ImportGenerators,
    ImportLicenses,
    ImportNames,
    Outcome,
    ReserveIds,
    Verdict,
)
from keywright.provisioning.importers.rows import Defaults, Rows
from keywright.provisioning.policies.model import ListPolicies, Policy
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import find_by_emails, find_customers, list_names
from keywright.search.counters_store import day_of
from keywright.search.filters import Order, Search
from keywright.search.license_pages import find_page
from keywright.search.store import list_daily_counts
from tests.makers import (
    LATER,
    NOW,
    _with_context,
    a_license,
    a_policy,
    activate,
    create,
    create_policy,
    deactivate,
    delete,
    reactivate,
    rename,
    validate,
)
from tests.storage.projected import follow_all, list_terms, right_terms
from tests.storage.stored import list_licenses
from tests.storage.test_leases import count_statements

TOKENS = tuple(f"{number:040x}" for number in range(9))


def coming(number: int, *tokens: str, **fields: Any) -> ImportedLicense:
    """An incoming license with this ID, whose key is K and the ID."""
    places = tuple(ImportedActivation(one, NOW, label="desk", ip_address="192.0.2.1") for one in tokens)
    defaults: dict[str, Any] = {"status": Status.ACTIVE, "created_at": NOW, "updated_at": NOW}
    return ImportedLicense(**defaults | fields, id=number, key=f"K{number}", activations=places)


def bring(*licenses: ImportedLicense, **fields: Any) -> ImportLicenses:
    return ImportLicenses(**_with_context(now=LATER, source="lmfwc", licenses=licenses, **fields))


def notices(executor: Executor, *licenses: ImportedLicense) -> list[str]:
    """The codes of the notices about these licenses."""
    [outcome] = executor.execute([bring(*licenses)])
    assert isinstance(outcome, Imported), outcome
    return [one.code for one in outcome.notices]


def verdicts(executor: Executor, command: Command) -> dict[str, int]:
    """The number of licenses per verdict."""
    [outcome] = executor.execute([command])
    assert isinstance(outcome, Imported), outcome
    found: dict[str, int] = {}
    for one in outcome.outcomes:
        if one.kind in ("license", "generator"):
            found[one.verdict] = found.get(one.verdict, 0) + one.amount
    return found


def test_licenses_are_stored_with_their_ids_and_the_next_one_comes_after_them(
    executor: Executor, storage: Storage
) -> None:
    new = coming(7, TOKENS[1], TOKENS[2], times_activated_max=5, metadata='{"plan":"gold"}', created_by=3)
    assert verdicts(executor, bring(new, coming(9))) == {Verdict.NEW: 2}
    first, second = list_licenses(storage)
    assert first == a_license(
        id=7,
        key="K7",
        source=LicenseSource.IMPORT,
        times_activated=2,
        times_activated_max=5,
        created_by=3,
        metadata='{"plan":"gold"}',
    )
    assert second.id == 9
    [record] = executor.query([validate("K7")])
    assert [(one.token, one.label) for one in record.activations] == [(one, "desk") for one in TOKENS[1:3]]
    [created] = executor.execute([create("NEXT")])
    assert created.license.id > 9
    assert list(doctor.examine(storage, lambda _: None)) == []


def test_an_import_that_runs_again_changes_nothing(executor: Executor, storage: Storage) -> None:
    command = bring(coming(1, *TOKENS), coming(2))
    executor.execute([command])
    before = list_licenses(storage)
    assert verdicts(executor, command) == {Verdict.SAME: 2}
    assert list_licenses(storage) == before


def test_a_dry_run_says_the_same_and_changes_nothing(executor: Executor, storage: Storage) -> None:
    assert verdicts(executor, bring(coming(1, TOKENS[0]), is_dry_run=True)) == {Verdict.NEW: 1}
    assert list_licenses(storage) == []
    [created] = executor.execute([create()])
    assert created.license.id == 1


def test_an_imported_license_takes_and_gives_up_places_as_any_other(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([bring(coming(1, TOKENS[0], times_activated_max=2))])
    taken, given_up = executor.execute([activate("K1"), deactivate(TOKENS[0], "K1")])
    again, full = executor.execute([reactivate(TOKENS[0], "K1"), activate("K1")])
    assert [one.license.times_activated for one in (taken, given_up, again)] == [2, 1, 2]
    assert isinstance(full, LimitReached)
    assert list(doctor.examine(storage, lambda _: None)) == []


def test_places_beyond_the_limit_are_brought_and_no_new_one_is_taken(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("K1", 1)])
    [mine] = executor.execute([activate("K1")])
    token = mine.activations[0].token
    more = coming(1, *TOKENS[:2], times_activated_max=1)
    assert verdicts(executor, bring(more)) == {Verdict.NEWER_THERE: 1}
    [record] = executor.query([validate("K1")])
    assert {one.token for one in record.activations} == {token, *TOKENS[:2]}
    [refused, _, still] = executor.execute([activate("K1"), deactivate(token, "K1"), activate("K1")])
    assert isinstance(refused, LimitReached)
    assert isinstance(still, LimitReached)
    executor.execute([deactivate(one, "K1") for one in TOKENS[:2]])
    [taken] = executor.execute([activate("K1")])
    assert taken.license.times_activated == 1
    assert list(doctor.examine(storage, lambda _: None)) == []


def test_an_id_that_another_license_has_or_had_is_not_given_again(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("A"), create("B"), delete("B")])
    [outcome] = executor.execute([bring(coming(1), coming(2), coming(3))])
    assert [one.code for one in outcome.notices] == ["id_changed"] * 2
    assert {one.key: one.id for one in list_licenses(storage)} == {"A": 1, "K3": 3, "K1": 4, "K2": 5}


def test_a_license_that_was_imported_and_deleted_does_not_come_back(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([bring(coming(1)), delete("K1")])
    assert verdicts(executor, bring(coming(1))) == {Verdict.DELETED_HERE: 1}
    assert list_licenses(storage) == []


def test_a_key_that_was_changed_here_does_not_come_back(executor: Executor, storage: Storage) -> None:
    executor.execute([bring(coming(1, TOKENS[0])), rename("K1", "NEW")])
    [outcome] = executor.execute([bring(coming(1, TOKENS[0], TOKENS[1]))])
    assert [(one.code, one.what) for one in outcome.notices] == [("key_changed", "newer here")]
    assert [(one.id, one.key, one.times_activated) for one in list_licenses(storage)] == [(1, "NEW", 2)]


def test_a_key_that_was_changed_there_replaces_the_old_one(executor: Executor, storage: Storage) -> None:
    executor.execute([bring(coming(1, TOKENS[0]))])
    changed = replace(coming(1, TOKENS[0]), key="NEW", updated_at=LATER)
    [outcome] = executor.execute([bring(changed)])
    assert [(one.code, one.what) for one in outcome.notices] == [("key_changed", "newer there")]
    assert [(one.id, one.key, one.times_activated) for one in list_licenses(storage)] == [(1, "NEW", 1)]
    assert verdicts(executor, bring(changed)) == {Verdict.SAME: 1}
    assert list(doctor.examine(storage, lambda _: None)) == []


def test_imported_activations_are_found_by_the_search(executor: Executor, storage: Storage) -> None:
    follow_all(executor)
    executor.execute([bring(coming(1, *TOKENS[:3], times_activated_max=3), coming(2))])
    follow_all(executor)
    assert list_terms(storage) == right_terms(storage)
    assert len(list_terms(storage)) == 3 * 3 + 2


def reserve(number: int) -> ReserveIds:
    return ReserveIds(**_with_context(license_id=0, activation_id=number))


def test_ids_of_activations_are_reserved_until_the_server_gives_others(executor: Executor) -> None:
    executor.execute([create()])
    [first] = executor.execute([activate()])
    last = first.activations[0].id
    [reserved] = executor.execute([reserve(1_000)])
    assert reserved == (last, 1_000)
    assert executor.execute([reserve(1_000), reserve(1_500)]) == [(last, 1_000), (last, 1_500)]
    [mine] = executor.execute([activate()])
    assert mine.activations[0].id > (1_500 if last == 1 else 1)
    assert executor.execute([reserve(9_000)]) == [(last, 1_500)]


def test_generators_keep_their_ids_where_these_are_free(executor: Executor) -> None:
    executor.execute([create_policy(name="mine")])
    known = set(ImportedGenerator.__struct_fields__) & set(Policy.__struct_fields__)
    fields = {name: getattr(a_policy(), name) for name in known}
    fields |= {"times_activated_max": 3, "expires_in_days": 30}
    new = [
        ImportedGenerator(**fields | {"id": number, "name": f"G{number}", "created_at": LATER})
        for number in (1, 7)
    ]
    command = ImportGenerators(**_with_context(source="lmfwc", generators=tuple(new)))
    assert verdicts(executor, command) == {Verdict.NEW: 2}
    assert verdicts(executor, command) == {Verdict.SAME: 2}
    executor.execute([create_policy(name="next")])
    [found] = executor.query([ListPolicies()])
    names = {one.name: one.id for one in found}
    assert (names["mine"], names["G7"]) == (1, 7)
    assert sorted(names.values()) == [1, 2, 7, 8]


def test_names_that_numbers_have_here_stay(executor: Executor, storage: Storage) -> None:
    for names in ({7: "Editor"}, {7: "Editor, renamed", 8: "Viewer"}):
        command = ImportNames(**_with_context(source="lmfwc", names=ImportedNames("product", names)))
        executor.execute([command])
    with storage.read() as tx:
        assert list_names(tx, NameKind.PRODUCT, after=-1, limit=9) == {7: "Editor", 8: "Viewer"}


@pytest.mark.databases("sqlite")
def test_without_an_import_more_places_than_the_limit_are_rejected(storage: Storage) -> None:
    with pytest.raises(Exception, match="within_places"), storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(times_activated=2, times_activated_max=1)])


def test_what_only_one_license_or_place_may_have_is_left_out_and_told(
    executor: Executor, storage: Storage
) -> None:
    order = '{"source":"shop","id":"7","line":"1"}'
    device = ImportedActivation(TOKENS[0], NOW, fingerprint="device-1")
    first = replace(coming(1), order_details=order, order_id=7, activations=(device,))
    assert notices(executor, first) == []
    again = replace(device, token=TOKENS[1], updated_at=LATER)
    both = (
        replace(first, activations=(device, again)),
        replace(coming(2), order_details=order, order_id=7, policy_id=99),
    )
    assert notices(executor, *both) == ["device_taken", "policy_missing", "order_line_taken"]
    second = list_licenses(storage)[1]
    assert (second.order_id, second.order_details, second.policy_id) == (7, None, None)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"terms": "{"}, "terms must be a JSON object"),
        ({"terms": {"grace_days": -1}}, "terms/grace_days must be an integer"),
        ({"order_details": {"index": "x"}}, "order_details must have the members"),
        ({"order_details": {"id": "x" * 300}}, "order_details has a text over 255"),
    ],
)
def test_terms_and_orders_that_cannot_be_are_refused(fields: dict[str, Any], problem: str) -> None:
    rows = Rows(["key", *fields], Defaults(NOW, lambda address, _: address))
    with pytest.raises(ValueError, match=problem):
        rows.license(["K1", *fields.values()], "line 1")


def coming_to(number: int, at: datetime = LATER, **person: Any) -> ImportedLicense:
    """License ``number`` of a table with customer columns."""
    return coming(number, updated_at=at, fields=frozenset({"key", "customer_email"}), **person)


def test_a_new_customer_costs_few_statements(storage: Storage, executor: Executor) -> None:
    def count(first: int, last: int) -> int:
        numbers = range(first, last)
        people = (coming_to(n, customer_email=f"c{n}@x.example", customer_id=n) for n in numbers)
        return count_statements(executor, storage, bring(*people))

    few, many = count(1, 3), count(11, 33)
    assert many - few <= 4 * 20


def test_customers_are_found_by_address_else_by_number_or_made(storage: Storage, executor: Executor) -> None:
    """One address is one customer, regardless of its case and the given ID; an ID of a customer with another
    address is not used.
    """
    made = (NewCustomer(id=311, name="Ann's shop"), NewCustomer(id=500, email="dora@x.example"))
    executor.execute([CreateCustomer(**_with_context(fields=one)) for one in made])
    lines: dict[int, dict[str, Any]] = {
        1: {"customer_email": "Ann@x.example", "customer_name": "Ann", "customer_language": "de"},
        2: {"customer_email": "ann@X.example", "customer_name": "Another", "customer_id": 7},
        3: {"customer_email": "ben@x.example", "customer_id": 8},
        4: {"customer_name": "Cleo", "customer_id": 9},
        5: {"customer_email": "eve@x.example", "customer_id": 311},
        6: {"customer_email": "fay@x.example", "customer_id": 500},
        7: {"customer_name": "Nameless"},
        8: {},
    }
    licenses = tuple(coming_to(number, **person) for number, person in lines.items())
    for is_dry_run in (True, False):
        assert not run_read(storage, lambda tx: find_by_emails(tx, {"ann@x.example"}))
        [report] = executor.execute([bring(*licenses, is_dry_run=is_dry_run)])
        assert [one for one in report.outcomes if one.kind == "customer"] == [
            Outcome("customer", Verdict.NEW, who=who)
            for who in ("ann@x.example", "ben@x.example", 9, "fay@x.example")
        ]
        assert [one.code for one in report.notices] == ["customer_unnamed"]
    stored = {one.id: one.customer_id for one in list_licenses(storage)}
    people = run_read(storage, lambda tx: find_customers(tx, {*filter(None, stored.values())}))
    found = {
        number: None if one is None else (people[one].email, people[one].name, people[one].language)
        for number, one in stored.items()
    }
    ann = ("Ann@x.example", "Ann", "de")
    assert found == {
        1: ann,
        2: ann,
        3: ("ben@x.example", None, None),
        4: (None, "Cleo", None),
        5: ("eve@x.example", "Ann's shop", None),
        6: ("fay@x.example", None, None),
        7: None,
        8: None,
    }
    assert (stored[3], stored[4], stored[5], stored[1] == stored[2], stored[6] != 500) == (
        8,
        9,
        311,
        True,
        True,
    )
    later = coming_to(1, LATER + timedelta(days=1), customer_email="new@x.example")
    for line in (coming_to(1, NOW, customer_email="old@x.example"), coming_to(8), later):
        executor.execute([bring(line)])
    stored = {one.id: one.customer_id for one in list_licenses(storage)}
    emails = run_read(storage, lambda tx: find_by_emails(tx, {"old@x.example", "new@x.example"}))
    assert emails == {"new@x.example": stored[1]}
    assert stored[8] is None


def test_imported_licenses_are_new_when_they_were_made(storage: Storage, executor: Executor) -> None:
    """In charts and lists: by time, not by ID; a change by an import makes nothing new."""
    years_ago = NOW - timedelta(days=1000)
    executor.execute([create("HERE")])
    executor.execute([bring(*(coming(50 + n, created_at=years_ago + timedelta(days=n)) for n in range(3)))])
    executor.execute([bring(coming(51, updated_at=LATER, times_activated_max=9))])
    follow_all(executor)
    first = day_of(int(years_ago.timestamp()))
    counts = run_read(storage, lambda tx: list_daily_counts(tx, ("license.imported",), 0))
    assert counts == {("license.imported", first + n): 1 for n in range(3)}
    for order, expected in ((Order.NEWEST, [1, 52, 51, 50]), (Order.OLDEST, [50, 51, 52, 1])):
        listed: list[int] = []
        cursor = None
        while len(listed) < 4:
            page = run_read(
                storage,
                lambda tx, at=cursor, by=order: find_page(  # type: ignore[misc]
                    tx, Search(order=by), cursor=at, limit=3, now=NOW
                ),
            )
            listed += [one.id for one in page.licenses]
            cursor = page.next
        assert listed == expected
