"""What a vendor has who sells: shops whose events were sold or wait, webhooks of which one fails, mails."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Context
from keywright.db import ReadTransaction, Storage, WriteTransaction, run_write
from keywright.delivery.mail import store as mail_store
from keywright.delivery.webhooks import store as webhook_store
from keywright.delivery.webhooks.commands import CreateEndpoint
from keywright.delivery.webhooks.fields import NewWebhook
from keywright.delivery.webhooks.model import Delivery, DisabledReason, Endpoint, State
from keywright.events.model import MailState, MailTemplate, QueuedMail
from keywright.events.outbox_store import queue_mail
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.shops import store as shop_store
from keywright.provisioning.shops.commands import AddConnection
from keywright.provisioning.shops.model import (
    Connection,
    EventState,
    MappedProduct,
    Payload,
    Reason,
    Shop,
    StoredEvent,
)
from keywright.registry import open_executor
from tests.connections import SECRET
from tests.makers import an_origin

_NOBODY = "550 5.1.1 <p…@example.com>: Recipient address rejected: User unknown in virtual mailbox table"


def fill_connected(storage: Storage) -> None:
    """Make all that."""
    now = datetime.now(UTC).replace(microsecond=0)
    asked: dict[str, Any] = {"context": Context(now, an_origin())}
    mapping = (MappedProduct("price_1PxYzLumenServerYearly", 1), MappedProduct("*", None))
    usual: dict[str, Any] = {"id": 0, "created_at": now, "updated_at": now}
    connections = [
        Connection(shop=Shop.STRIPE, name="Stripe, Europe", mapping=mapping, **usual),
        Connection(
            shop=Shop.GENERIC, name="Our own shop, and the resellers in the Nordic countries", **usual
        ),
    ]
    endpoint: dict[str, Any] = {
        "url": "https://crm.example.com/hooks/keywright?token=long-and-secret",
        "events": ["*"],
    }
    other: dict[str, Any] = {
        "url": "https://hooks.example.net/",
        "events": ["license.created", "license.expired", "order.*"],
    }
    done = open_executor(storage).execute(
        [
            CreateCustomer(
                **asked,
                fields=NewCustomer(
                    id=5_001, email="petra.lindqvist@larch-street-clinic.example", name="Petra"
                ),
            ),
            AddConnection(**asked, connection=connections[0], secret="whsec_of-the-shop"),
            AddConnection(**asked, connection=connections[1], secret=SECRET),
            CreateEndpoint(**asked, fields=NewWebhook(**other)),
            CreateEndpoint(**asked, fields=NewWebhook(**endpoint, description="The CRM")),
        ]
    )
    assert not [one for one in done if isinstance(one, Exception)], done
    endpoints = [one.endpoint for one in done[3:]]
    run_write(storage, lambda tx: _save_sales(tx, done[1].connection.id, now))
    run_write(storage, lambda tx: _save_deliveries(tx, endpoints, now))
    run_write(storage, lambda tx: _save_mails(tx, now))


def _save_sales(tx: WriteTransaction, connection_id: int, now: datetime) -> None:
    """One sold, one waiting for another attempt, and one for a decision."""
    states: list[tuple[EventState, Reason | None, str | None]] = [
        (EventState.DONE, None, None),
        (EventState.UNMATCHED, Reason.UNKNOWN_PRODUCT, "price_1PxYzSomethingElse: Lumen Studio, 3 seats"),
        (EventState.WAITING, None, "api.stripe.com did not answer within 20 seconds"),
    ]
    for number, (state, reason, detail) in enumerate(states):
        at = now - timedelta(hours=number)
        event = StoredEvent(
            id=0,
            connection_id=connection_id,
            event_id=f"evt_{number}",
            name="checkout.session.completed",
            order_ref=f"cs_live_a1LarchStreetClinic{number:024d}",
            state=state,
            reason=reason,
            detail=detail,
            happened_at=at,
            received_at=at,
            attempts=number,
            next_attempt_at=now + timedelta(days=1) if state is EventState.WAITING else None,
        )
        assert shop_store.save_new_event(tx, event, Payload({}, b"{}"))


def _save_deliveries(tx: WriteTransaction, endpoints: list[Endpoint], now: datetime) -> None:
    """One endpoint fails since yesterday, the other one is gone."""
    gone, failing = endpoints
    webhook_store.WEBHOOKS.update(tx, replace(failing, failing_at=now - timedelta(days=1)))
    reason = DisabledReason.GONE
    webhook_store.WEBHOOKS.update(tx, replace(gone, disabled_at=now, disabled_reason=reason))
    answers = [
        (State.DELIVERED, 200, "ok"),
        (State.GIVEN_UP, 500, "<html><body><h1>Internal Server Error</h1></body></html>" * 5),
        (State.WAITING, None, "the host did not answer within 10 seconds"),
    ]
    webhook_store.save_new_deliveries(
        tx,
        [
            Delivery(
                id=0,
                endpoint_id=failing.id,
                event_id=number,
                license_id=number,
                name="license.device_replaced",
                state=state,
                attempts=number,
                next_attempt_at=now + timedelta(hours=8) if state is State.WAITING else None,
                first_attempt_at=now - timedelta(days=1),
                last_attempt_at=now - timedelta(hours=1),
                duration_ms=12_345,
                status=status,
                answer=answer,
                created_at=now - timedelta(days=1),
                finished_at=None if state is State.WAITING else now,
            )
            for number, (state, status, answer) in enumerate(answers, 1)
        ],
    )


def _save_mails(tx: WriteTransaction, now: datetime) -> None:
    """One mail of each kind, in every state."""
    for template in MailTemplate:
        mail = QueuedMail(template=template, unique=f"a {template}", customer_id=5_001)
        assert queue_mail(tx, mail, now - timedelta(days=1))
    mails = _list_mails(tx)
    states = [MailState.FAILED, MailState.SENT, MailState.HELD, MailState.DROPPED]
    for mail, state in zip(mails, states, strict=False):
        error = _NOBODY if state is MailState.FAILED else None
        finished = None if state is MailState.HELD else now
        after = replace(
            mail, state=state, error=error, attempts=2, finished_at=finished, next_attempt_at=None
        )
        mail_store.save_mail(tx, after)


def _list_mails(tx: ReadTransaction) -> list[Any]:
    return list(mail_store.list_of_customer(tx, 5_001, limit=20))
