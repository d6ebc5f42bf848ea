"""Database queries for affected devices and for notified customers."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, Any, NamedTuple

from msgspec import Struct
from sqlalchemy import Insert, and_, bindparam, case, delete, func, select, update

from keywright.core.fields import Id, Time, about
from keywright.core.nouns import ItemPage, Paging
from keywright.db.bulk import Lookup, insert_or
from keywright.db.rows import Records, read_page, to_seconds
from keywright.db.schema import activations, customers, licenses, notice_recipients
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.updates.notices import Notice, RecipientState

#: Whether a version is affected.
Affects = Callable[[str], bool]
_COLUMNS = notice_recipients.c
#: Devices that hold a place, with the version that they last reported.
_DEVICES = licenses.join(activations, activations.c.license_id == licenses.c.id)
_IS_RUNNING = and_(activations.c.deactivated_at.is_(None), activations.c.app_version.is_not(None))
_OF_LICENSES = Lookup(
    select(licenses.c.id, licenses.c.product_id, licenses.c.customer_id, activations.c.app_version)
    .select_from(_DEVICES)
    .where(_IS_RUNNING)
    .distinct(),
    licenses.c.id,
)
_OF_PRODUCT = and_(licenses.c.product_id == bindparam("product_id"), _IS_RUNNING)
_VERSIONS = select(activations.c.app_version).select_from(_DEVICES).where(_OF_PRODUCT).distinct()
_IS_OF_NOTICE = and_(_COLUMNS.notice_id == bindparam("notice_id"), _COLUMNS.customer_id == customers.c.id)
_OWNER = (
    licenses.c.customer_id,
    case((licenses.c.customer_id.is_(None), licenses.c.id)),
    customers.c.email.is_not(None),
    _COLUMNS.state,
)
_OWNERS = Lookup(
    select(*_OWNER, func.count())
    .select_from(
        _DEVICES.outerjoin(customers, customers.c.id == licenses.c.customer_id).outerjoin(
            notice_recipients, _IS_OF_NOTICE
        )
    )
    .where(_OF_PRODUCT)
    .group_by(*_OWNER),
    activations.c.app_version,
)
#: Locked, so that an erasure that begins now includes what is written about them.
_ADDRESSES = Lookup(select(customers.c.id, customers.c.email).with_for_update(read=True), customers.c.id)
#: Licenses read at once, reads per step, and licenses returned per step, at most.
_LOOKED_AT, _MAX_LOOKS, _MAX_FOUND = 500, 20, 50
#: The most customers that a preview lists.
MAX_NAMED = 20


class Recipient(Struct, frozen=True, kw_only=True):
    """A customer who was found to have an affected device."""

    id: Annotated[Id, about("Its ID.", 9)]
    notice_id: Annotated[Id, about("The notice.", 5)]
    customer_id: Annotated[Id | None, about("The customer; null after an erasure.", 4711)] = None
    email: Annotated[str | None, about("The address; null after an erasure.", "dora@example.com")] = None
    app_version: Annotated[str, about("A version that the customer runs.", "3.1.0")]
    state: Annotated[RecipientState, about("The state of the mail.", "sent")]
    created_at: Annotated[Time, about("When the customer was notified.", "2026-11-22T08:54:00Z")]
    finished_at: Annotated[
        Time | None, about("When the mail was sent or given up.", "2026-11-22T08:54:09Z")
    ] = None
    error: Annotated[str | None, about("What the mail server answered.", None)] = None


RECIPIENTS = Records(notice_recipients, Recipient)


class Affected(NamedTuple):
    """A customer with an affected device, and the version of one of them."""

    customer_id: int
    app_version: str


class Preview(Struct, frozen=True):
    """Who has an affected device now, and who would get a mail."""

    devices: Annotated[int, about("The affected devices that hold a place.", 130)] = 0
    customers: Annotated[int, about("The customers with these devices.", 90)] = 0
    to_notify: Annotated[int, about("The customers who would get a mail now.", 80)] = 0
    notified: Annotated[int, about("The customers who were already notified.", 7)] = 0
    unreachable: Annotated[int, about("The customers without an e-mail address.", 3)] = 0
    licenses_without_customer: Annotated[
        int, about("Licenses with such a device, but without a customer.", 2)
    ] = 0
    customer_ids: Annotated[tuple[int, ...], about("The first customers who would get a mail.", [4711])] = ()


def has_recipients(tx: ReadTransaction, notice_id: int) -> bool:
    """Whether any customer was notified."""
    query = select(_COLUMNS.id).where(_COLUMNS.notice_id == notice_id).limit(1)
    return tx.connection.execute(query).first() is not None


def list_recipients(tx: ReadTransaction, notice_id: int, paging: Paging) -> ItemPage[Recipient]:
    """Return a page of the customers who were notified."""
    return read_page(tx, RECIPIENTS.all.where(_COLUMNS.notice_id == notice_id), paging, RECIPIENTS.of_row)


def count_states(tx: ReadTransaction, notice_id: int) -> dict[RecipientState, int]:
    """Count the notified customers by the state of the mail."""
    query = select(_COLUMNS.state, func.count()).where(_COLUMNS.notice_id == notice_id)
    return {
        RecipientState(state): amount
        for state, amount in tx.connection.execute(query.group_by(_COLUMNS.state))
    }


def preview(tx: ReadTransaction, notice: Notice, affects: Affects) -> Preview:
    """Return who would be notified now. Slow if there are very many devices."""
    of_product = {"product_id": notice.product_id}
    versions = [one for one in tx.connection.execute(_VERSIONS, of_product).scalars() if affects(one)]
    found = _OWNERS.find_rows(tx.connection, versions, **of_product, notice_id=notice.id) if versions else []
    seen: dict[int, str] = {}
    for owner, _, has_address, state, _ in found:
        if owner is not None:
            is_known = state not in (None, RecipientState.UNREACHABLE)
            seen[owner] = "notified" if is_known else "to_notify" if has_address else "unreachable"
    to_notify = sorted(owner for owner, what in seen.items() if what == "to_notify")
    return Preview(
        devices=sum(row[4] for row in found),
        customers=len(seen),
        to_notify=len(to_notify),
        notified=sum(what == "notified" for what in seen.values()),
        unreachable=sum(what == "unreachable" for what in seen.values()),
        licenses_without_customer=len({row[1] for row in found if row[0] is None}),
        customer_ids=tuple(to_notify[:MAX_NAMED]),
    )


def find_licenses(
    tx: ReadTransaction, notice: Notice, affects: Affects, after_id: int
) -> tuple[list[int], int | None]:
    """Return the next licenses with an affected device, and the ID to continue after; None at the end."""
    found: set[int] = set()
    query = select(licenses.c.id).where(licenses.c.product_id == notice.product_id).order_by(licenses.c.id)
    for _ in range(_MAX_LOOKS):
        page = query.where(licenses.c.id > after_id).limit(_LOOKED_AT)
        ids = list(tx.connection.execute(page).scalars())
        found |= {row.id for row in _list_affected(tx, notice, affects, ids)}
        if len(found) > _MAX_FOUND:
            some = sorted(found)[:_MAX_FOUND]
            return some, some[-1]
        if len(ids) < _LOOKED_AT:
            return sorted(found), None
        after_id = ids[-1]
    return sorted(found), after_id


def list_affected(
    tx: ReadTransaction, notice: Notice, affects: Affects, license_ids: Collection[int]
) -> list[Affected]:
    """Return the customers who own these licenses and have an affected device now, by their IDs."""
    rows = _list_affected(tx, notice, affects, license_ids)
    owners = {row.customer_id: row.app_version for row in rows if row.customer_id is not None}
    return [Affected(*one) for one in sorted(owners.items())]


def _list_affected(
    tx: ReadTransaction, notice: Notice, affects: Affects, license_ids: Collection[int]
) -> Sequence[Any]:
    rows = _OF_LICENSES.find_rows(tx.connection, license_ids) if license_ids else []
    return [row for row in rows if row.product_id == notice.product_id and affects(row.app_version)]


def find_addresses(tx: WriteTransaction, found: Collection[Affected]) -> dict[int, str | None]:
    """The addresses of these customers, if they exist, by ID; they cannot be erased until the commit."""
    rows = _ADDRESSES.find_rows(tx.connection, [one.customer_id for one in found]) if found else []
    return {row.id: row.email for row in rows}


def save_recipient(
    tx: WriteTransaction, notice_id: int, affected: Affected, email: str | None, now: datetime
) -> bool:
    """Record that a customer is notified, or cannot be reached; False if that was already recorded."""
    values = {
        "notice_id": notice_id,
        "customer_id": affected.customer_id,
        "email": email,
        "app_version": affected.app_version,
        "state": (RecipientState.UNREACHABLE if email is None else RecipientState.WAITING).value,
        "created_at": to_seconds(now),
    }
    return tx.connection.execute(_save(is_postgres=tx.is_postgres), values).rowcount == 1


@cache
def _save(*, is_postgres: bool) -> Insert:
    change = insert_or(notice_recipients, is_postgres=is_postgres)
    new = change.excluded
    names = ("email", "app_version", "state", "created_at")
    # A customer who could not be reached before now has an address.
    is_reached = and_(
        _COLUMNS.state == RecipientState.UNREACHABLE.value, new.state == RecipientState.WAITING.value
    )
    saved: Insert = change.on_conflict_do_update(
        index_elements=["notice_id", "customer_id"],
        set_={name: new[name] for name in names},
        where=is_reached,
    ).inline()
    return saved.execution_options(preserve_rowcount=True)


def save_outcome(
    tx: WriteTransaction,
    place: tuple[int, int],
    state: RecipientState,
    finished_at: datetime | None,
    error: str | None,
) -> None:
    """Record the outcome of the mail about a notice to a customer. A sent mail remains sent."""
    is_one = (_COLUMNS.notice_id == place[0], _COLUMNS.customer_id == place[1])
    values = {
        "state": state.value,
        "finished_at": None if finished_at is None else to_seconds(finished_at),
        "error": error,
    }
    is_open = _COLUMNS.state != RecipientState.SENT.value
    tx.connection.execute(update(notice_recipients).where(*is_one, is_open).values(values))


def give_up_old(tx: WriteTransaction, before: datetime, now: datetime, error: str) -> None:
    """Record that mails waiting since before this moment were given up."""
    is_old = (_COLUMNS.state == RecipientState.WAITING.value, _COLUMNS.created_at < to_seconds(before))
    values = {"state": RecipientState.FAILED.value, "finished_at": to_seconds(now), "error": error}
    tx.connection.execute(update(notice_recipients).where(*is_old).values(values))


def forget_customer(tx: WriteTransaction, customer_id: int) -> None:
    """Erase a customer from the recipients; only that, and when, a customer was notified remains."""
    nothing = {"customer_id": None, "email": None, "error": None}
    tx.connection.execute(
        update(notice_recipients).where(_COLUMNS.customer_id == customer_id).values(nothing)
    )


def delete_old(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Delete at most ``limit`` records from before this moment; returns how many."""
    is_old = select(_COLUMNS.id).where(_COLUMNS.created_at < to_seconds(before))
    some = is_old.order_by(_COLUMNS.created_at).limit(limit)
    return tx.connection.execute(delete(notice_recipients).where(_COLUMNS.id.in_(some))).rowcount
