"""The doctor warns about what does not get in or out, and says what to do."""

from datetime import datetime, timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from keywright.db import Storage, run_read, run_write
from keywright.delivery.mail import store as mail_store
from keywright.delivery.mail import template_store
from keywright.delivery.mail.letters import MailSettings
from keywright.delivery.mail.model import OwnTemplate
from keywright.delivery.mail.template_check import list_unusable
from keywright.delivery.webhooks import store as webhook_store
from keywright.delivery.webhooks.commands import CreateEndpoint
from keywright.delivery.webhooks.model import Delivery, DisabledReason, Endpoint, State
from keywright.engine.executor import Executor
from keywright.events.outbox.model import MailState, MailTemplate, QueuedMail
from keywright.events.outbox.store import queue_mail
from keywright.maintenance import stuck
from keywright.provisioning.shops import store as shop_store
from keywright.provisioning.shops.model import EventState, Payload, Reason, StoredEvent
from tests.connections import CONTEXT, connect, do
from tests.makers import NOW, create_policy

LATER = NOW + timedelta(hours=7)


def sell(executor: Executor) -> None:
    """Connect a shop, whose products have a policy."""
    do(executor, create_policy())
    connect(executor)


def keep_event(storage: Storage, number: int, state: EventState, detail: str) -> None:
    event = StoredEvent(
        id=0,
        connection_id=1,
        event_id=str(number),
        name="sale",
        order_ref=None,
        state=state,
        reason=Reason.UNKNOWN_PRODUCT if state is EventState.UNMATCHED else None,
        detail=detail,
        happened_at=NOW,
        received_at=NOW,
        attempts=1,
        next_attempt_at=LATER if state is EventState.WAITING else None,
    )
    run_write(storage, lambda tx: shop_store.save_new_event(tx, event, Payload({}, b"{}")))


def queue(storage: Storage, unique: str, state: MailState = MailState.WAITING, error: str = "") -> None:
    mail = QueuedMail(template=MailTemplate.EXPIRED, unique=unique, customer_id=7)
    run_write(storage, lambda tx: queue_mail(tx, mail, NOW))
    [queued, *_] = run_read(storage, lambda tx: mail_store.list_of_customer(tx, 7, limit=1))
    is_over = state is MailState.FAILED
    after = replace(queued, state=state, error=error or None, finished_at=NOW if is_over else None)
    run_write(storage, lambda tx: mail_store.save_mail(tx, after))


def make_endpoint(storage: Storage, executor: Executor, **fields: object) -> Endpoint:
    command = CreateEndpoint(context=CONTEXT, url="https://crm.example.com/hooks?token=secret", events=("*",))
    endpoint: Endpoint = replace(do(executor, command).endpoint, **fields)
    run_write(storage, lambda tx: webhook_store.save_endpoint(tx, endpoint))
    return endpoint


def warn_of_mails(
    storage: Storage, now: datetime, *, has_server: bool = True, has_address: bool = True
) -> list[str]:
    return run_read(
        storage,
        lambda tx: [*stuck.list_mail_warnings(tx, now, has_server=has_server, has_address=has_address)],
    )


def warn_of_webhooks(storage: Storage, most: int = 10_000) -> list[str]:
    return run_read(storage, lambda tx: [*stuck.list_webhook_warnings(tx, LATER, max_waiting=most)])


def test_where_all_gets_through_there_is_nothing_to_say(storage: Storage, executor: Executor) -> None:
    sell(executor)
    make_endpoint(storage, executor, failing_at=LATER - timedelta(hours=1))
    make_endpoint(storage, executor, disabled_at=NOW, disabled_reason=DisabledReason.BY_HAND)
    queue(storage, "a moment ago")
    shops = run_read(storage, lambda tx: [*stuck.list_shop_warnings(tx, LATER)])
    mails = run_read(
        storage, lambda tx: [*stuck.list_mail_warnings(tx, NOW, has_server=True, has_address=True)]
    )
    assert (shops, mails, warn_of_webhooks(storage)) == ([], [], [])


