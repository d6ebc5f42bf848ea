"""The outbox and the vendor's templates in the database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, case, delete, func, insert, select, update

from keywright.db.bulk import Lookup
from keywright.db.rows import Records, is_due, to_columns, to_optional_seconds, to_seconds, with_datetimes
from keywright.db.schema import customers, mail_outbox, mail_templates, users
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.delivery.mail.model import EVERY_PRODUCT, OwnTemplate
from keywright.delivery.mail.rules import MAX_PAUSE, mask_address
from keywright.engine.queue import Kind
from keywright.events.model import MailState, MailTemplate, OutboxMail
from keywright.licensing.updates import notices_store
from keywright.licensing.updates.notices import RecipientState

_COLUMNS = mail_outbox.c
_OUTBOX = Records(mail_outbox, OutboxMail)
find_mail, lock_mail = _OUTBOX.find, _OUTBOX.lock
_CUSTOMER_ADDRESSES = Lookup(select(customers.c.id, customers.c.email), customers.c.id)
_USER_ADDRESSES = Lookup(select(users.c.id, users.c.email), users.c.id)


#: The due mails, including mails that a server process is sending. A mail whose sender has vanished may have
#: been sent, so claiming it again increments ``unanswered``.
MAILS = Kind(
    is_due(_COLUMNS.next_attempt_at, MAX_PAUSE),
    _COLUMNS.claimed_until,
    _COLUMNS.claimed_by,
    order=(_COLUMNS.next_attempt_at,),
    columns=_OUTBOX.columns,
    convert=_OUTBOX.of_row,
    changes=lambda _: {"unanswered": _COLUMNS.unanswered + case((_COLUMNS.claimed_by.is_(None), 0), else_=1)},
)


def lock_held(tx: WriteTransaction, limit: int) -> list[OutboxMail]:
    """Lock the first mails that a restored backup contained."""
    query = _OUTBOX.all.where(_COLUMNS.state == MailState.HELD.value).order_by(_COLUMNS.id).limit(limit)
    return [_OUTBOX.of_row(row) for row in tx.connection.execute(query.with_for_update())]


def save_mail(tx: WriteTransaction, mail: OutboxMail) -> None:
    """Update all columns of a mail that can change, and the state of a notice's recipient."""
    names = ("attempts", "unanswered", "next_attempt_at", "finished_at", "error", "claimed_by")
    values = to_columns(mail)
    changed = {name: values[name] for name in (*names, "claimed_until")} | {"state": mail.state.value}
    tx.connection.execute(update(mail_outbox).where(_COLUMNS.id == mail.id).values(changed))
    if mail.subject.notice_id is not None and mail.customer_id is not None:
        outcome = RecipientState(mail.state), mail.finished_at, mail.error
        notices_store.save_outcome(tx, (mail.subject.notice_id, mail.customer_id), *outcome)


def list_mails(
    tx: ReadTransaction,
    *,
    state: MailState | None = None,
    customer_id: int | None = None,
    before_id: int | None = None,
    limit: int,
) -> list[OutboxMail]:
    """List the latest mails before this ID, latest first, optionally of one state or customer."""
    query = _OUTBOX.all.order_by(_COLUMNS.id.desc()).limit(limit)
    if customer_id is not None:
        query = query.where(_COLUMNS.customer_id == customer_id)
    if state is not None:
        query = query.where(_COLUMNS.state == state.value)
    if before_id is not None:
        query = query.where(_COLUMNS.id < before_id)
    return [_OUTBOX.of_row(row) for row in tx.connection.execute(query)]


def list_of_customer(tx: ReadTransaction, customer_id: int, *, limit: int) -> list[OutboxMail]:
    """List the latest mails to a customer."""
    query = _OUTBOX.all.where(_COLUMNS.customer_id == customer_id).order_by(_COLUMNS.id.desc()).limit(limit)
    return [_OUTBOX.of_row(row) for row in tx.connection.execute(query)]


def find_masked_addresses(tx: ReadTransaction, mails: Sequence[OutboxMail]) -> dict[int, str]:
    """Return the masked addresses (``d…@example.com``) of recipients who have one, by mail ID."""
    of_customers = {one.customer_id for one in mails if one.customer_id is not None}
    of_users = {one.user_id for one in mails if one.user_id is not None}
    addresses = _CUSTOMER_ADDRESSES.find_rows(tx.connection, of_customers) if of_customers else []
    to_customers = {row.id: row.email for row in addresses}
    addresses = _USER_ADDRESSES.find_rows(tx.connection, of_users) if of_users else []
    to_users = {row.id: row.email for row in addresses}
    found = {one.id: to_customers.get(one.customer_id) or to_users.get(one.user_id) for one in mails}
    return {number: mask_address(address) for number, address in found.items() if address}


