"""Statements about the outbox."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Row, Select, and_, delete, func, or_, select, update

from keywright.db.bulk import Lookup
from keywright.db.rows import is_due, to_columns, to_datetime, to_optional_seconds, to_seconds, with_datetimes
from keywright.db.schema import customers, mail_outbox, users
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.delivery.mail.model import MailClaim
from keywright.delivery.mail.rules import MAX_PAUSE, mask_address
from keywright.events.outbox.model import MailState, MailTemplate, OutboxMail, Subject

_COLUMNS = mail_outbox.c
_MAIL = select(*(_COLUMNS[name] for name in OutboxMail.__struct_fields__))
_IS_WAITING = _COLUMNS.next_attempt_at.is_not(None)
#: Finds the mails that wait for an attempt, due or not.
WAITING = select(_COLUMNS.id).where(_IS_WAITING)
_CUSTOMER_ADDRESSES = Lookup(select(customers.c.id, customers.c.email), customers.c.id)
_USER_ADDRESSES = Lookup(select(users.c.id, users.c.email), users.c.id)
_decode_subject = msgspec.json.Decoder(Subject).decode


def list_claims(tx: ReadTransaction) -> list[MailClaim]:
    """The claim on each mail that a server process is sending."""
    query = select(_COLUMNS.id, _COLUMNS.claimed_by, _COLUMNS.claimed_until)
    found = tx.connection.execute(query.where(_COLUMNS.claimed_by.is_not(None)))
    return [MailClaim(row.id, row.claimed_by, to_datetime(row.claimed_until)) for row in found]


def is_any_due(tx: ReadTransaction, now: datetime) -> bool:
    """Whether a mail waits that no process is sending."""
    return tx.connection.execute(_due(select(_COLUMNS.id), now)).first() is not None


def lock_next(tx: WriteTransaction, over: Collection[MailClaim], now: datetime) -> OutboxMail | None:
    """One of the mails with these claims, else the one that has been due for longest, locked."""
    if over:
        query = _MAIL.where(_IS_WAITING, or_(*map(_is_claimed, over))).order_by(_COLUMNS.id).limit(1)
        found = tx.first(query.with_for_update(skip_locked=True), mail_of)
        if found is not None:
            return found
    return tx.first(_due(_MAIL, now).with_for_update(skip_locked=True), mail_of)


def _due(query: Select[Any], now: datetime) -> Select[Any]:
    at = _COLUMNS.next_attempt_at
    return (
        query.where(_IS_WAITING, is_due(at, now, MAX_PAUSE), _COLUMNS.claimed_by.is_(None))
        .order_by(at, _COLUMNS.id)
        .limit(1)
    )


def _is_claimed(claim: MailClaim) -> Any:
    return and_(
        _COLUMNS.id == claim.mail_id,
        _COLUMNS.claimed_by == claim.claimed_by,
        _COLUMNS.claimed_until == to_optional_seconds(claim.claimed_until),
    )


def find_mail(tx: ReadTransaction, mail_id: int) -> OutboxMail | None:
    """The mail with this ID."""
    return tx.first(_MAIL.where(_COLUMNS.id == mail_id), mail_of)


def lock_mail(tx: WriteTransaction, mail_id: int) -> OutboxMail | None:
    """The mail with this ID, locked until the end of the transaction."""
    return tx.first(_MAIL.where(_COLUMNS.id == mail_id).with_for_update(), mail_of)


def lock_held(tx: WriteTransaction, limit: int) -> list[OutboxMail]:
    """The first mails that a restored backup has brought."""
    query = _MAIL.where(_COLUMNS.state == MailState.HELD.value).order_by(_COLUMNS.id).limit(limit)
    return [mail_of(row) for row in tx.connection.execute(query.with_for_update())]


def save_mail(tx: WriteTransaction, mail: OutboxMail) -> None:
    """Update everything that can change in a mail."""
    names = ("attempts", "unanswered", "next_attempt_at", "finished_at", "error", "claimed_by")
    values = to_columns(mail)
    changed = {name: values[name] for name in (*names, "claimed_until")} | {"state": mail.state.value}
    tx.connection.execute(update(mail_outbox).where(_COLUMNS.id == mail.id).values(changed))


def list_mails(
    tx: ReadTransaction, *, state: MailState | None, before_id: int | None, limit: int
) -> list[OutboxMail]:
    """The latest mails before this ID, latest first."""
    query = _MAIL.order_by(_COLUMNS.id.desc()).limit(limit)
    if state is not None:
        query = query.where(_COLUMNS.state == state.value)
    if before_id is not None:
        query = query.where(_COLUMNS.id < before_id)
    return [mail_of(row) for row in tx.connection.execute(query)]


def list_of_customer(tx: ReadTransaction, customer_id: int, *, limit: int) -> list[OutboxMail]:
    """The latest mails to a customer."""
    query = _MAIL.where(_COLUMNS.customer_id == customer_id).order_by(_COLUMNS.id.desc()).limit(limit)
    return [mail_of(row) for row in tx.connection.execute(query)]


def find_masked_addresses(tx: ReadTransaction, mails: Sequence[OutboxMail]) -> dict[int, str]:
    """Where each mail goes, as far as the recipient has an address, by the mail's ID: ``d…@example.com``."""
    of_customers = {one.customer_id for one in mails if one.customer_id is not None}
    of_users = {one.user_id for one in mails if one.user_id is not None}
    addresses = _CUSTOMER_ADDRESSES.find_rows(tx.connection, of_customers) if of_customers else []
    to_customers = {row.id: row.email for row in addresses}
    addresses = _USER_ADDRESSES.find_rows(tx.connection, of_users) if of_users else []
    to_users = {row.id: row.email for row in addresses}
    found = {one.id: to_customers.get(one.customer_id) or to_users.get(one.user_id) for one in mails}
    return {number: mask_address(address) for number, address in found.items() if address}


