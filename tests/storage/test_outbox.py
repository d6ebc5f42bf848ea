"""The outbox: a mail is queued once, in the transaction of its cause."""

import pytest
from sqlalchemy import select

from keywright.core.errors import Refusal
from keywright.db import Storage, WriteTransaction, run_write
from keywright.db.schema import mail_outbox
from keywright.events.model import MailTemplate, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from tests.makers import NOW

pytestmark = pytest.mark.of_the_database

MAIL = QueuedMail(
    template=MailTemplate.YOUR_LICENSE, unique="sale 1", customer_id=3, subject=Subject(license_ids=(1, 2))
)


def rows_of(storage: Storage) -> list[tuple[str, str]]:
    with storage.read() as tx:
        found = tx.connection.execute(select(mail_outbox.c.unique_text, mail_outbox.c.subject))
        return [(row.unique_text, row.subject) for row in found]


def test_a_mail_is_queued_once_for_a_unique_text(storage: Storage) -> None:
    assert [run_write(storage, lambda tx: queue_mail(tx, MAIL, NOW)) for _ in range(3)] == [
        True,
        False,
        False,
    ]
    assert rows_of(storage) == [("sale 1", '{"license_ids":[1,2]}')]


def test_a_mail_is_queued_only_if_its_cause_is_committed(storage: Storage) -> None:
    def queue_and_fail(tx: WriteTransaction) -> None:
        queue_mail(tx, MAIL, NOW)
        raise Refusal

    with pytest.raises(Refusal):
        run_write(storage, queue_and_fail)
    assert rows_of(storage) == []


@pytest.mark.parametrize(
    "mail",
    [
        QueuedMail(template=MailTemplate.EXPIRED, unique="x"),
        QueuedMail(template=MailTemplate.EXPIRED, unique="x", customer_id=1, user_id=1),
        QueuedMail(template=MailTemplate.EXPIRED, unique="x" * 201, customer_id=1),
    ],
)
def test_a_mail_needs_one_recipient_and_a_short_text(storage: Storage, mail: QueuedMail) -> None:
    with pytest.raises(ValueError, match=r"one customer|too long"):
        run_write(storage, lambda tx: queue_mail(tx, mail, NOW))
