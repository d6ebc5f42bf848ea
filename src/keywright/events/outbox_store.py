"""The outbox of mails, in the database."""

import secrets
from datetime import datetime
from functools import cache

import msgspec
from sqlalchemy import Insert, select

from keywright.db.bulk import insert_or
from keywright.db.rows import to_seconds
from keywright.db.schema import mail_outbox, users
from keywright.db.transaction import WriteTransaction
from keywright.events.model import (
    MAX_LICENSES,
    MAX_UNIQUE_LENGTH,
    MailState,
    MailTemplate,
    QueuedMail,
    Subject,
)

#: Holds the waiting mails of a restored database: each may have been sent since the backup.
HOLD_WAITING = (
    "UPDATE mail_outbox SET state = 'held', next_attempt_at = NULL, claimed_by = NULL, claimed_until = NULL "
    "WHERE state = 'waiting'"
)
#: Cancels the jobs of a restored database that mail customers: which mails were sent since is unknown.
STOP_NOTIFYING = (
    "UPDATE jobs SET state = 'canceled', finished_at = created_at, claimed_by = NULL, claimed_until = "
    "NULL, messages = 'The job came from a restored backup.' WHERE kind IN ('notify', 'make_files') AND "
    "finished_at IS NULL"
)
#: The most administrators who get a notice.
_MAX_ADMINISTRATORS = 50


def queue_mail(tx: WriteTransaction, mail: QueuedMail, now: datetime) -> bool:
    """Queue a mail, which is sent after the commit. Returns False, and changes nothing, if a mail with the
    same ``unique`` text was queued before.

    Raises ``ValueError`` without exactly one recipient, or if the text is too long or the licenses too many.
    """
    if (mail.customer_id is None) == (mail.user_id is None):
        raise ValueError("a mail is for one customer or for one user")
    if not 0 < len(mail.unique) <= MAX_UNIQUE_LENGTH or len(mail.subject.license_ids) > MAX_LICENSES:
        raise ValueError("the unique text is too long, or the licenses are too many")
    values = {
        "template": mail.template.value,
        "unique_text": mail.unique,
        "customer_id": mail.customer_id,
        "user_id": mail.user_id,
        "product_id": mail.product_id,
        "language": mail.language,
        "subject": msgspec.json.encode(mail.subject).decode(),
        "message_id": secrets.token_hex(16),
        "state": MailState.WAITING.value,
        "attempts": 0,
        "unanswered": 0,
        "created_at": to_seconds(now),
        "next_attempt_at": to_seconds(now),
    }
    is_new = tx.connection.execute(_queue(is_postgres=tx.is_postgres), values).rowcount == 1
    tx.has_queued = tx.has_queued or is_new
    return is_new


@cache
def _queue(*, is_postgres: bool) -> Insert:
    change = insert_or(mail_outbox, is_postgres=is_postgres)
    new: Insert = change.on_conflict_do_nothing(index_elements=["unique_text"]).inline()
    return new.execution_options(preserve_rowcount=True)


def queue_notices(
    tx: WriteTransaction, template: MailTemplate, unique: str, subject: Subject, now: datetime
) -> int:
    """Queue a mail to each administrator who has an e-mail address; returns the number of these."""
    column = users.c
    query = select(column.id).where(
        column.role == "administrator", column.disabled_at.is_(None), column.email.is_not(None)
    )
    found = tx.connection.execute(query.order_by(column.id).limit(_MAX_ADMINISTRATORS)).scalars().all()
    for user_id in found:
        queue_mail(
            tx,
            QueuedMail(template=template, unique=f"{unique} {user_id}", user_id=user_id, subject=subject),
            now,
        )
    return len(found)
