"""Database access for claims and transfers."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, and_, delete, exists, func, or_, select, update

from keywright.db.bulk import Lookup, insert_or
from keywright.db.rows import to_columns, to_datetime, to_seconds, with_datetimes
from keywright.db.schema import (
    customers,
    deleted_licenses,
    job_licenses,
    later_purchases,
    license_claims,
    license_transfers,
    licenses,
    shop_events,
    sold_licenses,
    subscriptions,
)
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.ownership.model import Claim, ClaimCounts, CountClaims, Transfer
from keywright.provisioning.ownership.rules import Past

#: The largest number of transfers of a license, and of offers to a customer, that are listed.
MAX_LISTED = 100
_COLUMNS = license_transfers.c
_TRANSFER = [_COLUMNS[name] for name in Transfer.__struct_fields__]
_ACCEPTED = (_COLUMNS.accepted_at.is_not(None), _COLUMNS.undone_at.is_(None))
_IS_OPEN = (_COLUMNS.accepted_at.is_(None), _COLUMNS.ended_at.is_(None))
#: The first owners of transferred licenses.
_OWNERS = Lookup(
    select(_COLUMNS.id, _COLUMNS.license_id, _COLUMNS.from_customer_id).where(*_ACCEPTED),
    _COLUMNS.license_id,
)
#: A customer who was made for an offer is at most this much older than it, in seconds.
_AT_ONCE = 60
#: The states of a subscription that is over.
_OVER = ("ended", "refunded")


def find_claim(tx: ReadTransaction, license_id: int) -> Claim | None:
    """Return the license's last claim."""
    query = select(license_claims).where(license_claims.c.license_id == license_id)
    return tx.first(query, lambda row: Claim(**with_datetimes(row)))


def save_claim(tx: WriteTransaction, claim: Claim) -> None:
    """Insert a claim, or replace an earlier one."""
    insert_one = insert_or(license_claims, is_postgres=tx.is_postgres)
    values = to_columns(claim) | {"license_id": claim.license_id}
    changed = {name: one for name, one in values.items() if name != "license_id"}
    tx.connection.execute(
        insert_one.values(values).on_conflict_do_update(index_elements=["license_id"], set_=changed)
    )


def find_past(tx: ReadTransaction, license_id: int) -> Past:
    """Find the facts that decide whether the license may be transferred."""
    accepted = select(_COLUMNS.accepted_at).where(_COLUMNS.license_id == license_id, *_ACCEPTED)
    moments = [to_datetime(one) for one in tx.connection.execute(accepted).scalars()]
    has_subscription = or_(*(_runs(table, license_id) for table in (sold_licenses, later_purchases)))
    runs = bool(tx.connection.execute(select(has_subscription)).scalar_one())
    return Past(find_claim(tx, license_id), moments, runs)


def _runs(table: Any, license_id: int) -> Any:
    """Build the condition that a subscription that is not over pays for the license."""
    is_its = (
        subscriptions.c.connection_id == table.c.connection_id,
        subscriptions.c.subscription_ref == table.c.subscription_ref,
        subscriptions.c.state.in_(_OVER),
    )
    is_over = exists(select(subscriptions.c.state).where(*is_its).correlate(table))
    is_sold = and_(table.c.license_id == license_id, table.c.subscription_ref.is_not(None))
    still = [table.c.is_over == 0] if "is_over" in table.c else []
    return exists(select(table.c.license_id).where(is_sold, ~is_over, *still))


def find_transfer(tx: ReadTransaction, license_id: int, transfer_id: int) -> Transfer | None:
    """Find a transfer of this license."""
    query = select(*_TRANSFER).where(_COLUMNS.id == transfer_id, _COLUMNS.license_id == license_id)
    return tx.first(query, _transfer_of)


def list_transfers(tx: ReadTransaction, license_id: int) -> list[Transfer]:
    """List the latest transfers of a license, newest first."""
    return _list(tx, select(*_TRANSFER).where(_COLUMNS.license_id == license_id))


def list_offered_to(tx: ReadTransaction, customer_id: int, now: datetime) -> list[Transfer]:
    """List the offers to a customer that are valid now."""
    is_good = (_COLUMNS.to_customer_id == customer_id, *_IS_OPEN, _COLUMNS.expires_at > to_seconds(now))
    is_owned = licenses.c.customer_id == _COLUMNS.from_customer_id
    own = license_transfers.join(licenses, and_(licenses.c.id == _COLUMNS.license_id, is_owned))
    return _list(tx, select(*_TRANSFER).select_from(own).where(*is_good))


