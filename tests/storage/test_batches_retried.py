"""A call that is sent again gets its first answer and has no second effect."""

from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.errors import IdempotencyKeyReused, LicenseKeyTaken, LimitReached
from keywright.db import Storage
from keywright.engine import idempotency
from keywright.engine.executor import Batches
from keywright.engine.idempotency import KeptAnswer
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import store as license_store
from tests.makers import (
    KEY,
    LATER,
    NOW,
    a_retry,
    activate,
    create,
    create_generator,
    deactivate_all,
    delete,
    forget_answers,
    generate,
)
from tests.storage.conftest import EVERY_ISOLATION, Opener

DATABASES = EVERY_ISOLATION


@pytest.fixture
def batches(batches: Batches) -> Batches:
    batches.change([create(limit=2)])
    return batches


def write_token(outcome: Any) -> bytes:
    assert isinstance(outcome, LicenseRecord)
    return outcome.activations[0].token.encode()


def once(name: str, digest: bytes = b"") -> dict[str, Any]:
    return {"retry": a_retry(name, digest, write=write_token)}


def counter(storage: Storage) -> int:
    with storage.read() as tx:
        return license_store.find_licenses(tx, [KEY])[KEY].times_activated


def test_a_repeated_call_gets_its_first_answer_and_takes_no_second_place(
    batches: Batches, storage: Storage
) -> None:
    (first,) = batches.change([activate(**once("call"))])
    token = first.activations[0].token
    for _ in range(3):
        (again,) = batches.change([activate(now=LATER, **once("call"))])
        assert again == KeptAnswer(a_retry("call").request_digest, 200, token.encode())
    assert counter(storage) == 1


def test_the_first_answer_is_kept_when_the_call_is_repeated_in_the_same_batch(
    batches: Batches, storage: Storage
) -> None:
    outcomes = batches.change([activate(**once("call")) for _ in range(100)])
    assert isinstance(outcomes[0], LicenseRecord)
    assert {one.body for one in outcomes[1:]} == {write_token(outcomes[0])}
    assert counter(storage) == 1


def test_the_first_answer_outlives_the_program(
    batches: Batches, storage: Storage, open_again: Opener
) -> None:
    (first,) = batches.change([activate(**once("call"))])
    storage.close()
    (again,) = Batches(open_again()).change([activate(**once("call"))])
    assert again.body == write_token(first)


def test_a_refusal_is_kept_too(batches: Batches) -> None:
    batches.change([activate(), activate()])
    assert isinstance(batches.change([activate(**once("call"))])[0], LimitReached)
    batches.change([deactivate_all()])
    (again,) = batches.change([activate(**once("call"))])
    assert (again.status, again.body) == (404, b"LimitReached")


def test_a_refusal_is_kept_only_for_callers_whose_refusals_are_kept(
    batches: Batches, storage: Storage
) -> None:
    by_stranger, by_api_key = replace(a_retry("stranger"), keeps_refusals=False), a_retry("api key")
    batches.change([activate("no", retry=by_stranger), activate("no", by=7, retry=by_api_key)])
    with storage.write() as tx:
        assert set(idempotency.lock_kept_answers(tx, [by_stranger.scope, by_api_key.scope])) == {
            by_api_key.scope
        }
    batches.change([create("no")])
    outcomes = batches.change([activate("no", retry=by_stranger), activate("no", by=7, retry=by_api_key)])
    assert [type(one) for one in outcomes] == [LicenseRecord, KeptAnswer]


def test_the_same_call_with_other_parameters_is_refused(batches: Batches, storage: Storage) -> None:
    batches.change([activate(**once("call", b"label=a"))])
    outcomes = batches.change([activate(**once("call", b"label=b")), activate(**once("call", b"label=a"))])
    assert [type(one) for one in outcomes] == [IdempotencyKeyReused, KeptAnswer]
    assert counter(storage) == 1


def test_different_calls_have_their_own_answers_beside_calls_without_one(
    batches: Batches, storage: Storage
) -> None:
    outcomes = batches.change([activate(**once("a")), activate(**once("b")), activate()])
    assert [type(one) for one in outcomes] == [LicenseRecord, LicenseRecord, LimitReached]
    again = batches.change([activate(**once("b")), activate(**once("a"))])
    assert [one.body for one in again] == [write_token(one) for one in outcomes[1::-1]]
    assert counter(storage) == 2


def test_the_answer_outlives_the_license(batches: Batches) -> None:
    (first,) = batches.change([activate(**once("call"))])
    batches.change([delete()])
    (again,) = batches.change([activate(**once("call"))])
    assert again.body == write_token(first)


def test_a_forgotten_call_is_a_new_one(batches: Batches, storage: Storage) -> None:
    batches.change([activate(**once("call"))])
    assert batches.change([forget_answers(NOW)]) == [0]
    batches.change([activate(**once("refused"), now=LATER), activate(**once("newer"), now=LATER)])
    assert batches.change([forget_answers(LATER)]) == [1]
    batches.change([deactivate_all()])
    assert isinstance(batches.change([activate(**once("call", b"other"))])[0], LicenseRecord)
    assert counter(storage) == 1


def test_when_even_the_newest_answer_is_old_the_clock_may_have_jumped_and_nothing_is_forgotten(
    batches: Batches,
) -> None:
    first, second = batches.change([activate(**once("call")), activate(**once("other"))])
    assert batches.change([forget_answers(LATER)]) == [None]
    again = batches.change([activate(**once("call")), activate(**once("other"))])
    assert [one.body for one in again] == [write_token(first), write_token(second)]


def test_every_changing_command_can_be_retried(batches: Batches) -> None:
    retry = a_retry("create", write=lambda outcome: outcome.license.key.encode())
    assert batches.change([create("new", retry=retry)])[0].license.key == "new"
    assert batches.change([create("new", retry=retry)])[0].body == b"new"
    assert isinstance(batches.change([create("new")])[0], LicenseKeyTaken)
    number = batches.change([create_generator()])[0].id
    retry = a_retry("generate", write=lambda outcome: b"%d" % len(outcome))
    assert len(batches.change([generate(number, 3, retry=retry)])[0]) == 3
    assert batches.change([generate(number, 3, retry=retry)])[0].body == b"3"
