"""Statements about later purchases, which renew or upgrade a license."""

from typing import Any

import msgspec
from sqlalchemy import Row, false, insert, or_, select

from keywright.db.schema import later_purchases, payments
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.licenses.keys import read_license_ref
from keywright.provisioning.shops.model import Change, Does, Sale
from keywright.provisioning.shops.sold_model import LaterPurchase, LicenseBefore

#: The most later purchases of a license that count.
_MAX_PURCHASES = 1_000
_decode_before = msgspec.json.Decoder(LicenseBefore).decode


def list_of_change(tx: ReadTransaction, connection_id: int, change: Change) -> list[LaterPurchase]:
    """The later purchases of the order, and of the subscription, that a change is about."""
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
    """All later purchases for a license."""
    query = select(later_purchases).where(later_purchases.c.license_id == license_id)
    return list(map(_purchase_of, tx.connection.execute(query.limit(_MAX_PURCHASES))))


def list_ids(tx: ReadTransaction, connection_id: int, change: Change) -> set[int]:
    """The IDs of the licenses that later purchases of a change are for."""
    lines = change.lines if isinstance(change, Sale) else ()
    named = {read_license_ref(tx.key_ring, one.license_ref) for one in lines if one.license_ref}
    known = {one.license_id for one in list_of_change(tx, connection_id, change)}
    return known | {one for one in named if one is not None}


def save_new(tx: WriteTransaction, purchase: LaterPurchase) -> None:
    """Insert."""
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
