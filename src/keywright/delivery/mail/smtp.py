"""Sends messages over SMTP, many over one connection (RFC 5321, 3207, 4954).

Uses the standard library's client in a thread: it is maintained, and because mails are sent one after the
other, another client would be no faster.
"""

import smtplib
import socket
import ssl
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from keywright.config.groups import SmtpServer
from keywright.delivery.mail.model import AttemptOutcome, Fate

if TYPE_CHECKING:
    from keywright.delivery.mail.message import Envelope

#: Timeouts for a connection or an answer, and for the answer to a whole message, in seconds.
_TIMEOUT, _MESSAGE_TIMEOUT = 20.0, 60.0
#: The most messages per connection, and the idle time in seconds after which it is closed.
_MAX_MESSAGES, MAX_IDLE = 100, 15.0
_SENT = AttemptOutcome(Fate.SENT)


class SmtpClient:
    """Sends one message after the other. Not thread-safe, except for ``abort``."""

    def __init__(
        self, server: SmtpServer, *, timeout: float = _TIMEOUT, message_timeout: float = _MESSAGE_TIMEOUT
    ) -> None:
        self._server = server
        self._timeout = timeout
        self._message_timeout = message_timeout
        self._smtp: smtplib.SMTP | None = None
        self._is_aborted = False
        self._messages = 0
        self._used_at = 0.0

    def send(self, envelope: "Envelope") -> AttemptOutcome:
        """Send a message, over the open connection or a new one."""
        if self._is_aborted:
            return _server_fault("The connection was interrupted.")
        is_fresh = self._smtp is None
        try:
            return self._send(envelope)
        except (smtplib.SMTPServerDisconnected, ConnectionError):
            self.close()
            if is_fresh:
                return _server_fault("The connection was lost.")
        except _Trouble as trouble:
            self.close()
            return trouble.outcome
        except OSError as problem:
            # Includes smtplib's errors. Their texts may quote addresses, which ``rules`` removes.
            self.close()
            return _server_fault(_describe(problem))
        # The server had closed the idle connection before the message was sent: try a new connection.
        return self.send(envelope)

    def close(self) -> None:
        """Close the connection."""
        smtp, self._smtp = self._smtp, None
        if smtp is not None:
            with suppress(OSError, smtplib.SMTPException):
                if smtp.sock is not None:
                    smtp.sock.settimeout(2.0)
                smtp.quit()
            smtp.close()

    def abort(self) -> None:
        """Shut down the connection that another thread waits for, unless it is still connecting. The client
        sends nothing afterwards.
        """
        self._is_aborted = True
        smtp = self._smtp
        sock = None if smtp is None else smtp.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close_if_idle(self) -> None:
        """Close the connection if it has been idle for more than ``MAX_IDLE`` seconds."""
        if self._smtp is not None and monotonic() - self._used_at > MAX_IDLE:
            self.close()

    def _send(self, envelope: "Envelope") -> AttemptOutcome:
        if self._smtp is not None and self._messages >= _MAX_MESSAGES:
            self.close()
        if self._smtp is None:
            self._connect()
        smtp = self._smtp
        assert smtp is not None  # noqa: S101
        self._messages += 1
        try:
            outcome = self._offer(smtp, envelope)
            if outcome is None:
                outcome = self._transmit(smtp, envelope)
        finally:
            self._used_at = monotonic()
        if outcome.fate is not Fate.SENT and self._smtp is not None:
            # Reset for the next message, which will detect a lost connection.
            with suppress(OSError, smtplib.SMTPException):
                smtp.rset()
        return outcome

    def _connect(self) -> None:
        server = self._server
        context = ssl.create_default_context(cafile=server.ca_file)
        smtp = self._open(context)
        self._smtp, self._messages = smtp, 0
        try:
            smtp.ehlo_or_helo_if_needed()
            if server.needs_tls and not server.is_encrypted:
                if not smtp.has_extn("starttls"):
                    raise _Trouble(_server_fault("The server offers no STARTTLS."))
                smtp.starttls(context=context)
                smtp.ehlo()
            if server.user is not None and server.password is not None:
                smtp.login(server.user, server.password)
        except BaseException:
            self._smtp = None
            smtp.close()
            raise

    def _open(self, context: ssl.SSLContext) -> smtplib.SMTP:
        server = self._server
        try:
            if server.is_encrypted:
                return smtplib.SMTP_SSL(server.host, server.port, timeout=self._timeout, context=context)
            return smtplib.SMTP(server.host, server.port, timeout=self._timeout)
        except ConnectionRefusedError:
            sentence = "The server cannot be reached: nothing listens at its port."
            raise _Trouble(_server_fault(sentence)) from None

    def _offer(self, smtp: smtplib.SMTP, envelope: "Envelope") -> AttemptOutcome | None:
        """Send MAIL and RCPT. Returns an outcome if an address is refused."""
        options = []
        if envelope.needs_utf8:
            if not smtp.has_extn("smtputf8"):
                return AttemptOutcome(
                    Fate.REFUSED, "The server does not accept such addresses (no SMTPUTF8)."
                )
            options = ["SMTPUTF8", "BODY=8BITMIME"]
        code, text = smtp.mail(envelope.sender, options)
        if code != 250:
            # A refused sender is a problem of the settings, not of this mail.
            return self._judge(code, text, "sender", is_servers_fault=True)
        code, text = smtp.rcpt(envelope.recipient)
        return None if code in (250, 251) else self._judge(code, text, "recipient")

    def _transmit(self, smtp: smtplib.SMTP, envelope: "Envelope") -> AttemptOutcome:
        code, text = smtp.docmd("DATA")
        if code != 354:
            return self._judge(code, text, "message")
        try:
            # Lines that begin with a dot get another dot, and the last line is a dot (RFC 5321, 4.5.2).
            body = b"\r\n".join(
                b"." + line if line.startswith(b".") else line for line in envelope.message.split(b"\r\n")
            )
            smtp.send(body + (b".\r\n" if body.endswith(b"\r\n") else b"\r\n.\r\n"))
            assert smtp.sock is not None  # noqa: S101
            smtp.sock.settimeout(self._message_timeout)
            code, text = smtp.getreply()
            smtp.sock.settimeout(self._timeout)
        except (OSError, smtplib.SMTPException) as problem:
            raise _Trouble(
                AttemptOutcome(
                    Fate.UNANSWERED,
                    f"The server's answer did not arrive: {_describe(problem)}",
                    is_servers_fault=True,
                )
            ) from problem
        return _SENT if code == 250 else self._judge(code, text, "message")

    def _judge(self, code: int, text: bytes, what: str, *, is_servers_fault: bool = False) -> AttemptOutcome:
        """Return the outcome of an unsuccessful answer: 4xx is temporary, 5xx permanent."""
        answer = f"{code} {text.decode(errors='replace')}"
        if code == 421 or code < 400:
            raise _Trouble(_server_fault(f"The server ended the connection: {answer}"))
        is_for_good = code >= 500 and not is_servers_fault
        fate = Fate.REFUSED if is_for_good else Fate.DELAYED
        return AttemptOutcome(fate, f"The server refused the {what}: {answer}", is_servers_fault)


class _Trouble(Exception):
    """The connection is unusable."""

    def __init__(self, outcome: AttemptOutcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


def _server_fault(reason: str) -> AttemptOutcome:
    return AttemptOutcome(Fate.DELAYED, reason, is_servers_fault=True)


def _describe(problem: Exception) -> str:
    if isinstance(problem, smtplib.SMTPAuthenticationError):
        return f"The server refused the user or password: {problem.smtp_code}"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"The server's certificate cannot be verified: {problem.verify_message}"
    if isinstance(problem, TimeoutError):
        return "The server did not answer in time."
    if isinstance(problem, smtplib.SMTPResponseException):
        return f"The server answered {problem.smtp_code}."
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return str(problem) or type(problem).__name__