def count_mails(tx: ReadTransaction, state: MailState, *, most: int) -> int:
    """Count the mails in this state, up to ``most``."""
    some = select(_COLUMNS.id).where(_COLUMNS.state == state.value).limit(most).subquery()
    return int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())


def give_up_old(tx: WriteTransaction, before: datetime, now: datetime, *, limit: int) -> int:
    """Give up at most ``limit`` mails that have waited since before this time. Returns how many."""
    waiting = (MailState.WAITING.value, MailState.HELD.value)
    is_old = (_COLUMNS.state.in_(waiting), _COLUMNS.created_at < to_seconds(before))
    some = (
        select(_COLUMNS.id).where(*is_old, _COLUMNS.claimed_by.is_(None)).order_by(_COLUMNS.id).limit(limit)
    )
    values: dict[str, Any] = {
        "state": MailState.FAILED.value,
        "next_attempt_at": None,
        "finished_at": to_seconds(now),
        "error": "It waited for too long.",
    }
    notices_store.give_up_old(tx, before, now, values["error"])
    return tx.connection.execute(update(mail_outbox).where(_COLUMNS.id.in_(some)).values(values)).rowcount


def delete_old(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Delete at most ``limit`` mails that were finished before this time. Returns how many."""
    is_old = _COLUMNS.finished_at < to_seconds(before)
    some = select(_COLUMNS.id).where(is_old).order_by(_COLUMNS.finished_at).limit(limit)
    return tx.connection.execute(delete(mail_outbox).where(_COLUMNS.id.in_(some))).rowcount


def is_unsubscribed(tx: ReadTransaction, customer_id: int) -> bool:
    """Whether the customer has unsubscribed from reminders."""
    query = select(customers.c.unsubscribed_at).where(customers.c.id == customer_id)
    return tx.connection.execute(query).scalar() is not None


def save_unsubscribed(tx: WriteTransaction, customer_id: int, moment: datetime | None) -> bool:
    """Save when the customer unsubscribed; None subscribes again. Returns False for an unknown customer."""
    values = {"unsubscribed_at": to_optional_seconds(moment)}
    change = update(customers).where(customers.c.id == customer_id).values(values)
    return tx.connection.execute(change).rowcount == 1


#: The most templates that are listed, enough for those of a hundred products.
MAX_TEMPLATES = 5_000
_TEMPLATES = mail_templates.c
_TEMPLATE = select(*(_TEMPLATES[name] for name in OwnTemplate.__struct_fields__))


def find_template(
    tx: ReadTransaction, name: MailTemplate, product_id: int | None, language: str
) -> OwnTemplate | None:
    """Find the vendor's template in this language for this product, or else for every product."""
    query = _TEMPLATE.where(
        _TEMPLATES.name == name.value,
        _TEMPLATES.language == language,
        _TEMPLATES.product_id.in_({EVERY_PRODUCT, product_id or EVERY_PRODUCT}),
    )
    return tx.first(query.order_by(_TEMPLATES.product_id.desc()).limit(1), _template_of)


def list_templates(tx: ReadTransaction) -> list[OwnTemplate]:
    """List the vendor's templates by name, product and language."""
    query = _TEMPLATE.order_by(_TEMPLATES.name, _TEMPLATES.product_id, _TEMPLATES.language).limit(
        MAX_TEMPLATES
    )
    return [_template_of(row) for row in tx.connection.execute(query)]


def save_template(tx: WriteTransaction, template: OwnTemplate) -> None:
    """Save a template. It replaces a template with the same name, product and language."""
    delete_template(tx, template.name, template.product_id, template.language)
    values = {
        "name": template.name.value,
        "product_id": template.product_id,
        "language": template.language,
        "subject": template.subject,
        "text": template.text,
        "html": template.html,
        "updated_at": to_seconds(template.updated_at),
        "updated_by": template.updated_by,
    }
    tx.connection.execute(insert(mail_templates).values(values))


def delete_template(tx: WriteTransaction, name: MailTemplate, product_id: int, language: str) -> bool:
    """Delete a template. Returns False if there is none."""
    is_one = (
        _TEMPLATES.name == name.value,
        _TEMPLATES.product_id == product_id,
        _TEMPLATES.language == language,
    )
    return tx.connection.execute(delete(mail_templates).where(*is_one)).rowcount == 1


def _template_of(row: Row[Any]) -> OwnTemplate:
    values = with_datetimes(row)
    return OwnTemplate(**values | {"name": MailTemplate(values["name"])})
