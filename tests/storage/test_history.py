"""A license's history is bounded: the stored records, those in an answer, and those that a call reads."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any

import pytest

from keywright.core.command import Command, Query, Rerouted
from keywright.core.errors import UnknownToken
from keywright.db import Storage, WriteTransaction, run_write
from keywright.db.schema import pruned_activations
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.http.v2 import wire
from keywright.licensing.activations import rules
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import (
    Activation,
    FindLicenses,
    LicenseRecord,
    RecordLimits,
    ValidateAlone,
)
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from keywright.licensing.validation import Validated, ValidateLicense
from keywright.registry import open_executor
from tests.databases import execute
from tests.makers import (
    NOW,
    a_license,
    activate,
    an_activation,
    create,
    deactivate,
    deactivate_all,
    reactivate,
    validate,
)
from tests.storage.projected import assert_followed, follow_all, project
from tests.storage.test_browsing_indices import note_statements

DATABASES = ("sqlite",)

DAY = timedelta(days=1)


def a_history(
    storage: Storage, license_id: int, *, active: int, given_up: int, **fields: Any
) -> list[Activation]:
    """Create a license with the key ``KEY-`` and its ID, and this many records, each deactivated a second
    after the one before; return the records, active ones first.
    """
    license = a_license(
        id=license_id, key=f"KEY-{license_id}", times_activated=active, deactivated_count=given_up
    )
    records = []
    for n in range(active + given_up):
        at = None if n < active else NOW + timedelta(seconds=n)
        token = sha256(b"%d %d" % (license_id, n)).hexdigest()[:40]
        number = license_id * 1_000_000 + n
        record = an_activation(
            id=number, token=token, license_id=license_id, deactivated_at=at, updated_at=at, **fields
        )
        records.append(record)

    def insert(tx: WriteTransaction) -> None:
        license_store.save_new_licenses(tx, [license])
        activation_store.save_new_activations(tx, records)

    run_write(storage, insert)
    return records


def take_and_give_up(executor: Executor, times: int, *, every: timedelta = DAY) -> list[str]:
    """Activate and deactivate this many times; return the tokens, oldest first."""
    tokens = []
    for n in range(times):
        now = NOW + n * every
        [taken] = executor.execute([activate(now=now)])
        tokens.append(taken.activations[0].token)
        [outcome] = executor.execute([deactivate(tokens[-1], now=now)])
        assert isinstance(outcome, LicenseRecord), outcome
    return tokens


def list_kept(storage: Storage, license_id: int = 1) -> list[str]:
    """The tokens of the deactivated records; check that the license's counter matches."""
    with storage.read() as tx:
        records = activation_store.list_activations(tx, [license_id]).get(license_id, [])
        tokens = [one.token for one in records if one.deactivated_at is not None]
        [license] = [
            one
            for one in license_store.list_licenses(tx, LicenseFilter(), after_id=0, limit=99)
            if one.id == license_id
        ]
    assert license.deactivated_count == len(tokens)
    assert license.times_activated == len(records) - len(tokens)
    return tokens


# --- what is kept ---------------------------------------------------------------------------------


def test_the_oldest_record_goes_when_one_more_is_given_up(storage: Storage) -> None:
    executor = open_executor(storage, partial(RecordLimits, kept=3))
    executor.execute([create(limit=1)])
    tokens = take_and_give_up(executor, 6)
    assert list_kept(storage) == tokens[3:]
    gone, there = executor.execute([reactivate(tokens[2]), reactivate(tokens[3])])
    assert isinstance(gone, UnknownToken)
    assert isinstance(there, LicenseRecord)
    assert list_kept(storage) == tokens[4:]


