"""A repeated call gets its first response, and has no second effect."""

from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.errors import IdempotencyKeyReused, LicenseKeyTaken, LimitReached
from keywright.db import Storage
from keywright.engine import idempotency
from keywright.engine.executor import Executor
from keywright.engine.idempotency import IdempotencyRecord
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import store as license_store
from keywright.registry import open_executor
from tests.makers import (
    KEY,
    LATER,
    NOW,
    a_retry,
    activate,
    create,
    create_policy,
    deactivate_all,
    delete,
    generate,
    purge_idempotency_records,
)
from tests.storage.conftest import RUN_AGAIN, Opener

DATABASES = RUN_AGAIN
pytestmark = pytest.mark.of_the_database


@pytest.fixture
def executor(executor: Executor) -> Executor:
    executor.execute([create(limit=2)])
    return executor


def write_token(outcome: Any) -> bytes:
    assert isinstance(outcome, LicenseRecord)
    return outcome.activations[0].token.encode()


def once(name: str, digest: bytes = b"") -> dict[str, Any]:
    return {"idempotency": a_retry(name, digest, write=write_token)}


def counter(storage: Storage) -> int:
    with storage.read() as tx:
        return license_store.find_licenses(tx, [KEY])[KEY].times_activated


def test_a_repeated_call_gets_its_first_answer_and_takes_no_second_place(
    executor: Executor, storage: Storage
) -> None:
    (first,) = executor.execute([activate(**once("call"))])
    token = first.activations[0].token
    for _ in range(3):
        (again,) = executor.execute([activate(now=LATER, **once("call"))])
        assert again == IdempotencyRecord(a_retry("call").request_digest, 200, token.encode())
    assert counter(storage) == 1


def test_the_first_answer_is_kept_when_the_call_is_repeated_in_the_same_batch(
    executor: Executor, storage: Storage
) -> None:
    outcomes = executor.execute([activate(**once("call")) for _ in range(100)])
    assert isinstance(outcomes[0], LicenseRecord)
    assert {one.body for one in outcomes[1:]} == {write_token(outcomes[0])}
    assert counter(storage) == 1


def test_the_first_answer_outlives_the_program(
    executor: Executor, storage: Storage, open_again: Opener
) -> None:
    (first,) = executor.execute([activate(**once("call"))])
    storage.close()
    (again,) = open_executor(open_again()).execute([activate(**once("call"))])
    assert again.body == write_token(first)


def test_a_refusal_is_kept_too(executor: Executor) -> None:
    executor.execute([activate(), activate()])
    assert isinstance(executor.execute([activate(**once("call"))])[0], LimitReached)
    executor.execute([deactivate_all()])
    (again,) = executor.execute([activate(**once("call"))])
    assert (again.status, again.body) == (404, b"LimitReached")


def test_a_refusal_is_kept_only_for_callers_whose_refusals_are_kept(
    executor: Executor, storage: Storage
) -> None:
    by_stranger, by_api_key = replace(a_retry("stranger"), keeps_refusals=False), a_retry("api key")
    executor.execute([activate("no", idempotency=by_stranger), activate("no", by=7, idempotency=by_api_key)])
    with storage.write() as tx:
        assert set(idempotency.lock_idempotency_records(tx, [by_stranger.scope, by_api_key.scope])) == {
            by_api_key.scope
        }
    executor.execute([create("no")])
    outcomes = executor.execute(
        [activate("no", idempotency=by_stranger), activate("no", by=7, idempotency=by_api_key)]
    )
    assert [type(one) for one in outcomes] == [LicenseRecord, IdempotencyRecord]


def test_the_same_call_with_other_parameters_is_refused(executor: Executor, storage: Storage) -> None:
    executor.execute([activate(**once("call", b"label=a"))])
    outcomes = executor.execute([activate(**once("call", b"label=b")), activate(**once("call", b"label=a"))])
    assert [type(one) for one in outcomes] == [IdempotencyKeyReused, IdempotencyRecord]
    assert counter(storage) == 1


