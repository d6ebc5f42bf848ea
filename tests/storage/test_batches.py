"""Every command and every question: what it answers, what it refuses, what is in the database after it."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.command import Command, Context, Query
from keywright.core.errors import (
    AlreadyActivated,
    Fault,
    LicenseDisabled,
    LicenseExpired,
    LicenseInactive,
    LicenseKeyTaken,
    LimitReached,
    NothingActive,
    RejectedByDatabase,
    TokenNotActive,
    UnknownLicense,
    UnknownToken,
)
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.engine.health import CheckDatabase
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import (
    ActivationSource,
    FindLicenses,
    LicensePage,
    LicenseRecord,
    ListLicenses,
    RecordLimits,
)
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseCommand, LicenseFilter, Status
from keywright.registry import open_executor
from tests.makers import (
    KEY,
    LATER,
    NOW,
    TOKEN,
    a_license,
    activate,
    an_origin,
    create,
    deactivate,
    deactivate_all,
    delete,
    reactivate,
    rename,
    update,
    validate,
)

DATABASES = ("sqlite", "serializable")
ANY = LicenseFilter()
ABOUT_ONE_LICENSE: list[Callable[..., LicenseCommand]] = [
    activate,
    lambda key, **fields: reactivate(TOKEN, key, **fields),
    lambda key, **fields: deactivate(TOKEN, key, **fields),
    deactivate_all,
    delete,
    lambda key, **fields: replace(update(key, status=Status.SOLD), **fields),
]


def do(executor: Executor, command: Command) -> Any:
    """The outcome of a command that is alone in its batch."""
    return executor.execute([command])[0]


def token_of(outcome: LicenseRecord) -> str:
    return outcome.activations[0].token


def get_stored(storage: Storage, key: str = KEY) -> LicenseRecord:
    """The license with all its records, as the database has them."""
    with storage.read() as tx:
        license = license_store.find_licenses(tx, [key])[key]
        return LicenseRecord(
            license, tuple(activation_store.list_activations(tx, [license.id]).get(license.id, ()))
        )


def events_of(storage: Storage, license_id: int = 1) -> list[Event]:
    """What happened to a license, first things first."""
    with storage.read() as tx:
        return event_store.list_events(tx, license_id, limit=99)[::-1]


def test_create_makes_a_license_as_it_was_asked_for(executor: Executor, storage: Storage) -> None:
    asked: dict[str, Any] = {"order_id": 1, "product_id": 2, "customer_id": 3, "expires_at": LATER}
    command = create(limit=4, status=Status.SOLD, by=7, **asked)
    expected = a_license(status=Status.SOLD, times_activated_max=4, created_by=7, **asked)
    assert do(executor, command) == LicenseRecord(expected)
    assert get_stored(storage).license == expected


def test_a_key_can_be_created_once(executor: Executor, storage: Storage) -> None:
    first = do(executor, create(limit=1))
    assert isinstance(do(executor, create(limit=2)), LicenseKeyTaken)
    assert get_stored(storage) == first


def test_activate_takes_a_place_and_makes_a_record(executor: Executor, storage: Storage) -> None:
    executor.execute([create(limit=2)])
    origin = an_origin(ip_address="2001:db8::1", user_agent="é/1")
    outcome = do(executor, activate(now=LATER, label="Büro", meta_data={"os": "linux"}, origin=origin))
    assert outcome.license == a_license(times_activated=1, times_activated_max=2, updated_at=LATER)
    (record,) = outcome.activations
    assert (record.id, record.license_id, record.source) == (1, 1, ActivationSource.API)
    assert (record.label, record.meta_data) == ("Büro", {"os": "linux"})
    assert (record.ip_address, record.user_agent) == ("2001:db8::1", "é/1")
    assert (record.created_at, record.updated_at, record.deactivated_at) == (LATER, None, None)
    assert get_stored(storage) == outcome


def test_every_success_carries_the_counter_after_it_and_a_token_of_its_own(executor: Executor) -> None:
    executor.execute([create(limit=3)])
    outcomes = [do(executor, activate()) for _ in range(3)]
    assert [one.license.times_activated for one in outcomes] == [1, 2, 3]
    assert len({token_of(one) for one in outcomes}) == 3
    assert isinstance(do(executor, activate()), LimitReached)


def test_reactivate_takes_the_same_place_back(executor: Executor, storage: Storage) -> None:
    token = token_of(executor.execute([create(limit=1), activate()])[1])
    do(executor, deactivate(token))
    outcome = do(executor, reactivate(token, now=LATER))
    assert outcome.license == a_license(times_activated=1, times_activated_max=1, updated_at=LATER)
    (record,) = outcome.activations
    assert (record.token, record.updated_at, record.deactivated_at) == (token, LATER, None)
    assert get_stored(storage) == outcome


def test_reactivate_needs_a_free_place(executor: Executor) -> None:
    token = token_of(executor.execute([create(limit=1), activate()])[1])
    executor.execute([deactivate(token), activate()])
    assert isinstance(do(executor, reactivate(token)), LimitReached)


def test_deactivate_gives_up_one_place(executor: Executor, storage: Storage) -> None:
    _, kept, given_up = executor.execute([create(limit=2), activate(), activate()])
    outcome = do(executor, deactivate(token_of(given_up), now=LATER))
    assert outcome.license == a_license(
        times_activated=1, times_activated_max=2, deactivated_count=1, updated_at=LATER
    )
    assert [one.deactivated_at for one in outcome.activations] == [LATER]
    assert get_stored(storage).activations == kept.activations + outcome.activations


def test_deactivate_all_reports_the_records_that_it_deactivated(executor: Executor, storage: Storage) -> None:
    _, *taken = executor.execute([create()] + [activate()] * 3)
    before = do(executor, deactivate(token_of(taken[1])))
    outcome = do(executor, deactivate_all(now=LATER))
    assert outcome.license == a_license(times_activated=0, deactivated_count=3, updated_at=LATER)
    assert [one.token for one in outcome.activations] == [token_of(taken[0]), token_of(taken[2])]
    assert {one.deactivated_at for one in outcome.activations} == {LATER}
    assert get_stored(storage).activations[1] == before.activations[0]
    assert isinstance(do(executor, deactivate_all()), NothingActive)


def test_a_token_works_with_its_own_license_only(executor: Executor, storage: Storage) -> None:
    token = token_of(executor.execute([create(), activate()])[1])
    executor.execute([create("other"), activate("other"), deactivate_all("other")])
    assert isinstance(do(executor, reactivate(token, "other")), UnknownToken)
    refusal = do(executor, deactivate(token, "other"))
    assert (type(refusal), refusal.token) == (TokenNotActive, token)
    assert isinstance(executor.query([validate("other", token)])[0], TokenNotActive)
    assert get_stored(storage).license.times_activated == 1


def test_a_token_is_refused_in_the_order_of_the_contract(executor: Executor) -> None:
    token = token_of(executor.execute([create(limit=1), activate()])[1])
    assert isinstance(do(executor, reactivate(TOKEN, "unknown")), UnknownLicense)
    assert isinstance(do(executor, reactivate(TOKEN)), UnknownToken)
    assert isinstance(do(executor, reactivate(token)), AlreadyActivated)
    executor.execute([update(status=Status.INACTIVE)])
    assert isinstance(do(executor, reactivate(TOKEN)), LicenseInactive)
    executor.execute([update(status=Status.DISABLED)])
    assert isinstance(do(executor, reactivate(TOKEN)), LicenseDisabled)
    executor.execute([update(expires_at=NOW)])
    assert isinstance(do(executor, reactivate(TOKEN)), LicenseExpired)
    assert isinstance(do(executor, activate()), LicenseExpired)
    assert isinstance(do(executor, deactivate(TOKEN)), TokenNotActive)


@pytest.mark.parametrize("make", ABOUT_ONE_LICENSE)
def test_an_unknown_key_is_refused(executor: Executor, make: Callable[..., LicenseCommand]) -> None:
    outcome = do(executor, make("unknown"))
    assert isinstance(outcome, UnknownLicense)
    assert outcome.key == "unknown"


@pytest.mark.parametrize("make", ABOUT_ONE_LICENSE)
@pytest.mark.parametrize("product_id", [None, 6])
def test_a_license_of_another_product_is_unknown_to_a_client(
    executor: Executor, storage: Storage, make: Callable[..., LicenseCommand], product_id: int | None
) -> None:
    executor.execute([create(product_id=product_id), activate()])
    before = get_stored(storage)
    outcome = do(executor, make(KEY, only_product_id=5))
    assert isinstance(outcome, UnknownLicense)
    assert get_stored(storage) == before
    assert isinstance(executor.query([validate(only_product_id=5)])[0], UnknownLicense)


def test_a_license_of_its_product_is_known_to_a_client(executor: Executor) -> None:
    executor.execute([create(product_id=5)])
    assert do(executor, activate(only_product_id=5)).license.times_activated == 1
    assert executor.query([validate(only_product_id=5)])[0].license.times_activated == 1


def test_the_first_activation_sets_the_expiry_for_good(executor: Executor, storage: Storage) -> None:
    executor.execute([create(valid_for_days=2)])
    assert do(executor, activate()).license.expires_at == NOW + timedelta(days=2)
    last_second = NOW + timedelta(days=2, seconds=-1)
    outcome = do(executor, activate(now=last_second))
    assert outcome.license.expires_at == NOW + timedelta(days=2)
    assert get_stored(storage).license == outcome.license
    assert isinstance(do(executor, activate(now=NOW + timedelta(days=2))), LicenseExpired)


def test_update_changes_only_what_it_names(executor: Executor, storage: Storage) -> None:
    executor.execute([create(limit=3, product_id=1, valid_for_days=9), activate()])
    before = get_stored(storage).license
    outcome = do(executor, update(now=LATER, by=4, status=Status.SOLD, order_id=8, expires_at=None))
    expected = replace(
        before, status=Status.SOLD, order_id=8, expires_at=None, updated_at=LATER, updated_by=4
    )
    assert outcome == LicenseRecord(expected)
    assert get_stored(storage).license == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"status": Status.INACTIVE},
        {"order_id": 1},
        {"product_id": 1},
        {"customer_id": 1},
        {"expires_at": LATER},
        {"valid_for_days": 1},
        {"times_activated_max": 1},
        {"key": "new"},
    ],
)
@pytest.mark.parametrize("activates", [0, 1])
def test_each_field_is_saved_also_when_a_place_is_taken_in_the_same_batch(
    executor: Executor, storage: Storage, changes: dict[str, Any], activates: int
) -> None:
    executor.execute([create()])
    outcomes = executor.execute([activate()] * activates + [update(**changes)])
    changed = outcomes[-1].license
    assert all(getattr(changed, name) == value for name, value in changes.items())
    assert get_stored(storage, changed.key).license == changed
    assert changed.times_activated == activates


def test_authors_are_api_keys_and_not_users_of_the_pages_who_have_the_same_numbers(
    executor: Executor, storage: Storage
) -> None:
    ada: dict[str, Any] = {"origin": an_origin(actor="user:7"), "by": 7}
    executor.execute([create("of-ada", **ada), create("of-key-7", by=7)])
    assert [get_stored(storage, key).license.created_by for key in ("of-ada", "of-key-7")] == [None, 7]
    executor.execute([replace(update("of-key-7", order_id=1), context=Context(NOW, **ada))])
    assert get_stored(storage, "of-key-7").license.updated_by is None


def test_who_changed_a_license_last_is_saved_even_when_nothing_else_changed(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create(), update(by=3)])
    do(executor, update(by=4, now=LATER))
    assert get_stored(storage).license == a_license(updated_at=LATER, updated_by=4)


def test_an_expiry_can_be_taken_away_again(executor: Executor, storage: Storage) -> None:
    executor.execute([create(expires_at=LATER)])
    assert do(executor, update(expires_at=None)).license.expires_at is None
    assert get_stored(storage).license.expires_at is None


def test_a_license_can_be_renamed_to_a_free_key_only(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a"), create("b")])
    assert isinstance(do(executor, rename("a", "b")), LicenseKeyTaken)
    assert do(executor, rename("a", "a")).license.key == "a"
    assert do(executor, rename("a", "c")).license.key == "c"
    assert isinstance(do(executor, activate("a")), UnknownLicense)
    assert get_stored(storage, "c").license.id == 1


def test_delete_removes_the_license_with_its_activations(executor: Executor, storage: Storage) -> None:
    token = token_of(executor.execute([create(), activate()])[1])
    assert do(executor, delete()) is None
    assert isinstance(do(executor, delete()), UnknownLicense)
    executor.execute([create()])
    assert isinstance(do(executor, reactivate(token)), UnknownToken)
    assert get_stored(storage).activations == ()


def test_validation_reports_without_looking_at_status_or_expiry(executor: Executor) -> None:
    token = token_of(executor.execute([create(), activate()])[1])
    executor.execute([activate(), deactivate(token), update(status=Status.DISABLED, expires_at=NOW)])
    (outcome,) = executor.query([validate()])
    assert [one.deactivated_at is None for one in outcome.activations] == [False, True]
    assert isinstance(executor.query([validate(token=token)])[0], TokenNotActive)
    second = outcome.activations[1]
    assert executor.query([validate(token=second.token)])[0].activations == (second,)


@pytest.mark.smoke
def test_lists_come_with_all_activations(executor: Executor) -> None:
    executor.execute([create(f"key {n}", product_id=n % 2) for n in range(5)])
    executor.execute([activate("key 1"), activate("key 3"), deactivate_all("key 3")])
    piece, page, odd, beyond = executor.query(
        [
            FindLicenses(where=ANY, after_id=1, limit=2),
            ListLicenses(where=ANY, page=2, per_page=2),
            ListLicenses(where=LicenseFilter(product_id=1), page=1, per_page=9),
            ListLicenses(where=ANY, page=3, per_page=3),
        ]
    )
    assert [(one.license.key, len(one.activations)) for one in piece] == [("key 1", 1), ("key 2", 0)]
    assert [(one.license.key, len(one.activations)) for one in page.records] == [("key 2", 0), ("key 3", 1)]
    assert page.total == 5
    assert [one.license.key for one in odd.records] == ["key 1", "key 3"]
    assert beyond == LicensePage((), 5)


@pytest.mark.smoke
def test_the_store_answers(executor: Executor) -> None:
    assert executor.query([CheckDatabase()]) == [None]


def test_each_change_leaves_an_event_and_a_refusal_leaves_none(executor: Executor, storage: Storage) -> None:
    token = token_of(executor.execute([create("a long enough key"), activate("a long enough key")])[1])
    executor.execute([create("a long enough key"), reactivate(token, "a long enough key")])
    key = "a long enough key"
    origin = an_origin(actor="api_key:7", ip_address="198.51.100.7")
    executor.execute([deactivate(token, key, now=LATER, origin=origin), reactivate(token, key)])
    executor.execute([deactivate_all(key), update(key, status=Status.SOLD, order_id=None)])
    executor.execute([rename(key, "another long key"), delete("another long key")])
    happened = events_of(storage)
    assert [one.name for one in happened] == [
        "license.created",
        "license.activated",
        "license.deactivated",
        "license.reactivated",
        "license.deactivated",
        "license.updated",
        "license.updated",
        "license.deleted",
    ]
    assert [one.activation_id for one in happened] == [None, 1, 1, 1, 1, None, None, None]
    counted = {"activation_count": 0}
    assert happened[2] == Event(LATER, "license.deactivated", 1, 1, "api_key:7", "198.51.100.7", counted)
    assert happened[5].details == {"status": [Status.ACTIVE, Status.SOLD]}
    assert happened[6].details == {"key": ["… key", "… key"]}
    assert happened[7].details == {"key": "… key", "times_activated": 0, "status": "sold", "order": {}}


def test_deactivating_all_leaves_an_event_for_each_record(executor: Executor, storage: Storage) -> None:
    executor.execute([create(), activate(), activate(), deactivate_all()])
    ended = [one.activation_id for one in events_of(storage) if one.name == "license.deactivated"]
    assert ended == [1, 2]


def test_deactivating_all_names_as_many_records_as_an_answer_lists_and_counts_the_others(
    storage: Storage,
) -> None:
    executor = open_executor(storage, partial(RecordLimits, listed=2))
    *_, outcome = executor.execute([create(), *[activate()] * 3, deactivate_all()])
    listed = [(one.id, {"activation_count": 0}) for one in outcome.activations]
    assert len(listed) == 2
    told = [one for one in events_of(storage) if one.name == "license.deactivated"]
    assert [(one.activation_id, one.details) for one in told] == [*listed, (None, {"others": 1})]


def test_what_the_database_rejects_is_a_fault_without_effect(executor: Executor, storage: Storage) -> None:
    outcome = do(executor, create(order_id=2**63))
    assert type(outcome) is RejectedByDatabase
    assert events_of(storage) == []
    assert isinstance(do(executor, activate()), UnknownLicense)


def test_what_nobody_thought_of_is_a_fault_that_tells_its_cause_to_the_log_alone(
    executor: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    executor.execute([create()])
    outcome = do(executor, update(no_such_field="secret"))
    assert type(outcome) is Fault
    assert "secret" not in str(outcome)
    assert isinstance(executor.query([Query()])[0], Fault)
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("ERROR", "could not UpdateLicense"),
        ("ERROR", "could not Query"),
    ]
    assert "no_such_field" in caplog.text