def test_everything_given_up_within_a_day_is_kept(storage: Storage) -> None:
    executor = open_executor(storage, partial(RecordLimits, kept=3))
    executor.execute([create(limit=1)])
    tokens = take_and_give_up(executor, 6, every=timedelta(hours=1))
    assert list_kept(storage) == tokens
    [last] = executor.execute([activate(now=NOW + 2 * DAY)])
    executor.execute([deactivate(last.activations[0].token, now=NOW + 2 * DAY)])
    assert list_kept(storage) == [*tokens[4:], last.activations[0].token]


def test_no_license_keeps_more_than_the_most(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_KEPT_RECORDS", 4)
    executor = open_executor(storage, partial(RecordLimits, kept=3))
    executor.execute([create(limit=1)])
    tokens = take_and_give_up(executor, 7, every=timedelta(0))
    assert list_kept(storage) == tokens[3:]


def test_licenses_of_one_batch_are_pruned_each_for_itself(storage: Storage) -> None:
    histories = [a_history(storage, number, active=1, given_up=5 + number) for number in (1, 2, 3)]
    executor = open_executor(storage, partial(RecordLimits, kept=6))
    outcomes = executor.execute(
        [deactivate(some[0].token, f"KEY-{some[0].license_id}", now=NOW + 2 * DAY) for some in histories]
    )
    assert all(isinstance(one, LicenseRecord) for one in outcomes)
    for number, some in enumerate(histories, 1):
        # The one deactivated just now, and the last five of the others.
        assert sorted(list_kept(storage, number)) == sorted(one.token for one in [some[0], *some[-5:]])


@pytest.mark.smoke
def test_what_is_gone_is_found_no_more(storage: Storage) -> None:
    executor = open_executor(storage, partial(RecordLimits, kept=2))
    executor.execute([create(limit=1)])
    take_and_give_up(executor, 4)
    follow_all(executor)
    take_and_give_up(executor, 4, every=3 * DAY)
    follow_all(executor)
    project(executor)
    assert_followed(storage)
    with storage.read() as tx:
        assert not tx.connection.execute(pruned_activations.select()).all()


# --- what answers list ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("active", "given_up", "listed"), [(3, 2, 5), (90, 3, 10), (300, 40, 300), (150, 300, 200), (0, 300, 200)]
)
def test_an_answer_lists_active_records_first_then_the_latest_and_the_oldest_on_top(
    storage: Storage, active: int, given_up: int, listed: int
) -> None:
    records = a_history(storage, 1, active=active, given_up=given_up)
    [found] = open_executor(storage, partial(RecordLimits, listed=listed)).query([validate("KEY-1")])
    assert (found.license.times_activated, len(found.activations)) == (active, listed)
    assert [one.id for one in found.activations] == sorted(one.id for one in found.activations)
    assert sum(one.deactivated_at is None for one in found.activations) == min(active, listed)
    latest = records[active + given_up - max(0, listed - active) :]
    assert [one for one in found.activations if one.deactivated_at is not None] == latest