def count_mails(tx: ReadTransaction, state: MailState, *, most: int) -> int:
    """The number of mails in this state; no more than ``most`` are counted."""
    some = select(_COLUMNS.id).where(_COLUMNS.state == state.value).limit(most).subquery()
    return int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())


def give_up_old(tx: WriteTransaction, before: datetime, now: datetime, *, limit: int) -> int:
    """Give up at most ``limit`` mails that wait since before this moment; returns how many."""
    waiting = (MailState.WAITING.value, MailState.HELD.value)
    is_old = (_COLUMNS.state.in_(waiting), _COLUMNS.created_at < to_seconds(before))
    some = (
        select(_COLUMNS.id).where(*is_old, _COLUMNS.claimed_by.is_(None)).order_by(_COLUMNS.id).limit(limit)
    )
    values = {
        "state": MailState.FAILED.value,
        "next_attempt_at": None,
        "finished_at": to_seconds(now),
        "error": "It waited for too long.",
    }
    return tx.connection.execute(update(mail_outbox).where(_COLUMNS.id.in_(some)).values(values)).rowcount


def delete_old(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Delete at most ``limit`` mails that were finished before this moment; returns how many."""
    is_old = _COLUMNS.finished_at < to_seconds(before)
    some = select(_COLUMNS.id).where(is_old).order_by(_COLUMNS.finished_at).limit(limit)
    return tx.connection.execute(delete(mail_outbox).where(_COLUMNS.id.in_(some))).rowcount


def is_unsubscribed(tx: ReadTransaction, customer_id: int) -> bool:
    """Whether the customer wants no reminders."""
    query = select(customers.c.unsubscribed_at).where(customers.c.id == customer_id)
    return tx.connection.execute(query).scalar() is not None


def save_unsubscribed(tx: WriteTransaction, customer_id: int, moment: datetime | None) -> bool:
    """Save since when the customer wants no reminders; False for an unknown customer."""
    values = {"unsubscribed_at": to_optional_seconds(moment)}
    change = update(customers).where(customers.c.id == customer_id).values(values)
    return tx.connection.execute(change).rowcount == 1


def mail_of(row: Row[Any]) -> OutboxMail:
    """The mail of a row."""
    values = with_datetimes(row)
    return OutboxMail(
        **values
        | {
            "template": MailTemplate(values["template"]),
            "state": MailState(values["state"]),
            "subject": _decode_subject(values["subject"]),
        }
    )