def list_offer_times(tx: ReadTransaction, customer_id: int) -> list[datetime]:
    """List the times of the customer's latest offers."""
    query = select(_COLUMNS.offered_at).where(_COLUMNS.from_customer_id == customer_id)
    newest = query.order_by(_COLUMNS.offered_at.desc()).limit(MAX_LISTED)
    return [to_datetime(one) for one in tx.connection.execute(newest).scalars()]


def save_new_transfer(tx: WriteTransaction, transfer: Transfer) -> int:
    """Insert a transfer; return its ID."""
    return tx.insert(license_transfers, to_columns(transfer))


def save_transfer(tx: WriteTransaction, transfer: Transfer) -> None:
    """Update all columns of a transfer."""
    change = update(license_transfers).where(_COLUMNS.id == transfer.id)
    tx.connection.execute(change.values(to_columns(transfer)))


def find_first_owners(tx: ReadTransaction, license_ids: Collection[int]) -> Mapping[int, int]:
    """Return the first owners of those of these licenses that were transferred, by license."""
    found = sorted(_OWNERS.find_rows(tx.connection, license_ids), reverse=True)
    return {license_id: customer_id for _, license_id, customer_id in found}


def list_offered_only(tx: ReadTransaction, before: datetime) -> list[int]:
    """List customers who were made for an offer that was over before this moment, have never signed in, and
    own nothing else.
    """
    column, is_over = (
        customers.c,
        and_(_COLUMNS.accepted_at.is_(None), _COLUMNS.expires_at < to_seconds(before)),
    )
    is_its = or_(_COLUMNS.to_customer_id == column.id, _COLUMNS.from_customer_id == column.id)
    owned = (licenses.c.customer_id, deleted_licenses.c.customer_id, shop_events.c.customer_id)
    query = select(column.id).where(
        column.id.in_(select(_COLUMNS.to_customer_id).where(is_over)),
        *(column[name].is_(None) for name in ("email_verified_at", "name", "external_id")),
        column.updated_at == column.created_at,
        exists().where(
            _COLUMNS.to_customer_id == column.id, _COLUMNS.offered_at - column.created_at <= _AT_ONCE
        ),
        ~exists().where(is_its, ~is_over),
        *(~exists().where(one == column.id) for one in owned),
    )
    return list(tx.connection.execute(query.limit(MAX_LISTED)).scalars())


def delete_ended(tx: WriteTransaction, before: datetime) -> None:
    """Delete the offers that were over before this moment and never accepted, once all offers to the same
    customer are: the customer may have been made for the first one.
    """
    is_old, other = _COLUMNS.expires_at < to_seconds(before), license_transfers.alias()
    is_last = ~exists().where(
        other.c.to_customer_id == _COLUMNS.to_customer_id,
        other.c.accepted_at.is_(None),
        other.c.expires_at >= to_seconds(before),
    )
    tx.connection.execute(delete(license_transfers).where(_COLUMNS.accepted_at.is_(None), is_old, is_last))


def count_claims(tx: ReadTransaction, query: CountClaims) -> ClaimCounts:
    """Count the licenses that were claimed and still have a customer, and those that were ever activated."""
    column = licenses.c
    has_claim = exists().where(license_claims.c.license_id == column.id)
    is_claimed = and_(column.customer_id.is_not(None), has_claim)
    is_activated = column.times_activated + column.deactivated_count > 0
    counts = [func.count(), *(func.count().filter(one) for one in (is_claimed, is_activated))]
    counted = select(*counts).select_from(licenses).where(*_conditions(query))
    found = tx.connection.execute(counted).one()
    return ClaimCounts(found[0], found[1], found[2])


def _conditions(query: CountClaims) -> list[Any]:
    column, order_id = licenses.c, query.order_id
    found: list[Any] = []
    if query.policy_id is not None:
        found.append(column.policy_id == query.policy_id)
    if order_id is not None:
        number = int(order_id) if order_id.isascii() and order_id.isdigit() and len(order_id) < 19 else -1
        found.append(or_(column.order_ref == order_id, column.order_id == number))
    if query.job_id is not None:
        of_job = select(job_licenses.c.license_id).where(job_licenses.c.job_id == query.job_id)
        found.append(column.id.in_(of_job))
    if query.only_product_id is not None:
        found.append(column.product_id == query.only_product_id)
    return found


def _list(tx: ReadTransaction, query: Select[Any]) -> list[Transfer]:
    newest = query.order_by(_COLUMNS.id.desc()).limit(MAX_LISTED)
    return [_transfer_of(row) for row in tx.connection.execute(newest)]


def _transfer_of(row: Row[Any]) -> Transfer:
    return Transfer(**with_datetimes(row))