@pytest.mark.parametrize("records", [400, 95])
def test_an_answer_is_about_a_mebibyte_at_most(storage: Storage, records: int) -> None:
    fat = {"label": "é" * 255, "user_agent": "x" * 512, "meta_data": {"k" * 40: "é" * 2000}}
    a_history(storage, 1, active=records // 2, given_up=records - records // 2, **fat)
    executor = open_executor(storage)
    [found], [[listed]] = (
        executor.query([validate("KEY-1")]),
        executor.query([FindLicenses(where=LicenseFilter(), after_id=0, limit=9)]),
    )
    assert len(wire.validation(found)) <= 1.1 * 2**20
    assert len(wire.licenses_with_activations([listed])) <= 0.11 * 2**20
    assert found.license.times_activated == listed.license.times_activated == records // 2


def test_a_list_of_licenses_lists_a_hundred_records_of_each(storage: Storage) -> None:
    for number, active, given_up in ((1, 150, 10), (2, 60, 200), (3, 3, 3), (4, 0, 0)):
        a_history(storage, number, active=active, given_up=given_up)
    [found] = open_executor(storage).query([FindLicenses(where=LicenseFilter(), after_id=0, limit=9)])
    assert [len(one.activations) for one in found] == [100, 100, 6, 0]
    assert [sum(r.deactivated_at is None for r in one.activations) for one in found] == [100, 60, 3, 0]


def test_a_token_beyond_what_is_listed_is_found(storage: Storage) -> None:
    records = a_history(storage, 1, active=300, given_up=0)
    executor = open_executor(storage, partial(RecordLimits, listed=1))
    questions = [validate("KEY-1"), *(validate("KEY-1", one.token) for one in records)]
    whole, *named = executor.query(questions)
    assert len(whole.activations) == 1
    assert [one.activations for one in named] == [(one,) for one in records]


# --- deactivating all -----------------------------------------------------------------------------


def test_giving_up_every_place_is_one_statement_however_many_there_are(storage: Storage) -> None:
    a_history(storage, 1, active=700, given_up=0)
    executor = open_executor(storage, partial(RecordLimits, listed=200))
    with note_statements() as statements:
        [outcome] = executor.execute([deactivate_all("KEY-1")])
    assert [sql.split()[0] for sql, _ in statements if "UPDATE activations" in sql] == ["UPDATE"]
    assert (outcome.license.times_activated, len(outcome.activations)) == (0, 200)
    assert all(one.deactivated_at == NOW for one in outcome.activations)
    assert len(list_kept(storage)) == 700


def test_the_events_of_very_many_places_name_those_in_the_answer_and_count_the_others(
    storage: Storage,
) -> None:
    a_history(storage, 1, active=300, given_up=0)
    [outcome] = open_executor(storage, partial(RecordLimits, listed=120)).execute([deactivate_all("KEY-1")])
    with storage.read() as tx:
        happened = event_store.list_events(tx, 1, limit=999)
    assert {one.name for one in happened} == {"license.deactivated"}
    assert {one.activation_id for one in happened} == {None, *(one.id for one in outcome.activations)}
    assert [one.details for one in happened if one.activation_id is None] == [{"others": 180}]


@pytest.mark.smoke
def test_places_taken_again_in_the_same_batch_stay_taken(storage: Storage) -> None:
    records = a_history(storage, 1, active=300, given_up=200)
    executor = open_executor(storage, partial(RecordLimits, listed=10))
    commands: list[Command] = [
        activate("KEY-1"),
        reactivate(records[-1].token, "KEY-1"),
        deactivate_all("KEY-1"),
        reactivate(records[5].token, "KEY-1"),
        activate("KEY-1"),
    ]
    outcomes = executor.execute(commands)
    assert [one.license.times_activated for one in outcomes] == [301, 302, 0, 1, 2]
    assert len(list_kept(storage)) == 500 - 1 + 1
    [found] = executor.query([ValidateAlone(key="KEY-1")])
    active = {one.token for one in found.activations if one.deactivated_at is None}
    assert active == {outcomes[3].activations[0].token, outcomes[4].activations[0].token}


# --- what is read ---------------------------------------------------------------------------------


def steps_of(storage: Storage, run: Callable[[Executor], Iterable[Any]]) -> int:
    """The number of steps that SQLite needs, in thousands."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    executor = open_executor(storage)
    executor.query([validate("unknown")])
    executor.execute([activate("unknown")])
    for connection in (storage._reader, storage._writer):  # type: ignore[union-attr]
        raw: Any = connection.connection.driver_connection  # type: ignore[union-attr]
        raw.set_progress_handler(count, 1000)
    assert not [one for one in run(executor) if isinstance(one, Exception)]
    return taken


@pytest.mark.databases("sqlite")
def test_calls_that_name_one_place_read_none_of_the_others(storage: Storage) -> None:
    records = a_history(storage, 1, active=4_000, given_up=4_000)

    def run(executor: Executor) -> Iterable[Any]:
        own, given_up = records[7].token, records[5_000].token
        yield from executor.query([validate("KEY-1", own)])
        for command in (activate("KEY-1"), deactivate(own, "KEY-1"), reactivate(given_up, "KEY-1")):
            yield from executor.execute([command])

    # Reading all records once takes more than a hundred.
    assert steps_of(storage, run) < 10


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("active", [2_000, 20_000])
def test_what_a_validation_reads_does_not_grow_with_the_places_taken(storage: Storage, active: int) -> None:
    a_history(storage, 1, active=active, given_up=0)
    assert steps_of(storage, lambda executor: executor.query([ValidateAlone(key="KEY-1")])) < 100


def test_a_license_with_very_many_records_is_reported_alone_only(storage: Storage) -> None:
    a_history(storage, 1, active=1, given_up=500)
    records = a_history(storage, 2, active=1, given_up=499)
    executor = open_executor(storage)
    assert executor.query([validate("KEY-1")]) == [Rerouted(ValidateAlone(key="KEY-1"))]
    large, small, named = executor.query(
        [validate("KEY-1"), validate("KEY-2"), validate("KEY-2", records[0].token)]
    )
    assert (large, len(small.activations), len(named.activations)) == (
        Rerouted(ValidateAlone(key="KEY-1")),
        500,
        1,
    )
    [found] = executor.query([ValidateAlone(key="KEY-1")])
    assert len(found.activations) == 501


@pytest.mark.of_the_database
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("question", [validate("KEY-2"), validate("KEY-1", "f" * 40)])
def test_a_small_license_is_validated_without_its_large_neighbor(
    storage: Storage, url: str, question: Query
) -> None:
    """With statistics according to which a license has many records, and most belong to one."""
    a_history(storage, 1, active=20_000, given_up=0)
    for number in range(2, 6):
        a_history(storage, number, active=2, given_up=1)
    execute(url, "ALTER TABLE activations ALTER license_id SET (n_distinct = 1)")
    execute(url, "ANALYZE")
    assert rows_read(storage, [question, validate("KEY-3"), validate("KEY-4")]) <= 10


@pytest.mark.of_the_database
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("names", [("fingerprint",), ("token",), ("fingerprint", "token")])
def test_a_device_of_a_large_license_is_validated_without_its_others(
    storage: Storage, url: str, names: tuple[str, ...]
) -> None:
    """With statistics according to which there are many licenses with few records each."""
    a_history(storage, 1, active=2_000, given_up=0)
    with storage.write() as tx:
        others = [a_license(id=number, key=f"KEY-{number}") for number in range(2, 5_000)]
        license_store.save_new_licenses(tx, others)
    execute(url, "UPDATE activations SET fingerprint = 'device-' || id")
    execute(url, "ALTER TABLE activations ALTER license_id SET (n_distinct = 500)")
    execute(url, "ANALYZE")
    device: dict[str, Any] = dict.fromkeys(names, "f" * 40)
    questions = [ValidateLicense(key=f"KEY-{number}", now=NOW, **device) for number in range(1, 21)]
    assert rows_read(storage, [*questions]) == 0


def rows_read(storage: Storage, questions: list[Query]) -> int:
    """The number of activations that PostgreSQL reads for these queries."""
    with note_statements() as statements:
        outcomes = open_executor(storage).query(questions)
    assert any(isinstance(one, LicenseRecord | Validated) for one in outcomes)
    read = 0
    with storage.read() as tx:
        assert tx.is_postgres
        for sql, values in statements:
            if "activations" not in sql:
                continue
            explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}"
            [[plan]] = tx.connection.exec_driver_sql(explain, values).scalars()
            read += _activations_in(plan["Plan"])
    return read


def _activations_in(plan: dict[str, Any]) -> int:
    own = 0
    if plan.get("Relation Name") == "activations" or "activations" in plan.get("Index Name", ""):
        each = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        own = int(each * plan["Actual Loops"] + 0.5)
    return own + sum(map(_activations_in, plan.get("Plans", ())))