def test_different_calls_have_their_own_answers_beside_calls_without_one(
    executor: Executor, storage: Storage
) -> None:
    outcomes = executor.execute([activate(**once("a")), activate(**once("b")), activate()])
    assert [type(one) for one in outcomes] == [LicenseRecord, LicenseRecord, LimitReached]
    again = executor.execute([activate(**once("b")), activate(**once("a"))])
    assert [one.body for one in again] == [write_token(one) for one in outcomes[1::-1]]
    assert counter(storage) == 2


def test_the_answer_outlives_the_license(executor: Executor) -> None:
    (first,) = executor.execute([activate(**once("call"))])
    executor.execute([delete()])
    (again,) = executor.execute([activate(**once("call"))])
    assert again.body == write_token(first)


def test_a_forgotten_call_is_a_new_one(executor: Executor, storage: Storage) -> None:
    executor.execute([activate(**once("call"))])
    assert executor.execute([purge_idempotency_records(NOW)]) == [0]
    executor.execute([activate(**once("refused"), now=LATER), activate(**once("newer"), now=LATER)])
    assert executor.execute([purge_idempotency_records(LATER)]) == [1]
    executor.execute([deactivate_all()])
    assert isinstance(executor.execute([activate(**once("call", b"other"))])[0], LicenseRecord)
    assert counter(storage) == 1


def test_when_even_the_newest_answer_is_old_the_clock_may_have_jumped_and_nothing_is_forgotten(
    executor: Executor,
) -> None:
    first, second = executor.execute([activate(**once("call")), activate(**once("other"))])
    assert executor.execute([purge_idempotency_records(LATER)]) == [None]
    again = executor.execute([activate(**once("call")), activate(**once("other"))])
    assert [one.body for one in again] == [write_token(first), write_token(second)]


def test_every_changing_command_can_be_retried(executor: Executor) -> None:
    retry = a_retry("create", write=lambda outcome: outcome.license.key.encode())
    assert executor.execute([create("new", idempotency=retry)])[0].license.key == "new"
    assert executor.execute([create("new", idempotency=retry)])[0].body == b"new"
    assert isinstance(executor.execute([create("new")])[0], LicenseKeyTaken)
    number = executor.execute([create_policy()])[0].id
    retry = a_retry("generate", write=lambda outcome: b"%d" % len(outcome))
    assert len(executor.execute([generate(number, 3, idempotency=retry)])[0]) == 3
    assert executor.execute([generate(number, 3, idempotency=retry)])[0].body == b"3"


def test_of_one_license_only_so_much_is_kept_and_the_newest_stays(storage: Storage) -> None:
    """Responses for other licenses are kept, and so are those for callers with more than a license key."""

    def keep(owner: int, number: int, size: int) -> bytes:
        scope = sha256(f"{owner} {number}".encode()).digest()
        with storage.write() as tx:
            record = IdempotencyRecord(scope, 200, b"x" * size, owner)
            save = idempotency.save_idempotency_records
            save(tx, {scope: record}, {scope: NOW + timedelta(seconds=number)})
        return scope

    def kept(scopes: list[bytes]) -> list[bool]:
        with storage.write() as tx:
            found = idempotency.lock_idempotency_records(tx, scopes)
        return [one in found for one in scopes]

    own = [keep(-17, number, 972) for number in range(6)]
    others = [keep(owner, 0, 972) for owner in (0, 18)]
    with storage.write() as tx:
        idempotency.trim(tx, -17, 3_000)
        idempotency.trim(tx, 18, 3_000)
    assert kept(own) == [False] * 3 + [True] * 3
    assert kept(others) == [True, True]
    # Trimming happens automatically from time to time, sooner after a larger response.
    first = keep(-17, 10, 972)
    for number in range(11, 200):
        keep(-17, number, 2**20)
        if kept([first]) == [False]:
            break
    assert kept([first, *others]) == [False, True, True]
