"""Database access for payments, subscriptions, and the licenses that were sold."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import asdict
from sqlalchemy import BindParameter, Executable, Row, Table, bindparam, delete, exists, func, select, update

from keywright.db.bulk import bulk_insert, bulk_update, insert_or
from keywright.db.rows import to_datetime, to_optional_seconds
from keywright.db.schema import (
    connections,
    later_purchases,
    payments,
    sold_licenses,
    sold_lines,
    subscriptions,
)
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.licenses.model import order_of
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.provisioning.shops.model import Change, Fact, QuantityRule, RemovedSales, SaleState, Shop
from keywright.provisioning.shops.rules import Known
from keywright.provisioning.shops.sold_model import Payment, Snapshots, SoldLicense, SoldLine, Subscription

#: The largest number of payments of a subscription that count, the newest; and of licenses of one.
_MAX_PAYMENTS, MAX_SOLD = 400, 20_000
_decode_snapshots = msgspec.json.Decoder(Snapshots).decode
_decode_parts = msgspec.json.Decoder(dict[str, Snapshots]).decode
_decode_refs = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_ids = msgspec.json.Decoder(tuple[int, ...]).decode
_INSERT_SOLD = bulk_insert(sold_licenses)
_UPDATE_SOLD = bulk_update(
    sold_licenses,
    ["connection_id", "order_ref", "line", "number", "item"],
    [
        *("status", "expires_at", "terms_expire_at"),
        *("policy_id", "quantity", "has_grace", "is_over", "event_id"),
    ],
)
_OF: BindParameter[int] = bindparam("connection_id")
_REF: BindParameter[str] = bindparam("ref")
#: The licenses of an order, or of a subscription; payments and subscriptions by the shop's references.
_SOLD_BY = {
    name: select(sold_licenses)
    .where(sold_licenses.c.connection_id == _OF, sold_licenses.c[name] == _REF)
    .order_by(sold_licenses.c.license_id)
    .limit(MAX_SOLD)
    for name in ("order_ref", "subscription_ref")
}
_LINES_BY = {
    name: select(sold_lines).where(sold_lines.c.connection_id == _OF, sold_lines.c[name] == _REF)
    for name in ("order_ref", "subscription_ref")
}
_PAYMENT = select(payments).where(payments.c.connection_id == _OF, payments.c.order_ref == _REF)
_PAYMENTS = (
    select(payments)
    .where(payments.c.connection_id == _OF, payments.c.subscription_ref == _REF)
    # Sales are never left out, no matter how often they were renewed.
    .order_by(payments.c.snapshots.is_(None), payments.c.paid_at.desc())
    .limit(_MAX_PAYMENTS)
)
#: The next connection that has sold something, some of its licenses, and their number.
_NEXT = select(func.min(sold_licenses.c.connection_id)).where(
    sold_licenses.c.connection_id > bindparam("after")
)
_IS_SOLD = (sold_licenses.c.connection_id == bindparam("of"), sold_licenses.c.license_id > 0)
_SOME = select(sold_licenses.c.license_id).where(*_IS_SOLD).limit(20)
_COUNT = select(func.count()).select_from(sold_licenses).where(*_IS_SOLD)
_SUBSCRIPTION = select(subscriptions).where(
    subscriptions.c.connection_id == _OF, subscriptions.c.subscription_ref == _REF
)


def list_lines(
    tx: ReadTransaction, connection_id: int, order: str | None, subscription: str | None
) -> list[SoldLine]:
    """List the lines of an order, and of a subscription."""
    found: dict[tuple[str, str], SoldLine] = {}
    for name, ref in (("order_ref", order), ("subscription_ref", subscription)):
        if ref is not None:
            rows = tx.connection.execute(_LINES_BY[name], _of(connection_id, ref))
            found |= {(row.order_ref, row.line): _line_of(row) for row in rows}
    return list(found.values())


def list_sold(
    tx: ReadTransaction, connection_id: int, order: str | None, subscription: str | None
) -> list[SoldLicense]:
    """List the licenses of an order, and of a subscription; one without an ID marks a line without any."""
    found: dict[tuple[str, str, int, int], SoldLicense] = {}
    for name, ref in (("order_ref", order), ("subscription_ref", subscription)):
        if ref is not None:
            rows = tx.connection.execute(_SOLD_BY[name], _of(connection_id, ref))
            found |= {(row.order_ref, row.line, row.number, row.item): _sold_of(row) for row in rows}
    return list(found.values())


def list_sold_ids(tx: ReadTransaction, connection_id: int, change: Change) -> set[int]:
    """Return the IDs of the known licenses that a change is about."""
    order, subscription = getattr(change, "order", None), getattr(change, "subscription", None)
    if order is not None and subscription is None:
        subscription = find_subscription(tx, connection_id, order)
    elif subscription is not None:
        subscription = find_subscription(tx, connection_id, subscription) or subscription
    sold = list_sold(tx, connection_id, order, subscription)
    return {one.license_id for one in sold if one.license_id}


def find_subscription(tx: ReadTransaction, connection_id: int, order: str) -> str | None:
    """Find the subscription of an order; for a subscription named after an order, that of the order."""
    found: str | None = tx.first(_PAYMENT, lambda row: row.subscription_ref, **_of(connection_id, order))
    return found


def list_of_license(tx: ReadTransaction, license_id: int) -> list[tuple[int, SoldLicense]]:
    """List the reports of shops about a license, each with the ID of the connection."""
    query = select(sold_licenses).where(sold_licenses.c.license_id == license_id)
    return [(row.connection_id, _sold_of(row)) for row in tx.connection.execute(query)]


def list_removed(tx: ReadTransaction, shop: Shop) -> list[RemovedSales]:
    """List the sales of a shop's removed connections."""
    known = set(tx.connection.execute(select(connections.c.id)).scalars())
    found: list[RemovedSales] = []
    number = 0
    while number := tx.connection.execute(_NEXT, {"after": number}).scalar_one() or 0:
        if number not in known and _find_shop(tx, number) in (None, shop):
            found.append(RemovedSales(number, tx.connection.execute(_COUNT, {"of": number}).scalar_one()))
    return found


