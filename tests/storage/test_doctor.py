"""The doctor finds all planted faults, and repairs what can be repaired."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import text

from keywright.db import Storage
from keywright.events import store as event_store
from keywright.licensing.activations.model import RecordLimits
from keywright.maintenance import doctor
from keywright.maintenance.doctor import Examined, Finding
from keywright.registry import open_executor
from tests.makers import (
    NOW,
    activate,
    an_origin,
    create,
    create_policy,
    deactivate,
    deactivate_all,
    delete,
    generate,
    reactivate,
    rename,
    set_terms,
    take_lease,
    update,
    validate,
)

DATABASES = ("sqlite",)

Broken = Callable[[str], None]


@pytest.fixture
def sold(storage: Storage) -> Storage:
    """A database after many typical calls."""
    executor = open_executor(storage)
    executor.execute([create("A", 3), create("B"), create("gone"), create_policy()])
    first, *_ = executor.execute([activate("A"), activate("A"), activate("B"), activate("gone")])
    executor.execute([deactivate_all("A"), reactivate(first.activations[0].token, "A"), delete("gone")])
    executor.execute([update("B", times_activated_max=None), rename("B", "C"), generate(1, 20)])
    return storage


@pytest.fixture
def broken(sold: Storage) -> Broken:
    """Change the database directly."""

    def change(statement: str) -> None:
        with sold.write() as tx:
            tx.connection.execute(text(statement))

    return change


def findings(storage: Storage) -> list[Finding]:
    return list(doctor.examine(storage, lambda _: None))


def codes(storage: Storage) -> list[str]:
    return [one.code for one in findings(storage)]


def test_ordinary_use_leaves_nothing_to_find_in_any_step(
    sold: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_LICENSES_AT_ONCE", 4)
    seen: list[Examined] = []
    assert list(doctor.examine(sold, seen.append)) == []
    assert len(seen) == 6
    assert seen[-1] == Examined(licenses=22, activations=3)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE licenses SET times_activated = 2 WHERE id = 1", ["counter.wrong"]),
        ("UPDATE licenses SET times_activated = 0 WHERE id = 1", ["counter.wrong"]),
        ("UPDATE licenses SET deactivated_count = 0 WHERE id = 1", ["counter.wrong"]),
        ("DELETE FROM activations WHERE deactivated_at IS NOT NULL", ["counter.wrong"]),
        (
            "UPDATE activations SET deactivated_at = 1 WHERE deactivated_at IS NULL AND license_id = 1",
            ["counter.wrong", "events.incomplete"],
        ),
        (
            "UPDATE licenses SET sealed_key = (SELECT sealed_key FROM licenses WHERE id = 2) WHERE id = 1",
            ["key.unsound"],
        ),
        ("DELETE FROM events WHERE name = 'license.created' AND license_id = 1", ["events.incomplete"]),
        ("DELETE FROM events WHERE name = 'license.reactivated'", ["events.incomplete"]),
        ("UPDATE activations SET id = 1", ["activation.doubled"]),
    ],
)
def test_each_fault_is_found(sold: Storage, broken: Broken, statement: str, expected: list[str]) -> None:
    broken(statement)
    assert codes(sold) == expected


@pytest.mark.smoke
def test_a_number_that_was_given_already_is_found(sold: Storage, broken: Broken, database: str) -> None:
    if database == "sqlite":
        broken("UPDATE sequences SET last_id = 1 WHERE name = 'license'")
    else:
        broken("SELECT setval('license_id_seq', 1)")
    assert codes(sold) == ["license.numbers"]


def test_a_counter_is_repaired_from_the_active_records(sold: Storage, broken: Broken) -> None:
    broken("UPDATE licenses SET times_activated = 3 WHERE id = 1")
    (finding,) = findings(sold)
    assert finding.what == "license 1 has an activation count of 3, but 1 active activation"
    assert finding.is_repairable
    doctor.repair(sold, finding, NOW, an_origin(actor="cli:ada"))
    assert findings(sold) == []
    (record,) = open_executor(sold).query([validate("A")])
    assert record.license.times_activated == 1
    with sold.read() as tx:
        event = event_store.list_events(tx, 1, limit=1)[0]
    assert (event.name, event.actor, event.details) == (
        "license.recounted",
        "cli:ada",
        {"times_activated": [3, 1]},
    )
    assert [type(one).__name__ for one in open_executor(sold).execute([activate("A")] * 3)] == [
        "LicenseRecord",
        "LicenseRecord",
        "LimitReached",
    ]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("statement", "counted"),
    [
        ("UPDATE lease_counters SET held = 2", [2, 1]),
        ("DELETE FROM lease_counters", [0, 1]),
        ("DELETE FROM leases", [1, 0]),
    ],
)
def test_a_counter_of_leases_is_repaired_from_the_leases(
    sold: Storage, broken: Broken, statement: str, counted: list[int]
) -> None:
    executor = open_executor(sold)
    executor.execute([set_terms({"max_leases": 2}, "A"), take_lease(key="A")])
    assert findings(sold) == []
    broken(statement)
    (finding,) = findings(sold)
    assert finding.what == f"license 1 counts {counted[0]} leases, but has {counted[1]}"
    doctor.repair(sold, finding, NOW, an_origin(actor="cli:ada"))
    assert findings(sold) == []
    with sold.read() as tx:
        assert event_store.list_events(tx, 1, limit=1)[0].details == {"leases": counted}
    outcomes = executor.execute([take_lease(str(number), "A") for number in range(3 - counted[1])])
    assert [type(one).__name__ for one in outcomes] == ["GrantedLease"] * (2 - counted[1]) + ["NoFreeLease"]


@pytest.mark.smoke
def test_a_counter_of_deactivated_records_is_repaired_from_the_records(sold: Storage, broken: Broken) -> None:
    broken("UPDATE licenses SET deactivated_count = 9 WHERE id = 1")
    (finding,) = findings(sold)
    assert finding.what == "license 1 counts 9 deactivated activations, but has 1"
    doctor.repair(sold, finding, NOW, an_origin())
    assert findings(sold) == []
    with sold.read() as tx:
        assert event_store.list_events(tx, 1, limit=1)[0].details == {"deactivated_count": [9, 1]}


def test_deleted_old_records_are_no_fault(storage: Storage) -> None:
    executor = open_executor(storage, partial(RecordLimits, kept=2))
    executor.execute([create("A", 1)])
    for day in range(5):
        now = NOW + timedelta(days=day)
        [taken] = executor.execute([activate("A", now=now)])
        executor.execute([deactivate(taken.activations[0].token, "A", now=now)])
    assert findings(storage) == []


def test_very_many_places_given_up_at_once_are_no_fault(
    storage: Storage,
) -> None:
    executor = open_executor(storage, partial(RecordLimits, listed=2))
    executor.execute([create("A"), *[activate("A")] * 5, deactivate_all("A")])
    assert findings(storage) == []


def test_a_fault_that_cannot_be_repaired_is_left_alone(sold: Storage, broken: Broken) -> None:
    broken("DELETE FROM events WHERE name = 'license.created' AND license_id = 1")
    (finding,) = findings(sold)
    with pytest.raises(ValueError, match="cannot be repaired"):
        doctor.repair(sold, finding, NOW, an_origin())
