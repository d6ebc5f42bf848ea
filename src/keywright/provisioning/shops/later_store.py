"""Database access for later purchases, for the nightly check of shops, and for erasing a customer.

An event belongs to a customer once its sale is done or its buyer is known. Other events may contain the
customer's address, too, such as an unreadable one, or a shop's event about a sign-up. These are found by
searching the payloads.
"""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Any
from urllib.parse import unquote_plus

import msgspec
from sqlalchemy import ColumnElement, Row, false, insert, or_, select, update

from keywright.db.rows import to_seconds
from keywright.db.schema import connections, later_purchases, payments, shop_events
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.licenses.keys import read_license_ref
from keywright.provisioning.customers import fold_email
from keywright.provisioning.shops import store
from keywright.provisioning.shops.model import Change, Does, EventState, Naming, Payload, Reason, Sale
from keywright.provisioning.shops.sold_model import LaterPurchase, LicenseBefore
from keywright.provisioning.shops.store import topics_to_text

#: The largest number of later purchases of a license that count.
_MAX_PURCHASES = 1_000
_decode_before = msgspec.json.Decoder(LicenseBefore).decode


def list_of_change(tx: ReadTransaction, connection_id: int, change: Change) -> list[LaterPurchase]:
    """List the later purchases of the order, and of the subscription, that a change is about."""
    order, subscription = getattr(change, "order", None), getattr(change, "subscription", None)
    column = later_purchases.c
    of_payment = select(payments.c.subscription_ref).where(
        payments.c.connection_id == connection_id, payments.c.order_ref == order
    )
    is_own = [] if order is None else [column.order_ref == order, column.subscription_ref.in_(of_payment)]
    is_own += [] if subscription is None else [column.subscription_ref == subscription]
    query = select(later_purchases).where(column.connection_id == connection_id, or_(false(), *is_own))
    rows = tx.connection.execute(query)
    return list(map(_purchase_of, rows))


def list_of_license(tx: ReadTransaction, license_id: int) -> list[LaterPurchase]:
    """List all later purchases for a license."""
    query = select(later_purchases).where(later_purchases.c.license_id == license_id)
    return list(map(_purchase_of, tx.connection.execute(query.limit(_MAX_PURCHASES))))


def list_ids(tx: ReadTransaction, connection_id: int, change: Change) -> set[int]:
    """Return the IDs of the licenses that the later purchases of a change are for."""
    lines = change.lines if isinstance(change, Sale) else ()
    named = {read_license_ref(tx.key_ring, one.license_ref) for one in lines if one.license_ref}
    known = {one.license_id for one in list_of_change(tx, connection_id, change)}
    return known | {one for one in named if one is not None}


def save_new(tx: WriteTransaction, purchase: LaterPurchase) -> None:
    """Insert a later purchase."""
    values = msgspec.structs.asdict(purchase)
    values |= {"order_ref": values.pop("order"), "subscription_ref": values.pop("subscription")}
    values |= {"does": purchase.does.value, "before": msgspec.json.encode(purchase.before).decode()}
    tx.connection.execute(insert(later_purchases).values(values))


def _purchase_of(row: Row[Any]) -> LaterPurchase:
    return LaterPurchase(
        connection_id=row.connection_id,
        order=row.order_ref,
        line=row.line,
        subscription=row.subscription_ref,
        license_id=row.license_id,
        does=Does(row.does),
        policy_id=row.policy_id,
        days=row.days,
        quantity=row.quantity,
        before=_decode_before(row.before),
    )


def claim_look(tx: WriteTransaction, connection_id: int, before: datetime, now: datetime) -> bool:
    """Record that the connection's shop is checked now, unless it was since ``before``. A time in the future
    was stored by a server whose clock was wrong, and is ignored.
    """
    looked_at = connections.c.looked_at
    is_due = or_(looked_at.is_(None), looked_at < to_seconds(before), looked_at > to_seconds(now))
    query = update(connections).where(connections.c.id == connection_id, is_due)
    return tx.connection.execute(query.values(looked_at=to_seconds(now))).rowcount == 1


def save_topics(tx: WriteTransaction, connection_id: int, topics: tuple[str, ...] | None) -> None:
    """Update the topics that the shop is not set up to send."""
    query = update(connections).where(connections.c.id == connection_id)
    tx.connection.execute(query.values(missing_topics=topics_to_text(topics)))


#: The largest number of payloads that one query reads.
_AT_ONCE = 200
_OVER = (EventState.DONE.value, EventState.IGNORED.value)
#: An escaped line break before an address is not part of it.
_ESCAPED = re.compile(r"\\+[nrt]")


def forget_customer(tx: WriteTransaction, customer_id: int) -> None:
    """Delete the payloads of a customer's events; events that still wait can no longer be applied."""
    _forget(tx, shop_events.c.customer_id == customer_id)


def forget_events(tx: WriteTransaction, event_ids: Collection[int]) -> None:
    """Delete the payloads of these events in the same way."""
    if event_ids:
        _forget(tx, shop_events.c.id.in_(event_ids))


def find_naming(tx: ReadTransaction, email: str, after_id: int) -> Naming:
    """Among the next events that belong to no customer, find those that contain this e-mail address."""
    column = shop_events.c
    query = select(column.id, column.sealed_payload).where(column.id > after_id, column.customer_id.is_(None))
    found = tx.connection.execute(query.order_by(column.id).limit(_AT_ONCE)).all()
    pattern = _pattern_of(email)
    naming = tuple(
        row.id
        for row in found
        if (payload := store.unseal_payload(tx, row.id, row.sealed_payload)) is not None
        and _is_in(payload, pattern)
    )
    return Naming(naming, found[-1].id if len(found) == _AT_ONCE else None)


def _forget(tx: WriteTransaction, which: ColumnElement[bool]) -> None:
    for row in tx.connection.execute(select(shop_events.c.id, shop_events.c.state).where(which)).all():
        store.forget_payload(tx, row.id)
        if row.state not in _OVER:
            store.save_outcome(tx, row.id, EventState.UNMATCHED, Reason.FORGOTTEN)


def _pattern_of(email: str) -> re.Pattern[str]:
    """Return a pattern for the address that does not match part of a longer one."""
    return re.compile(rf"(?<![\w.+-]){re.escape(fold_email(email))}(?![\w-]|\.\w)")


def _is_in(payload: Payload, pattern: re.Pattern[str]) -> bool:
    """Whether the body contains the address, in any case and with any escapes."""
    try:
        text = msgspec.json.encode(msgspec.json.decode(payload.body)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raw = payload.body.decode(errors="replace")
        text = f"{raw} {unquote_plus(raw)}"
    return pattern.search(_ESCAPED.sub(" ", fold_email(text))) is not None
