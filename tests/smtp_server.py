"""A real SMTP server for tests, in a thread, which does what a test tells it."""

import asyncio
import datetime
import email
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP as Server
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OK = "250 OK"
#: An answer to DATA: the connection is cut after the message was taken.
CUT = "cut"
#: An answer to DATA: none, for a minute.
HANG = "hang"


def _transport(server: Server) -> asyncio.Transport:
    assert isinstance(server.transport, asyncio.Transport)
    return server.transport


@dataclass
class Mailbox:
    """What arrives, and what is answered: a function of the recipient for each step."""

    on_recipient: Callable[[str], str] = lambda _: OK
    on_message: Callable[[str], str] = lambda _: OK
    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    connections: int = 0
    was_encrypted: list[bool] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    async def handle_EHLO(
        self, _server: Server, session: Session, _envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        self.connections += 1
        return responses

    async def handle_RCPT(
        self, _server: Server, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        answer = self.on_recipient(address)
        if answer == OK:
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Server, _session: Session, envelope: Envelope) -> str:
        recipient = envelope.rcpt_tos[0]
        answer = self.on_message(recipient)
        if answer == HANG:
            await asyncio.sleep(60)
        if answer in (OK, CUT):
            content = envelope.content
            assert isinstance(content, bytes)
            self.messages.append(email.message_from_bytes(content, policy=default))
            self.recipients.append(recipient)
            self.was_encrypted.append(_transport(server).get_extra_info("sslcontext") is not None)
        if answer == CUT:
            _transport(server).abort()
            return OK
        return answer

    def check_login(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> Any:
        assert isinstance(given, LoginPassword)
        self.logins.append(given.login.decode())
        return AuthResult(success=given.password == b"right: p@ss", handled=False)


class _Controller(Controller):
    """A controller of a server on a port that the system chooses."""

    @property
    def real_port(self) -> int:
        return int(self.server.sockets[0].getsockname()[1])  # type: ignore[union-attr]

    def _trigger_server(self) -> None:
        socket.create_connection(("127.0.0.1", self.real_port)).close()


@contextmanager
def receiving(mailbox: Mailbox, **options: Any) -> Iterator[int]:
    """Run a server with this mailbox; yields its port."""
    controller = _Controller(mailbox, hostname="127.0.0.1", port=0, **options)
    controller.start()
    try:
        yield controller.real_port
    finally:
        controller.stop(no_assert=True)


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that vouches for itself: its file, and what a server needs."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a mail server")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, key_file = folder / "certificate.pem", folder / "key.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file, key_file)
    return file, context