def _find_shop(tx: ReadTransaction, connection_id: int) -> str | None:
    """Return the shop of a removed connection, which its licenses name; None if it has none left."""
    some = set(tx.connection.execute(_SOME, {"of": connection_id}).scalars())
    orders = map(order_of, find_licenses_by_id(tx, some).values())
    return next((one.source.partition(":")[0] for one in orders), None)


def take_over(tx: WriteTransaction, removed_id: int, connection_id: int) -> int:
    """Move the rows of one connection to another, unless that has them, and delete the rest; return the
    number of licenses moved.
    """
    taken = 0
    for table in (subscriptions, payments, later_purchases, sold_lines, sold_licenses):
        own = table.alias()
        same = (own.c[one.name] == one for one in table.primary_key if one.name != "connection_id")
        is_known = exists().where(own.c.connection_id == connection_id, *same)
        is_moved = (table.c.connection_id == removed_id, ~is_known)
        if table is sold_licenses:
            licensed = select(func.count()).select_from(table).where(*is_moved, table.c.license_id > 0)
            taken = tx.connection.execute(licensed).scalar_one()
        tx.connection.execute(update(table).where(*is_moved).values(connection_id=connection_id))
        tx.connection.execute(delete(table).where(table.c.connection_id == removed_id))
    return taken


def save_lines(tx: WriteTransaction, connection_id: int, lines: Iterable[SoldLine]) -> None:
    """Insert or update lines."""
    for one in lines:
        values = {
            "connection_id": connection_id,
            "order_ref": one.order,
            "line": one.line,
            "subscription_ref": one.subscription,
            "listed_in": one.listed_in,
            "listed_as": one.listed_as,
            "refs": _to_json(one.refs),
            "policy_ids": _to_json(one.policy_ids),
            "rule": one.rule.value,
        }
        tx.connection.execute(_upsert(sold_lines, is_postgres=tx.is_postgres), values)


def save_new_sold(tx: WriteTransaction, connection_id: int, sold: Sequence[SoldLicense]) -> None:
    """Insert sold licenses."""
    rows = [
        {
            "connection_id": connection_id,
            "order_ref": one.order,
            "line": one.line,
            "number": one.number,
            "item": one.item,
            "license_id": one.license_id,
            "subscription_ref": one.subscription,
            **_state_columns(one),
        }
        for one in sold
    ]
    _INSERT_SOLD.execute(tx.connection, rows)


def save_sold(tx: WriteTransaction, connection_id: int, sold: Collection[SoldLicense]) -> None:
    """Update sold licenses with the shop's last reports."""
    rows = [
        {
            "where_connection_id": connection_id,
            "where_order_ref": one.order,
            "where_line": one.line,
            "where_number": one.number,
            "where_item": one.item,
            **_state_columns(one),
        }
        for one in sold
    ]
    _UPDATE_SOLD.execute(tx.connection, rows)


def _state_columns(one: SoldLicense) -> dict[str, Any]:
    return {
        "status": one.status,
        "expires_at": to_optional_seconds(one.expires_at),
        "terms_expire_at": to_optional_seconds(one.terms_expire_at),
        "policy_id": one.policy_id,
        "quantity": one.quantity,
        "has_grace": int(one.has_grace),
        "is_over": int(one.is_over),
        "event_id": one.event_id,
    }


def delete_unlicensed(tx: WriteTransaction, connection_id: int, order: str, line: str) -> None:
    """Delete the record that a line made no license."""
    column = sold_licenses.c
    is_line = (column.connection_id == connection_id, column.order_ref == order, column.line == line)
    tx.connection.execute(delete(sold_licenses).where(*is_line, column.license_id == 0))


