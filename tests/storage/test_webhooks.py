"""Deliveries: none is omitted, those of a license are in order, and failed ones are retried."""

import json
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.command import Context
from keywright.core.crypto import KeyRing
from keywright.core.errors import NotFound, TooManyEndpoints
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import webhook_endpoints
from keywright.delivery.webhooks import rules, store
from keywright.delivery.webhooks.commands import (
    DeleteEndpoint,
    GetDelivery,
    GetSecrets,
    PurgeDeliveries,
    ResendDelivery,
    ResendSince,
    RotateSecret,
    SendTest,
    UpdateEndpoint,
)
from keywright.delivery.webhooks.fields import WebhookFields
from keywright.delivery.webhooks.model import Attempt, DisabledReason, Due, Payload, State
from keywright.engine.executor import Executor
from keywright.engine.queue import Item
from keywright.events import store as event_store
from keywright.maintenance.rotation import reseal
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.registry import open_executor
from tests.makers import (
    NOW,
    SECRET,
    activate,
    an_origin,
    create,
    create_endpoint,
    create_product,
    delete,
    find_items,
)
from tests.storage.conftest import Opener
from tests.storage.webhooks import deliver, do, find_endpoint, list_all, names, take_step

DATABASES = ("sqlite",)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def endpoint(executor: Executor) -> None:
    do(executor, create_endpoint())


def command(kind: Any, *, now: datetime = NOW, **fields: Any) -> Any:
    return kind(context=Context(now, an_origin()), endpoint_id=1, **fields)


def change(*, now: datetime = NOW, **fields: Any) -> UpdateEndpoint:
    return UpdateEndpoint(context=Context(now, an_origin()), id=1, fields=WebhookFields(**fields))


def fail(_: Due) -> int:
    return 500


def ask_for_quiet(one: Due) -> Attempt:
    return Attempt(one.delivery.id, 429, "slower", 5, retry_after_seconds=3600)


def test_every_event_is_delivered_once(executor: Executor, storage: Storage) -> None:
    for key in "ABC":
        do(executor, create(key))
    do(executor, activate("B"))
    seen = deliver(executor)
    expected = [*((n, "license.created") for n in (1, 2, 3)), (2, "license.activated")]
    assert names(seen) == expected
    assert deliver(executor) == []
    assert {one.state for one in list_all(storage)} == {State.DELIVERED}
    assert find_endpoint(storage).position == seen[-1].delivery.event_id


def test_events_from_before_the_endpoint_are_delivered_only_when_asked_for(
    executor: Executor,
) -> None:
    do(executor, create("A"))
    do(executor, create_endpoint("https://example.com/2"))
    assert deliver(executor, 2) == []
    assert names(deliver(executor, 1)) == [(1, "license.created")]
    do(executor, replace(command(ResendSince, since=NOW - DAY), endpoint_id=2))
    assert names(deliver(executor, 2)) == [(1, "license.created")]


def test_events_stay_in_the_log_while_enough_is_to_be_sent(executor: Executor, storage: Storage) -> None:
    for key in "ABC":
        do(executor, create(key))
    first = take_step(executor, limit=2)
    position = find_endpoint(storage).position
    do(executor, create("D"))
    taken = frozenset(one.delivery.id for one in first.due)
    second = take_step(executor, limit=1, in_flight=taken)
    assert (names([*first.due, *second.due]), find_endpoint(storage).position) == (
        [(1, "license.created"), (2, "license.created"), (3, "license.created")],
        position,
    )
    assert names(deliver(executor))[-1] == (4, "license.created")


def test_events_of_other_types_do_not_hold_up_those_that_are_wanted(executor: Executor) -> None:
    do(executor, create_endpoint("https://example.com/2", "license.deleted", "lease.*"))
    executor.execute([create(f"KEY-{number}") for number in range(250)])
    do(executor, delete("KEY-7"))
    assert names([*take_step(executor, 2).due]) == [(8, "license.deleted")]


