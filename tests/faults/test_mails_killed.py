"""The server is killed while it sends mails: none is lost, and one comes twice only where that is counted."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from keywright.events.model import MailTemplate, QueuedMail, Subject
from tests.http.test_mails import make_customer, queue, sending
from tests.proving import record, size
from tests.server import RunningServer, wait_until
from tests.smtp_server import CUT, OK, Mailbox

pytestmark = pytest.mark.timeout(600)
#: Mails that are queued before each kill.
MAILS = 20


def your_license(customer: int, license: int, number: int) -> QueuedMail:
    return QueuedMail(
        template=MailTemplate.YOUR_LICENSE,
        unique=f"sale {number}",
        customer_id=customer,
        subject=Subject(license_ids=(license,)),
    )


def count_unfinished(server: RunningServer) -> int:
    [(number,)] = server.sql("SELECT count(*) FROM mail_outbox WHERE state <> 'sent'")
    return int(number)


def wait_until_sent(server: RunningServer) -> None:
    """Wait as long as there is one mail after the other: how many are left depends on the machine."""
    while before := count_unfinished(server):
        wait_until(lambda before=before: count_unfinished(server) < before, "another mail")  # type: ignore[misc]


def test_no_mail_is_lost_and_each_doubled_one_is_counted(tmp_path: Path, database: str) -> None:
    kills, sent = size(5, 100), 0
    # Some of the server's own answers are cut off, too.
    cuts = random.Random(7)
    mailbox = Mailbox(on_message=lambda _: CUT if cuts.random() < 0.02 else OK)
    with sending(tmp_path, mailbox, database) as server:
        customer, license = make_customer(server)
        for _ in range(kills):
            queue(server, *(your_license(customer, license, sent + one) for one in range(MAILS)))
            sent, before = sent + MAILS, len(mailbox.messages)
            wait_until(lambda before=before: len(mailbox.messages) > before, "a mail")  # type: ignore[misc]
            # No wait for something: the moment must have nothing to do with what goes on.
            time.sleep(random.uniform(0, 0.2))
            server.kill()
            server.start()
        wait_until_sent(server)
        rows = server.sql("SELECT message_id, unanswered FROM mail_outbox")
    arrived = Counter(mail["Message-ID"].partition("@")[0].removeprefix("<") for mail in mailbox.messages)
    unanswered = {message_id: number for message_id, number in rows if number}
    lost = {message_id for message_id, _ in rows} - arrived.keys()
    uncounted = {one for one, times in arrived.items() if times - 1 > unanswered.get(one, 0)}
    doubled = sum(times - 1 for times in arrived.values())
    figures = {
        "kills": kills,
        "mails": len(rows),
        "lost": len(lost),
        "sent twice": doubled,
        "sent twice and not counted": len(uncounted),
    }
    record("R24", database, figures)
    assert (len(rows), lost, uncounted) == (sent, set(), set())
