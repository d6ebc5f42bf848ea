"""What does not get in or out: events of shops, mails, deliveries of webhooks. Each sentence says what to do;
none of it is a fault of the database.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Row, Select, func, literal_column, select

from keywright.core.parsing import write_time
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import connections, mail_outbox, shop_events, webhook_deliveries, webhook_endpoints
from keywright.db.transaction import ReadTransaction
from keywright.events.outbox.model import MailState
from keywright.provisioning.shops.model import EventState

#: After so long, what should have gone out at once, or was tried again some times, is named.
_LATE = timedelta(hours=1)
#: After so long, a receiver that takes nothing is named: an update of it does not take longer.
_FAILING_LONG = timedelta(hours=6)
#: Mails that were given up are named for so long.
_LATELY = timedelta(days=7)
#: No more are counted.
_MAX_COUNTED = 10_000
#: What is quoted of an answer.
_MAX_QUOTED = 150


class _Waiting(NamedTuple):
    """The number that wait, and when the oldest began to."""

    number: int
    since: datetime

    @property
    def amount(self) -> str:
        """``3``; ``10,000 or more``."""
        return f"{self.number:,}" + (" or more" if self.number >= _MAX_COUNTED else "")


# --- shops ----------------------------------------------------------------------------------------


def list_shop_warnings(tx: ReadTransaction, now: datetime) -> Iterator[str]:
    """Warn about sales that made no license, and about connections that can make none."""
    query = select(connections.c.id, connections.c.name, connections.c.mapping).order_by(connections.c.id)
    for row in tx.connection.execute(query).all():
        connection = f"the connection {row.id} ({row.name})"
        if row.mapping == "[]":
            yield f"{connection} makes no license: its mapping is empty. Name the shop's products there."
        yield from _list_event_warnings(tx, row.id, connection, now)


def _list_event_warnings(
    tx: ReadTransaction, connection_id: int, connection: str, now: datetime
) -> Iterator[str]:
    column = shop_events.c
    of_it = select(column.received_at, column.detail).where(column.connection_id == connection_id)
    # As the index says it.
    unmatched = of_it.where(column.state == literal_column(f"'{EventState.UNMATCHED}'"))
    if (some := _measure(tx, unmatched, column.received_at)) is not None:
        yield (
            f"events of {connection} that could not be handled: {some.amount}, the first of "
            f"{_at(some.since)}. `keywright connection events {connection_id} --state unmatched`, or the "
            "page Shops, says what is missing; correct it, and try again."
        )
    late = of_it.where(column.next_attempt_at.is_not(None), column.received_at <= to_seconds(now - _LATE))
    if (some := _measure(tx, late, column.received_at)) is not None:
        reason = _quote(tx, late.where(column.detail.is_not(None)))
        yield (
            f"events of {connection} that wait for another attempt: {some.amount}, the first since "
            f"{_at(some.since)}{reason}. Check that a server runs, and the key of the shop's API."
        )


# --- mails ----------------------------------------------------------------------------------------


def list_mail_warnings(
    tx: ReadTransaction, now: datetime, *, has_server: bool, has_address: bool
) -> Iterator[str]:
    """Warn about mails that wait, were given up, or lead nowhere."""
    if has_server and not has_address:
        yield (
            "mails have no links, neither to the portal nor to stop reminders: set public_url, the address "
            "at which browsers reach the server."
        )
    column = mail_outbox.c
    mails = select(column.created_at, column.error.label("detail"))
    waiting = mails.where(column.state == MailState.WAITING.value)
    if not has_server:
        if (some := _measure(tx, waiting, column.created_at)) is not None:
            yield (
                f"mails that wait: {some.amount}, the first since {_at(some.since)}, and no mail server is "
                "set. Set smtp_url and mail_from, and start the server again."
            )
    else:
        late = waiting.where(column.created_at <= to_seconds(now - _LATE))
        if (some := _measure(tx, late, column.created_at)) is not None:
            reason = _quote(tx, late.where(column.error.is_not(None)))
            yield (
                f"mails that wait: {some.amount}, the first since {_at(some.since)}{reason}. Check that a "
                "server runs; `keywright mail test` with your address says what the mail server answers."
            )
    held = mails.where(column.state == MailState.HELD.value)
    if (some := _measure(tx, held, column.created_at)) is not None:
        yield (
            f"mails that are held since a backup was restored: {some.amount}. They may have been sent "
            "before: send or drop them on the page Mails."
        )
    failed = mails.where(
        column.state == MailState.FAILED.value, column.finished_at >= to_seconds(now - _LATELY)
    )
    if (some := _measure(tx, failed, column.created_at)) is not None:
        reason = _quote(tx, failed.order_by(column.id.desc()))
        yield (
            f"mails that were given up in the last seven days: {some.amount}{reason}. Correct the addresses "
            "or the settings, and send them again on the page Mails."
        )


# --- webhooks -------------------------------------------------------------------------------------


def list_webhook_warnings(tx: ReadTransaction, now: datetime, *, max_waiting: int) -> Iterator[str]:
    """Warn about endpoints that take nothing, or have as many deliveries waiting as may."""
    for row in tx.connection.execute(select(webhook_endpoints).order_by(webhook_endpoints.c.id)).all():
        name = f"the webhook {row.id} ({urlsplit(row.url).hostname})"
        if row.disabled_at is not None:
            if row.disabled_reason != "by_hand":
                yield (
                    f"{name} was disabled at {_at(to_datetime(row.disabled_at))}: its receiver "
                    f"{'is gone' if row.disabled_reason == 'gone' else 'took nothing for five days'}. Delete "
                    "it, or enable it when the receiver works; it goes on where it stood."
                )
            continue
        yield from _list_delivery_warnings(tx, row, name, now, max_waiting)


def _list_delivery_warnings(
    tx: ReadTransaction, endpoint: Row[Any], name: str, now: datetime, max_waiting: int
) -> Iterator[str]:
    column = webhook_deliveries.c
    waiting = select(column.created_at, column.answer.label("detail")).where(
        column.endpoint_id == endpoint.id, column.finished_at.is_(None)
    )
    some = _measure(tx, waiting, column.created_at)
    amount = f"deliveries that wait: {'0' if some is None else some.amount}"
    if endpoint.failing_at is not None and to_datetime(endpoint.failing_at) <= now - _FAILING_LONG:
        reason = _quote(tx, waiting.where(column.answer.is_not(None)))
        yield (
            f"{name} has taken nothing since {_at(to_datetime(endpoint.failing_at))}{reason}; {amount}. "
            "Mend its receiver: after five days, it is disabled."
        )
    elif some is not None and some.since <= now - _FAILING_LONG:
        yield (
            f"{name} is behind; {amount}, the first since {_at(some.since)}. Check that a server runs, and "
            "how long the receiver takes."
        )
    if some is not None and some.number >= max_waiting:
        yield f"{name} has as many deliveries waiting as may; further events wait in the log, for 30 days."


# --- what they have in common ---------------------------------------------------------------------


def _measure(tx: ReadTransaction, query: Select[Any], since: Any) -> _Waiting | None:
    some = query.limit(_MAX_COUNTED).subquery()
    amount, first = tx.connection.execute(select(func.count(), func.min(some.c[since.name]))).one()
    return _Waiting(int(amount), to_datetime(first)) if amount else None


def _quote(tx: ReadTransaction, query: Select[Any]) -> str:
    """The answer on one line, to end a clause with; empty where there was none."""
    row = tx.connection.execute(query.limit(1)).first()
    text = "" if row is None else " ".join((row.detail or "").split())[:_MAX_QUOTED]
    return f", with “{text}”" if text else ""


def _at(moment: datetime) -> str:
    return f"{write_time(moment)} UTC"
