"""Connections to shops, and events that they send, for tests."""

import base64
import json
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from keywright.core.command import Context
from keywright.core.errors import KeywrightError
from keywright.core.standard_webhooks import sign
from keywright.engine.executor import Executor
from keywright.provisioning.shops.commands import (
    AddConnection,
    FindSoldLicenses,
    OpenShopEvent,
    StoreShopEvent,
    WorkShopEvent,
)
from keywright.provisioning.shops.model import (
    Buyer,
    Change,
    Connection,
    MappedProduct,
    OpenedConnection,
    Renewal,
    Sale,
    SaleLine,
    SaleState,
    Shop,
    ShopEvent,
    StateChange,
)
from keywright.provisioning.shops.outcome_rules import Outcome
from keywright.provisioning.shops.payloads import payload_of
from keywright.provisioning.shops.selling import Unfinished
from tests.makers import NOW, an_origin

SECRET = "whsec_" + base64.b64encode(b"for tests only, of 24 bytes").decode()
BUYER = Buyer("ada@example.com", "Ada", "de")
CONTEXT = Context(NOW, an_origin())


def do(executor: Executor, command: Any) -> Any:
    """The outcome's value; an error is raised."""
    (outcome,) = executor.execute([command])
    if isinstance(outcome, KeywrightError):
        raise outcome
    return outcome


def ask(executor: Executor, query: Any) -> Any:
    (outcome,) = executor.query([query])
    if isinstance(outcome, KeywrightError):
        raise outcome
    return outcome


def a_connection(**fields: Any) -> Connection:
    usual: dict[str, Any] = {
        "id": 0,
        "shop": Shop.GENERIC,
        "name": "Our shop",
        "mapping": (MappedProduct("pro", 1),),
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Connection(**usual | fields)


def connect(executor: Executor, **fields: Any) -> OpenedConnection:
    secret = SECRET if fields.get("shop", Shop.GENERIC) is Shop.GENERIC else "for-tests-only"
    command = AddConnection(context=CONTEXT, connection=a_connection(**fields), secret=secret)
    opened: OpenedConnection = do(executor, command)
    return opened


def a_sale(order: str = "1001", quantity: int = 1, product: str = "pro", **fields: Any) -> Sale:
    lines = (SaleLine("1", (product,), quantity, "Pro"),)
    usual: dict[str, Any] = {"order": order, "lines": lines, "buyer": BUYER}
    return Sale(**usual | fields)


def a_renewal(until: datetime, subscription: str = "sub-1", order: str | None = None) -> Renewal:
    return Renewal(subscription=subscription, until=until, order=order)


def a_state(state: SaleState, order: str | None = None, subscription: str | None = None) -> StateChange:
    return StateChange(state=state, order=order, subscription=subscription)


def an_event(change: Change, hours: float = 0, **fields: Any) -> ShopEvent:
    usual: dict[str, Any] = {
        "id": secrets.token_hex(8),
        "name": "test",
        "at": NOW + timedelta(hours=hours),
        "change": change,
    }
    return ShopEvent(**usual | fields)


def store(executor: Executor, event: ShopEvent, connection_id: int = 1, *, now: datetime = NOW) -> int | None:
    """Keep an event; returns its ID, None for one that is kept."""
    command = StoreShopEvent(
        context=Context(now, an_origin()),
        connection_id=connection_id,
        event_id=event.id,
        event=event,
        payload=payload_of(event),
        next_attempt_at=NOW,
    )
    row_id: int | None = do(executor, command)
    return row_id


def work(executor: Executor, row_id: int) -> Outcome | None:
    """Do what a stored event says, as a server does."""
    opened = ask(executor, OpenShopEvent(event_id=row_id))
    event, notes = payload_event(opened), dict[str, int]()
    while True:
        find = FindSoldLicenses(connection_id=opened.stored.connection_id, event=event)
        command = WorkShopEvent(
            context=CONTEXT,
            event_id=row_id,
            connection_id=opened.stored.connection_id,
            event=event,
            license_ids=ask(executor, find),
            notes=notes,
        )
        outcome: Outcome | Unfinished | None = do(executor, command)
        if not isinstance(outcome, Unfinished):
            return outcome
        notes |= outcome.notes


def payload_event(opened: Any) -> ShopEvent:
    from keywright.provisioning.shops.payloads import read_payload

    return read_payload(opened.payload, opened.opened.connection, opened.stored.event_id)


def receive(
    executor: Executor, change: Change, hours: float = 0, *, connection_id: int = 1, **fields: Any
) -> Outcome | None:
    """Keep an event and do what it says; None for one that was kept and done before."""
    row_id = store(executor, an_event(change, hours, **fields), connection_id)
    return None if row_id is None else work(executor, row_id)


def receive_all(executor: Executor, events: Iterable[ShopEvent], connection_id: int = 1) -> None:
    for event in events:
        row_id = store(executor, event, connection_id)
        if row_id is not None:
            work(executor, row_id)


# --- over HTTP ------------------------------------------------------------------------------------


def a_body(kind: str, at: datetime, **contents: Any) -> bytes:
    return json.dumps({"type": kind, "timestamp": at.isoformat(), "data": contents}).encode()


def a_paid_order(order: str, at: datetime, quantity: int = 1, **fields: Any) -> bytes:
    contents = {
        "order": order,
        "customer": {"email": "ada@example.com", "name": "Ada"},
        "lines": [{"product": "pro", "quantity": quantity}],
    }
    return a_body("order.paid", at, **contents | fields)


def signed(body: bytes, at: datetime, message_id: str, secret: str = SECRET) -> dict[str, str]:
    """The headers of an event of the generic shop."""
    seconds = int(at.timestamp())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": sign(message_id, seconds, body, [secret]),
        "content-type": "application/json",
    }
