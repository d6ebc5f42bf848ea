"""Mails over SMTP: TLS is verified, all server responses are handled, and waits have timeouts."""

from contextlib import closing
from pathlib import Path

import pytest

from keywright.config.groups import SmtpServer
from keywright.delivery.mail.message import Envelope
from keywright.delivery.mail.model import AttemptOutcome, Fate
from keywright.delivery.mail.smtp import SmtpClient
from tests.smtp_server import CUT, HANG, OK, Mailbox, make_certificate, receiving
from tools.postgres import free_port

MESSAGE = b"Subject: Hello\r\nMessage-ID: <1@x>\r\n\r\n.first\r\nlast\r\n"


def to(address: str = "dora@example.com") -> Envelope:
    return Envelope("licenses@example.com", address, MESSAGE, needs_utf8=not address.isascii())


def a_server(port: int, **changes: object) -> SmtpServer:
    server = SmtpServer("127.0.0.1", port, False, False, None, None, None)
    return server._replace(**changes)  # type: ignore[arg-type]


def send(server: SmtpServer, *envelopes: Envelope, timeout: float = 20) -> list[AttemptOutcome]:
    client = SmtpClient(server, timeout=timeout, message_timeout=timeout)
    with closing(client):
        return [client.send(one) for one in envelopes]


def fates(outcomes: list[AttemptOutcome]) -> list[Fate]:
    return [one.fate for one in outcomes]


def test_many_messages_go_over_one_connection() -> None:
    mailbox = Mailbox()
    with receiving(mailbox) as port:
        assert fates(send(a_server(port), to("a@example.com"), to("b@example.com"))) == [Fate.SENT] * 2
    assert mailbox.recipients == ["a@example.com", "b@example.com"]
    assert mailbox.connections == 1
    assert mailbox.messages[0].get_content().splitlines() == [".first", "last"]


def test_starttls_and_tls_from_the_start_are_verified(tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path)
    mailbox = Mailbox()
    with receiving(mailbox, tls_context=context, require_starttls=True) as port:
        secure = a_server(port, needs_tls=True, ca_file=file)
        assert fates(send(secure, to())) == [Fate.SENT]
        [refused] = send(secure._replace(ca_file=None), to())
    with receiving(mailbox, ssl_context=context) as port:
        assert fates(send(a_server(port, is_encrypted=True, ca_file=file), to())) == [Fate.SENT]
        [also_refused] = send(a_server(port, is_encrypted=True), to())
    for one in (refused, also_refused):
        assert one.fate is Fate.DELAYED
        assert "certificate cannot be verified" in (one.reason or "")
    assert mailbox.was_encrypted == [True, True]


def test_nothing_is_said_in_clear_text_where_tls_is_required() -> None:
    mailbox = Mailbox()
    with receiving(mailbox) as port:
        server = a_server(port, needs_tls=True, user="u", password="p")
        [outcome] = send(server, to())
    assert outcome == AttemptOutcome(Fate.DELAYED, "The server offers no STARTTLS.", is_servers_fault=True)
    assert (mailbox.logins, mailbox.messages) == ([], [])


def test_a_port_at_which_nothing_listens_is_said() -> None:
    [outcome] = send(a_server(free_port()), to())
    assert (outcome.fate, outcome.is_servers_fault) == (Fate.DELAYED, True)
    assert "nothing listens at its port" in (outcome.reason or "")


def test_a_wrong_password_is_no_fault_of_the_mail(tmp_path: Path) -> None:
    file, context = make_certificate(tmp_path)
    mailbox = Mailbox()
    options = {"tls_context": context, "authenticator": mailbox.check_login, "auth_required": True}
    options["auth_exclude_mechanism"] = ["LOGIN"]
    with receiving(mailbox, **options) as port:
        server = a_server(port, needs_tls=True, ca_file=file, user="u@example.com", password="right: p@ss")
        assert fates(send(server, to())) == [Fate.SENT]
        [outcome] = send(server._replace(password="wrong"), to())
    assert (outcome.fate, outcome.is_servers_fault) == (Fate.DELAYED, True)
    assert mailbox.logins[0] == "u@example.com"


@pytest.mark.parametrize(
    ("answer", "fate"), [("450 try later", Fate.DELAYED), ("550 no such user", Fate.REFUSED)]
)
def test_4xx_is_for_now_and_5xx_for_good(answer: str, fate: Fate) -> None:
    def refuse(address: str) -> str:
        return answer if address.startswith("bad") else OK

    for mailbox in (Mailbox(on_recipient=refuse), Mailbox(on_message=refuse)):
        with receiving(mailbox) as port:
            outcomes = send(a_server(port), to("bad@example.com"), to("good@example.com"))
        assert fates(outcomes) == [fate, Fate.SENT]
        assert answer in (outcomes[0].reason or "")
        assert mailbox.connections == 1


@pytest.mark.parametrize("answer", [CUT, HANG])
def test_an_answer_that_does_not_arrive_is_told_apart(answer: str) -> None:
    with receiving(Mailbox(on_message=lambda _: answer)) as port:
        [outcome] = send(a_server(port), to(), timeout=2)
    assert outcome.fate is Fate.UNANSWERED


def test_a_connection_that_the_server_has_closed_is_opened_again() -> None:
    mailbox = Mailbox()
    with receiving(mailbox, timeout=1.5) as port, closing(SmtpClient(a_server(port))) as client:
        assert client.send(to()).fate is Fate.SENT
        wait_for_end(client)
        assert client.send(to()).fate is Fate.SENT
    assert len(mailbox.messages) == 2


def wait_for_end(client: SmtpClient) -> None:
    """Wait until the server has closed the connection."""
    assert client._smtp is not None
    assert client._smtp.sock is not None
    client._smtp.sock.settimeout(30)
    while client._smtp.sock.recv(1000):
        pass


def test_an_address_with_other_letters_needs_a_server_that_takes_it() -> None:
    mailbox = Mailbox()
    with receiving(mailbox, enable_SMTPUTF8=True) as port:
        assert fates(send(a_server(port), to("dörte@example.com"))) == [Fate.SENT]
    with receiving(mailbox, enable_SMTPUTF8=False) as port:
        assert fates(send(a_server(port), to("dörte@example.com"))) == [Fate.REFUSED]
