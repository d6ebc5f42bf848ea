"""Mails leave the outbox of a running server: rendered, once, and without holding up anything."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from keywright.db import WriteTransaction, run_write
from keywright.events.model import MailTemplate, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from keywright.identity import passwords
from tests.http.asking import CANARY, Client
from tests.server import RunningServer, running, wait_until
from tests.smtp_server import HANG, OK, Mailbox, receiving

SENDER = "Example Söhne <licenses@example.com>"


@contextmanager
def sending(
    tmp_path: Path, mailbox: Mailbox, database: str = "sqlite", **settings: Any
) -> Iterator[RunningServer]:
    """A server that sends its mails to this mailbox."""
    with receiving(mailbox) as port:
        given = {"smtp_url": f"smtp://127.0.0.1:{port}", "mail_from": SENDER}
        # The one address that the server says, and that a test can reach.
        given |= {"public_url": "https://keys.example.com", "admin_address": "127.0.0.1:0"}
        with running(tmp_path / "data", database, **given, **settings) as server:
            yield server


def make_customer(server: RunningServer, email: str = "dora@example.com", **license: Any) -> tuple[int, int]:
    """A customer with a license; returns their IDs."""
    with Client(server, server.api_key()) as vendor:
        given = {"email": email, "name": "Dora Ödipus"}
        customer = vendor.ask("POST", "/v3/customers", json_body=given).json["id"]
        key = f"{CANARY}-{email}".replace("@", "-")
        wanted = {"customer": {"id": customer}, "status": "active", "key": key, **license}
        made = vendor.ask("POST", "/v3/licenses", json_body=wanted).json["id"]
    return customer, made


def queue(server: RunningServer, *mails: QueuedMail) -> None:
    """Queue mails, as another process would."""

    def save(tx: WriteTransaction) -> None:
        for one in mails:
            assert queue_mail(tx, one, datetime.now(UTC))

    with server.storage() as storage:
        run_write(storage, save)


def your_license(customer: int, license: int, **fields: Any) -> QueuedMail:
    given: dict[str, Any] = {"template": MailTemplate.YOUR_LICENSE, "unique": f"sale {license}"}
    given |= {"customer_id": customer, "subject": Subject(license_ids=(license,))}
    return QueuedMail(**given | fields)


def states(server: RunningServer) -> list[tuple[str, int]]:
    return [(row[0], row[1]) for row in server.sql("SELECT state, unanswered FROM mail_outbox ORDER BY id")]


def test_a_buyer_gets_the_key(tmp_path: Path, database: str) -> None:
    mailbox = Mailbox()
    with sending(tmp_path, mailbox, database) as server:
        customer, license = make_customer(server)
        queue(server, your_license(customer, license))
        wait_until(lambda: states(server) == [("sent", 0)], "the mail")
        log, rows = server.log, server.sql("SELECT * FROM mail_outbox")
    [mail] = mailbox.messages
    assert mailbox.recipients == ["dora@example.com"]
    assert mail["From"] == SENDER
    assert str(mail["To"]) == "Dora Ödipus <dora@example.com>"
    assert re.fullmatch(r"<[0-9a-f]{32}@example\.com>", mail["Message-ID"])
    assert mail["List-Unsubscribe"] is None
    for kind in ("plain", "html"):
        body = mail.get_body((kind,))
        assert body is not None
        content = body.get_content()
        assert f"{CANARY}-dora-example.com" in content
        assert "https://keys.example.com/portal" in content
    for text in (log, repr(rows)):
        assert CANARY not in text
        assert "dora@" not in text


def test_a_refused_recipient_is_given_up_and_seen_without_the_address(tmp_path: Path) -> None:
    def refuse(address: str) -> str:
        return "550 <bad@example.com> is unknown" if address.startswith("bad") else OK

    mailbox = Mailbox(on_recipient=refuse)
    with sending(tmp_path, mailbox) as server:
        customer, license = make_customer(server, "bad@example.com")
        other, another = make_customer(server, "good@example.com")
        queue(server, your_license(customer, license), your_license(other, another))
        wait_until(lambda: [one for one, _ in states(server)] == ["failed", "sent"], "both mails")
        [(error,)] = server.sql("SELECT error FROM mail_outbox WHERE state = 'failed'")
        assert "bad@" not in server.log
    assert error == "The server refused the recipient: 550 <…> is unknown"
    assert mailbox.recipients == ["good@example.com"]


def test_a_sign_in_code_is_derived_when_it_is_sent(tmp_path: Path) -> None:
    mailbox = Mailbox()
    with sending(tmp_path, mailbox, mail_language="en") as server:
        customer, _ = make_customer(server)
        mail = QueuedMail(
            template=MailTemplate.SIGN_IN_CODE,
            unique="sign-in 1",
            customer_id=customer,
            subject=Subject(sign_in_id="4711"),
        )
        unknown = QueuedMail(template=MailTemplate.SIGN_IN_CODE, unique="sign-in 2", customer_id=-3)
        queue(server, mail, unknown)
        wait_until(lambda: [one for one, _ in states(server)] == ["sent", "dropped"], "the mails")
        with server.storage() as storage, storage.read() as tx:
            code = passwords.derive_code(tx.key_ring, "4711")
            path = passwords.link_path(tx.key_ring, "4711")
        rows = server.sql("SELECT * FROM mail_outbox")
    [sent] = mailbox.messages
    # A telephone that is locked shows subjects.
    assert "Your sign-in code for" in sent["Subject"]
    assert code[:4] not in sent["Subject"]
    text = sent.get_body(("plain",))
    assert text is not None
    assert f"https://keys.example.com{path}" in text.get_content()
    assert f"{code[:4]} {code[4:]}" in text.get_content()
    assert code not in repr(rows)


def test_without_a_server_mails_wait(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        customer, license = make_customer(server)
        queue(server, your_license(customer, license))
        server.stop()
        assert states(server) == [("waiting", 0)]


def test_a_server_that_hangs_holds_up_no_call_and_not_the_end(tmp_path: Path) -> None:
    with sending(tmp_path, Mailbox(on_message=lambda _: HANG)) as server:
        customer, license = make_customer(server)
        queue(server, your_license(customer, license))
        wait_until(
            lambda: server.sql("SELECT 1 FROM mail_outbox WHERE claimed_by IS NOT NULL"), "the attempt"
        )
        with Client(server) as program:
            answers = [program.validate(f"{CANARY}-dora-example.com").status for _ in range(20)]
        assert answers == [200] * 20
        assert server.stop() == 0
        # The message was whole, and its answer did not come.
        assert states(server) == [("waiting", 1)]
