"""A customer signs in with a mail sent to a real mail server; a stranger's address gets no mail."""

import re
from email.message import EmailMessage
from pathlib import Path

from tests.http.test_mails import make_customer, sending, states
from tests.portal import PortalVisitor
from tests.server import wait_until
from tests.smtp_server import Mailbox


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def test_a_customer_signs_in_with_the_mail(tmp_path: Path, database: str) -> None:
    mailbox = Mailbox()
    with (
        sending(tmp_path, mailbox, database) as server,
        PortalVisitor(server, **{"Accept-Language": "de"}) as visitor,
        PortalVisitor(server) as phone,
    ):
        make_customer(server)
        for email in ("nobody@example.com", "Dora@Example.com"):
            assert visitor.post("/sign-in", email=email).status_code == 200
        wait_until(lambda: mailbox.messages, "the mail")
        [mail] = mailbox.messages
        text = text_of(mail)
        assert "melden Sie sich" in text, text
        path = re.findall(r"https://keys\.example\.com/portal(/sign-in/\S+)", text)[0]
        assert "Anmelden" in visitor.get(path).text
        assert phone.post(path).headers["location"] == "/portal"
        assert "Dora" in phone.get("/account").text
        visitor.post("/sign-in", email="dora@example.com")
        wait_until(lambda: len(mailbox.messages) == 2, "the second mail")
        code = re.findall(r"\b\d{4} ?\d{4}\b", text_of(mailbox.messages[1]))[0]
        answer = visitor.post("/sign-in/code", email="dora@example.com", code=code)
        assert answer.headers["location"] == "/portal"
        assert "Dora" in visitor.get("/account").text
        visitor.post("/account/mail-keys")
        # The mail for the stranger's address had no recipient.
        expected = ["dropped", "sent", "sent", "sent"]
        wait_until(lambda: [state for state, _ in states(server)] == expected, "the keys")
    assert mailbox.recipients == ["dora@example.com"] * 3