def find_known(
    tx: ReadTransaction, connection_id: int, payment_ref: str | None, subscription_ref: str | None
) -> Known:
    """Find the known facts of a payment and of a subscription, by default the payment's."""
    payment = None
    if payment_ref is not None:
        payment = tx.first(_PAYMENT, _payment_of, **_of(connection_id, payment_ref))
    payments = {} if payment is None else {payment.order: payment}
    ref = subscription_ref or (None if payment is None else payment.subscription)
    if ref is None:
        return Known(payments)
    found = map(_payment_of, tx.connection.execute(_PAYMENTS, _of(connection_id, ref)))
    subscription = tx.first(
        _SUBSCRIPTION,
        _subscription_of,
        **_of(connection_id, ref),
    )
    return Known({one.order: one for one in found} | payments, subscription)


def save_known(tx: WriteTransaction, connection_id: int, before: Known, after: Known) -> None:
    """Insert or update the facts that have changed."""
    for ref, payment in after.payments.items():
        if payment != before.payments.get(ref):
            _save_payment(tx, connection_id, payment)
    if after.subscription is not None and after.subscription != before.subscription:
        _save_subscription(tx, connection_id, after.subscription)


def _of(connection_id: int, ref: str) -> Mapping[str, Any]:
    return {"connection_id": connection_id, "ref": ref}


def _save_payment(tx: WriteTransaction, connection_id: int, payment: Payment) -> None:
    values = asdict(payment) | {"until": to_optional_seconds(payment.until)}
    values |= {fact.value: values[fact.value].value for fact in Fact}
    values["order_ref"], values["subscription_ref"] = values.pop("order"), values.pop("subscription")
    values["is_proration"] = int(payment.is_proration)
    values["snapshots"] = _to_json(payment.snapshots) if payment.snapshots else None
    tx.connection.execute(
        _upsert(payments, is_postgres=tx.is_postgres), values | {"connection_id": connection_id}
    )


def _save_subscription(tx: WriteTransaction, connection_id: int, subscription: Subscription) -> None:
    values = {
        "connection_id": connection_id,
        "subscription_ref": subscription.ref,
        "state": subscription.state.value,
        "state_at": subscription.state_at,
        "ended_at": subscription.ended_at,
        "snapshots": _to_json(subscription.snapshots) if subscription.snapshots else None,
    }
    tx.connection.execute(_upsert(subscriptions, is_postgres=tx.is_postgres), values)


@cache
def _upsert(table: Table, *, is_postgres: bool) -> Executable:
    """Insert a row, or update the one with its primary key."""
    change, keys = insert_or(table, is_postgres=is_postgres), [*table.primary_key]
    changed = {one.name: change.excluded[one.name] for one in table.c if not one.primary_key}
    statement: Executable = change.on_conflict_do_update(index_elements=keys, set_=changed)
    return statement


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _payment_of(row: Row[Any]) -> Payment:
    return Payment(
        order=row.order_ref,
        subscription=row.subscription_ref,
        paid_at=row.paid_at,
        until=_moment(row.until),
        state=SaleState(row.state),
        state_at=row.state_at,
        refund=SaleState(row.refund),
        refund_at=row.refund_at,
        dispute=SaleState(row.dispute),
        dispute_at=row.dispute_at,
        is_proration=bool(row.is_proration),
        snapshots=() if row.snapshots is None else _decode_snapshots(row.snapshots),
    )


def _subscription_of(row: Row[Any]) -> Subscription:
    return Subscription(
        ref=row.subscription_ref,
        state=SaleState(row.state),
        state_at=row.state_at,
        ended_at=row.ended_at,
        snapshots={} if row.snapshots is None else _decode_parts(row.snapshots),
    )


def _line_of(row: Row[Any]) -> SoldLine:
    return SoldLine(
        order=row.order_ref,
        line=row.line,
        subscription=row.subscription_ref,
        listed_in=row.listed_in,
        listed_as=row.listed_as,
        refs=_decode_refs(row.refs),
        policy_ids=_decode_ids(row.policy_ids),
        rule=QuantityRule(row.rule),
    )


def _sold_of(row: Row[Any]) -> SoldLicense:
    return SoldLicense(
        order=row.order_ref,
        line=row.line,
        number=row.number,
        license_id=row.license_id,
        subscription=row.subscription_ref,
        status=row.status,
        expires_at=_moment(row.expires_at),
        terms_expire_at=_moment(row.terms_expire_at),
        item=row.item,
        policy_id=row.policy_id,
        quantity=row.quantity,
        has_grace=bool(row.has_grace),
        is_over=bool(row.is_over),
        event_id=row.event_id,
    )


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else to_datetime(seconds)