def test_sales_that_wait_are_named_by_their_connection(storage: Storage, executor: Executor) -> None:
    sell(executor)
    connect(executor, name="Empty", mapping=())
    keep_event(storage, 1, EventState.UNMATCHED, "no such product")
    keep_event(storage, 2, EventState.UNMATCHED, "no such product")
    keep_event(storage, 3, EventState.WAITING, "the shop did not\nanswer")
    keep_event(storage, 4, EventState.DONE, "")
    unmatched, late, empty = run_read(storage, lambda tx: [*stuck.list_shop_warnings(tx, LATER)])
    assert unmatched.startswith(
        "events of the connection 1 (Our shop) that could not be handled: 2, the first of 2026-01-15 12:30:45"
    )
    assert "`keywright connection events 1 --state unmatched`" in unmatched
    assert late.startswith(
        "events of the connection 1 (Our shop) that wait for another attempt: 1, the first"
    )
    assert "with “the shop did not answer”" in late
    assert empty.startswith("the connection 2 (Empty) makes no license: its mapping is empty.")


def test_mails_that_are_not_sent_are_named_with_the_reason(storage: Storage) -> None:
    queue(storage, "one", error="451 try later")
    queue(storage, "two", MailState.HELD)
    queue(storage, "three", MailState.FAILED, "550 no such user")

    def warn(*, has_server: bool) -> list[str]:
        return run_read(
            storage,
            lambda tx: [*stuck.list_mail_warnings(tx, LATER, has_server=has_server, has_address=True)],
        )

    late, held, failed = warn_of_mails(storage, LATER)
    assert late.startswith(
        "mails that wait: 1, the first since 2026-01-15 12:30:45 UTC, with “451 try later”."
    )
    assert held.startswith("mails that are held since a backup was restored: 1.")
    assert failed.startswith("mails that were given up in the last seven days: 1, with “550 no such user”.")
    assert "no mail server is set. Set smtp_url" in warn_of_mails(storage, LATER, has_server=False)[0]


def test_a_template_that_cannot_be_used_is_named(storage: Storage) -> None:
    good = OwnTemplate(
        name=MailTemplate.EXPIRED,
        product_id=0,
        language="en",
        subject="Hello",
        text="Hello {{ vendor }}",
        html="",
        updated_at=NOW,
        updated_by=None,
    )
    bad = replace(good, product_id=7, language="de", text="Hallo {{ vendr }}")
    for one in (good, bad):
        run_write(storage, partial(template_store.save_template, template=one))
    [warning] = run_read(storage, lambda tx: list_unusable(tx, MailSettings("Larch", None, "en"), NOW))
    assert warning.startswith("your mail template expired (de, product 7) cannot be used: ")
    assert "vendr" in warning


@pytest.mark.parametrize("reason", [DisabledReason.GONE, DisabledReason.FAILING])
def test_a_webhook_that_was_disabled_by_itself_is_named(
    storage: Storage, executor: Executor, reason: DisabledReason
) -> None:
    make_endpoint(storage, executor, disabled_at=NOW, disabled_reason=reason)
    [warning] = warn_of_webhooks(storage)
    assert warning.startswith("the webhook 1 (crm.example.com) was disabled at 2026-01-15 12:30:45 UTC")
    assert "secret" not in warning


def test_a_webhook_that_is_failing_behind_or_full_is_named(storage: Storage, executor: Executor) -> None:
    endpoint = make_endpoint(storage, executor)
    delivery = Delivery(
        id=0,
        endpoint_id=endpoint.id,
        event_id=1,
        license_id=0,
        name="license.created",
        state=State.WAITING,
        attempts=3,
        next_attempt_at=LATER,
        first_attempt_at=NOW,
        last_attempt_at=NOW,
        duration_ms=1,
        status=500,
        answer="<h1>Oh\nno</h1>",
        created_at=NOW,
        finished_at=None,
    )
    new = [delivery, replace(delivery, event_id=2)]
    run_write(storage, lambda tx: webhook_store.save_new_deliveries(tx, new))
    [behind] = warn_of_webhooks(storage)
    assert behind.startswith(
        "the webhook 1 (crm.example.com) is behind; deliveries that wait: 2, the first since 2026-01-15"
    )
    run_write(storage, lambda tx: webhook_store.save_endpoint(tx, replace(endpoint, failing_at=NOW)))
    failing, full = warn_of_webhooks(storage, most=2)
    assert "has taken nothing since 2026-01-15 12:30:45 UTC, with “<h1>Oh no</h1>”" in failing
    assert full.startswith("the webhook 1 (crm.example.com) has as many deliveries waiting as may;")