def test_the_next_event_of_a_license_waits_for_the_one_before(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    do(executor, activate("A"))
    do(executor, create("B"))
    refusing = deliver(executor, receive=lambda one: 500 if one.delivery.license_id == 1 else 200)
    assert names(refusing) == [(1, "license.created"), (2, "license.created")]
    # An endpoint that accepts some is not failing.
    assert find_endpoint(storage).failing_at is None
    do(executor, activate("A"))
    do(executor, activate("B"))
    assert names(deliver(executor)) == [(2, "license.activated")]
    later = names(deliver(executor, now=NOW + timedelta(seconds=6)))
    assert later == [(1, "license.created"), (1, "license.activated"), (1, "license.activated")]


def test_few_requests_at_a_time_find_out_whether_an_endpoint_is_back(executor: Executor) -> None:
    executor.execute([create(f"KEY-{number}") for number in range(10)])
    failed = tuple(Attempt(one.delivery.id, 500, "", 5) for one in take_step(executor, limit=1).due)
    probes = take_step(executor, attempts=failed).due
    taken = frozenset(one.delivery.id for one in probes)
    assert (len(probes), take_step(executor, in_flight=taken).due) == (rules.PROBES, ())


def test_attempts_follow_the_schedule(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    now, pauses = NOW, []
    for _ in range(10):
        assert len(deliver(executor, now=now, receive=fail)) == 1
        following = list_all(storage)[0].next_attempt_at
        assert following is not None
        pauses.append((following - now).total_seconds())
        now = following
    wanted = [*(one.total_seconds() for one in rules.SCHEDULE), 86_400]
    assert all(one <= pause <= one * 1.1 + 1 for one, pause in zip(wanted, pauses, strict=True))
    assert list_all(storage)[0].attempts == 10


@pytest.mark.smoke
def test_after_five_days_of_failure_an_endpoint_is_disabled_and_goes_on_later(
    executor: Executor, storage: Storage
) -> None:
    do(executor, create("A"))
    do(executor, activate("A"))
    now = NOW
    while find_endpoint(storage).disabled_at is None:
        deliver(executor, now=now, receive=fail)
        now = max(now + HOUR, list_all(storage)[0].next_attempt_at or now)
        assert now < NOW + 8 * DAY
    endpoint = find_endpoint(storage)
    assert endpoint.disabled_reason is DisabledReason.FAILING
    assert endpoint.disabled_at is not None
    assert timedelta(days=5) <= endpoint.disabled_at - NOW <= timedelta(days=6)
    do(executor, create("B"))
    assert deliver(executor, now=now) == []
    do(executor, change(is_enabled=True, now=now + DAY))
    seen = names(deliver(executor, now=now + DAY))
    assert sorted(seen) == [(1, "license.activated"), (1, "license.created"), (2, "license.created")]
    assert seen.index((1, "license.created")) < seen.index((1, "license.activated"))
    assert find_endpoint(storage).failing_at is None


def test_one_delivery_that_is_never_taken_is_given_up_after_five_days(
    executor: Executor, storage: Storage
) -> None:
    do(executor, create("A"))
    do(executor, activate("A"))
    now = NOW
    while list_all(storage)[:1] == [] or list_all(storage)[0].state is State.WAITING:
        do(executor, create(f"K{now}"))
        deliver(
            executor,
            now=now,
            receive=lambda one: 400 if one.delivery.event_id == first_event(storage) else 200,
        )
        now += 4 * HOUR
        assert now < NOW + 8 * DAY
    assert list_all(storage)[0].state is State.GIVEN_UP
    assert find_endpoint(storage).disabled_at is None
    deliver(executor, now=now)
    assert {one.state for one in list_all(storage)[1:]} == {State.DELIVERED}


def first_event(storage: Storage) -> int:
    (first, *_) = run_read(
        storage, lambda tx: event_store.list_feed(tx, after_id=0, until_id=10**6, license_id=1, limit=1)
    )
    return first.id


def test_gone_disables_at_once(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    deliver(executor, receive=lambda _: 410)
    assert find_endpoint(storage).disabled_reason is DisabledReason.GONE
    assert list_all(storage)[0].state is State.WAITING


def test_only_2xx_is_success(executor: Executor, storage: Storage) -> None:
    statuses = [100, 199, 301, 302, 307, 400, 404, 500, None]
    executor.execute([create(f"KEY-{number}") for number in range(len(statuses))])
    deliver(executor, receive=lambda one: statuses[one.delivery.license_id - 1])
    assert [(one.state, one.status) for one in list_all(storage)] == [
        (State.WAITING, status) for status in statuses
    ]


def test_retry_after_makes_the_whole_endpoint_pause(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    assert len(deliver(executor, receive=ask_for_quiet)) == 1
    do(executor, create("B"))
    assert deliver(executor, now=NOW + timedelta(minutes=59)) == []
    assert len(deliver(executor, now=NOW + timedelta(minutes=61))) == 2


def test_after_an_outage_everything_that_waits_is_sent_at_once(executor: Executor, storage: Storage) -> None:
    for key in "ABC":
        do(executor, create(key))
    for pause in (0, 6, 400, 3000):
        deliver(executor, now=NOW + timedelta(seconds=pause), receive=fail)
    do(executor, create("D"))
    seen = deliver(executor, now=NOW + timedelta(seconds=3010))
    assert sorted(one.delivery.license_id for one in seen) == [1, 2, 3, 4]


def test_a_dead_endpoint_keeps_its_place_in_the_log_and_few_rows(
    executor: Executor, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "MAX_WAITING", 5)
    executor.execute([create(f"K{n}") for n in range(4)])
    assert len(deliver(executor, receive=fail)) == 4
    executor.execute([create(f"L{n}") for n in range(4)])
    assert deliver(executor, receive=fail) == []
    assert len(list_all(storage)) == 4
    seen = deliver(executor, now=NOW + timedelta(minutes=6))
    seen += deliver(executor, now=NOW + timedelta(minutes=6))
    assert len({one for one, _ in names(seen)}) == len(seen) == 8


def test_an_endpoint_of_one_product_is_told_of_that_alone(executor: Executor) -> None:
    do(executor, create_product(5))
    do(executor, create_endpoint("https://example.com/2", "*", product_id=5))
    do(executor, create("A", product_id=5))
    do(executor, create("B", product_id=6))
    assert names(deliver(executor, 2)) == [(1, "license.created")]
    do(executor, delete("A"))
    assert names(deliver(executor, 2)) == [(1, "license.deleted")]


def test_what_concerns_other_products_holds_an_endpoint_up_for_one_step_only(executor: Executor) -> None:
    do(executor, create_product(5))
    do(executor, create_endpoint("https://example.com/2", "*", product_id=5))
    executor.execute([create(f"{number}", product_id=5 + (number % 100 > 0)) for number in range(950)])
    assert len(take_step(executor, 2).due) == 10
    executor.execute([create(f"own {number}", product_id=5) for number in range(990)])
    assert len(deliver(executor, 2)) == 1_000


def test_a_test_is_sent_to_the_tested_endpoint_alone(executor: Executor) -> None:
    do(executor, create_endpoint("https://example.com/2", "*"))
    do(executor, command(SendTest))
    assert names(deliver(executor, 1)) == [(0, "webhook.tested")]
    assert (0, "webhook.tested") not in names(deliver(executor, 2))


def test_a_delivery_is_sent_again_on_its_own(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    (first,) = deliver(executor)
    do(executor, command(ResendDelivery, delivery_id=first.delivery.id))
    (again,) = deliver(executor)
    assert again.delivery.message_id == first.delivery.message_id
    assert len(list_all(storage)) == 1
    unknown = executor.execute([command(ResendDelivery, delivery_id=99)])
    assert isinstance(unknown[0], NotFound)


def test_events_since_a_moment_are_sent_again_in_their_order(executor: Executor) -> None:
    do(executor, create("A"))
    do(executor, create("B", now=NOW + HOUR))
    do(executor, activate("B", now=NOW + HOUR))
    assert len(deliver(executor)) == 3
    do(executor, command(ResendSince, since=NOW + HOUR))
    assert names(deliver(executor)) == [(2, "license.created"), (2, "license.activated")]
    do(executor, command(ResendSince, since=NOW - 40 * DAY))
    assert len(deliver(executor)) == 3


def test_events_older_than_thirty_days_are_left_out(executor: Executor) -> None:
    do(executor, create("A"))
    do(executor, change(is_enabled=False))
    do(executor, create("B", now=NOW + 10 * DAY))
    do(executor, change(is_enabled=True, now=NOW + 35 * DAY))
    assert names(deliver(executor, now=NOW + 35 * DAY)) == [(2, "license.created")]


def test_events_are_as_old_as_the_newest_one_says(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    run_write(storage, lambda tx: tx.connection.execute(webhook_endpoints.update().values(position_at=0)))
    assert names([*take_step(executor, now=NOW + 400 * DAY).due]) == [(1, "license.created")]


def test_an_event_of_a_clock_that_was_behind_is_delivered(executor: Executor) -> None:
    do(executor, create("A", now=NOW - 400 * DAY))
    do(executor, create("B"))
    assert len(deliver(executor)) == 2


def test_what_a_clock_that_was_ahead_has_put_off_is_sent(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    assert len(deliver(executor, now=NOW + 400 * DAY, receive=ask_for_quiet)) == 1
    assert find_items(storage, store.ENDPOINTS) != []
    assert len(deliver(executor, receive=fail)) == 1
    assert find_endpoint(storage).failing_at == NOW
    assert list_all(storage)[0].first_attempt_at == NOW


def test_deliveries_are_deleted_when_they_are_old(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    deliver(executor)
    purge = PurgeDeliveries(context=Context(NOW, an_origin()), before=NOW)
    assert do(executor, purge) == 0
    assert do(executor, replace(purge, before=NOW + DAY)) == 1
    assert list_all(storage) == []


@pytest.mark.smoke
def test_a_deleted_endpoint_takes_its_deliveries_with_it(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    deliver(executor, receive=fail)
    do(executor, DeleteEndpoint(context=Context(NOW, an_origin()), id=1))
    purge = PurgeDeliveries(context=Context(NOW, an_origin()), before=NOW)
    assert [do(executor, purge) for _ in range(2)] == [1, 0]


def test_there_is_a_highest_number_of_endpoints(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_ENDPOINTS", 1)
    (outcome,) = executor.execute([create_endpoint()])
    assert isinstance(outcome, TooManyEndpoints)


# --- secrets --------------------------------------------------------------------------------------


def secrets(executor: Executor, now: datetime = NOW) -> list[str]:
    (found,) = executor.query([GetSecrets(endpoint_id=1, now=now)])
    assert isinstance(found, list), found
    return found


def test_both_secrets_are_good_for_a_day_after_a_rotation(executor: Executor) -> None:
    (first,) = secrets(executor)
    second = do(executor, command(RotateSecret)).secret
    assert secrets(executor) == [second, first]
    assert secrets(executor, NOW + DAY - timedelta(seconds=1)) == [second, first]
    assert secrets(executor, NOW + DAY) == [second]
    third = do(executor, command(RotateSecret)).secret
    assert secrets(executor) == [third, second]
    do(executor, create("A"))
    assert take_step(executor).secrets == (third, second)


def test_secrets_are_resealed_with_a_new_secret(
    executor: Executor, storage: Storage, open_again: Opener
) -> None:
    before = secrets(executor)
    rotated = KeyRing(b"another secret of the installation", SECRET)
    with closing(open_again(rotated)) as during:
        reseal(during, lambda _: None)
        with closing(open_executor(during)) as other:
            assert secrets(other) == before


# --- several processes ----------------------------------------------------------------------------


def the_item(storage: Storage) -> Item:
    (item,) = find_items(storage, store.ENDPOINTS, NOW + HOUR)
    return item


@pytest.mark.smoke
def test_one_process_at_a_time_works_on_an_endpoint(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    free = the_item(storage)
    step = take_step(executor, claimed_by="one", item=free)
    assert len(step.due) == 1
    assert take_step(executor, claimed_by="two", item=free).is_over
    # The other process has seen that the claim expired, and starts the deliveries again.
    held = the_item(storage)
    assert held.claimed_by == "one"
    (due,) = take_step(executor, claimed_by="two", item=held).due
    late = Attempt(due.delivery.id, 200, "ok", 5)
    assert take_step(executor, claimed_by="one", item=free, attempts=(late,)).is_over
    assert list_all(storage)[0].state is State.WAITING


def test_what_is_on_its_way_is_not_sent_twice(executor: Executor) -> None:
    do(executor, create("A"))
    (due,) = take_step(executor).due
    in_flight = frozenset({due.delivery.id})
    assert take_step(executor, in_flight=in_flight).due == ()
    assert take_step(executor, in_flight=in_flight, limit=0, is_last=True).due == ()


# --- what is seen, and forgotten ------------------------------------------------------------------


@pytest.mark.smoke
def test_a_delivery_is_shown_with_its_body(executor: Executor) -> None:
    do(executor, create("A"))
    (due,) = deliver(executor)
    shown = GetDelivery(endpoint_id=1, delivery_id=due.delivery.id, now=NOW)
    delivery, body = executor.query([shown])[0]
    assert (delivery.status, delivery.answer, delivery.duration_ms) == (200, "ok", 5)
    assert b'"type":"license.created"' in body


def test_the_customer_is_in_deliveries_that_may_have_addresses(executor: Executor) -> None:
    do(executor, change(payload=Payload.WITH_EMAIL))
    do(executor, create_endpoint("https://example.com/others"))
    ada: dict[str, Any] = {"id": 7, "external_id": "crm 7", "email": "ada@example.com", "name": "Ada"}
    do(executor, CreateCustomer(context=Context(NOW, an_origin()), fields=NewCustomer(**ada)))
    do(executor, create("A", customer_id=7))
    for endpoint_id, customer in ((1, ada), (2, None)):
        (due,) = deliver(executor, endpoint_id)
        shown = GetDelivery(endpoint_id=endpoint_id, delivery_id=due.delivery.id, now=NOW)
        told = json.loads(executor.query([shown])[0][1])["data"]["license"]
        assert (told["customer_id"], told["customer"], due.license) == (
            7,
            customer,
            told | {"expires_at": None},
        )


def test_a_delivery_whose_event_is_gone_is_given_up(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    (due,) = take_step(executor).due
    hopeless = Attempt(due.delivery.id, None, "the event is kept no longer", 0, is_hopeless=True)
    take_step(executor, attempts=(hopeless,))
    assert list_all(storage)[0].state is State.GIVEN_UP
    assert find_endpoint(storage).failing_at is None


def test_changes_of_endpoints_are_events_without_the_path_of_the_url(
    executor: Executor, storage: Storage
) -> None:
    do(executor, change(url="https://example.com/s3cret", payload=Payload.THIN))
    do(executor, command(RotateSecret))
    happened = run_read(storage, lambda tx: event_store.list_events(tx, 0, limit=9))
    assert [one.name for one in happened] == ["webhook.secret_rotated", "webhook.updated", "webhook.created"]
    details = happened[1].details or {}
    assert details["payload"] == ["full", "thin"]
    assert "s3cret" not in repr(details)
