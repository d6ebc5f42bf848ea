"""Forget what shops sent of a customer who is erased: their sales, and what names their e-mail address.

An event belongs to a customer from when its sale is done or its buyer is known. Others may name the customer
all the same: one that cannot be read, or a shop's word of a sign-up. These are found by reading them.
"""

import re
from collections.abc import Collection
from urllib.parse import unquote_plus

import msgspec
from sqlalchemy import ColumnElement, select

from keywright.db.schema import shop_events
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.customers import fold_email
from keywright.provisioning.shops import store
from keywright.provisioning.shops.model import EventState, Naming, Payload, Reason

#: The most payloads that a question reads.
_AT_ONCE = 200
_OVER = (EventState.DONE.value, EventState.IGNORED.value)
#: An escaped line break before an address is no part of it.
_ESCAPED = re.compile(r"\\+[nrt]")


def forget_customer(tx: WriteTransaction, customer_id: int) -> None:
    """Empty the payloads of a customer's events; what waits cannot be worked off any more."""
    _forget(tx, shop_events.c.customer_id == customer_id)


def forget_events(tx: WriteTransaction, event_ids: Collection[int]) -> None:
    """The same for these events."""
    if event_ids:
        _forget(tx, shop_events.c.id.in_(event_ids))


def find_naming(tx: ReadTransaction, email: str, after_id: int) -> Naming:
    """Of the next events that belong to no customer, those that have this e-mail address in them."""
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
    """The address, not as a part of a longer one."""
    return re.compile(rf"(?<![\w.+-]){re.escape(fold_email(email))}(?![\w-]|\.\w)")


def _is_in(payload: Payload, pattern: re.Pattern[str]) -> bool:
    """Whether the address is in the body, in any case, and however it is escaped."""
    try:
        text = msgspec.json.encode(msgspec.json.decode(payload.body)).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raw = payload.body.decode(errors="replace")
        text = f"{raw} {unquote_plus(raw)}"
    return pattern.search(_ESCAPED.sub(" ", fold_email(text))) is not None
