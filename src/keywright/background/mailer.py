"""Send the mails in the outbox, while this server process answers calls.

One mail at a time: its claim is durable before the first byte goes to the SMTP server, and its outcome before
the next mail is claimed. So a mail is sent twice only if the server's answer is lost, or this process ends,
between the two; the next attempt counts that. A thread with its own connection renders and sends the mails.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection
from contextlib import closing
from datetime import datetime
from email.utils import parseaddr
from functools import partial
from secrets import token_hex

from keywright.background.loops import ORIGIN, Aside, read_clock
from keywright.background.queue import Handler, Queue
from keywright.config import Settings
from keywright.config.groups import SmtpServer
from keywright.core.command import Context
from keywright.core.errors import KeywrightError, ShuttingDown, Unavailable
from keywright.db import Storage, run_read
from keywright.delivery.mail import letters, store
from keywright.delivery.mail.letters import MailSettings
from keywright.delivery.mail.model import AttemptOutcome, Fate, FinishMail
from keywright.delivery.mail.rules import without_addresses
from keywright.delivery.mail.smtp import MAX_IDLE, SmtpClient
from keywright.engine.desk import Desk
from keywright.engine.queue import Item
from keywright.events.model import OutboxMail

#: The pause before an outcome that could not be saved is saved again, in seconds.
_PAUSE = 1.0
#: The first and the longest pause after a failure of the SMTP server, in seconds; each failure doubles it.
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
#: The timeout of the mail in progress while the process stops, in seconds.
_LAST_TIMEOUT = 5.0
_UNEXPECTED = AttemptOutcome(Fate.DELAYED, "An unexpected error; see the server's log.")

log = logging.getLogger(__name__)


def mail_settings_of(settings: Settings) -> MailSettings:
    """Return the settings that apply to every mail."""
    name, address = parseaddr(settings.mail_from or "")
    return MailSettings(name or address.rpartition("@")[2], settings.public_url, settings.mail_language)


def send_test_mail(settings: Settings, address: str, now: datetime) -> AttemptOutcome:
    """Send a mail with sample values at once, bypassing the outbox. Slow: it waits for the SMTP server.

    Raises ``ValueError`` for an address to which no mail can be sent.
    """
    from keywright.delivery.mail import message

    server = settings.smtp_server
    if server is None:
        return AttemptOutcome(Fate.REFUSED, "There is no mail server.")
    letter = letters.sample_letter(mail_settings_of(settings), address, now)
    envelope = message.build_envelope(
        letter,
        message.compose(letter),
        mail_from=settings.mail_from or "",
        message_id=token_hex(16),
        now=now,
    )
    with closing(SmtpClient(server)) as client:
        return client.send(envelope)


class Mailer(Handler):
    """Claims mails and sends them, one at a time. Belongs to one event loop."""

    kind, name, most, needs_clock = store.MAILS, "mail", 1, True

    def __init__(self, desk: Desk, storage: Storage, settings: Settings, queue: Queue) -> None:
        self._desk = desk
        self._settings = settings
        self._queue = queue
        self._aside = Aside(storage, "mail")
        #: The SMTP server of the settings, which may change, and its connection.
        self._server: SmtpServer | None = None
        self._client: SmtpClient | None = None
        self._pause = 0.0
        #: The attempts of this process by outcome, for the metrics.
        self.counts: Counter[Fate] = Counter()

    def is_ready(self) -> bool:
        """Return whether an SMTP server is set."""
        return self._settings.smtp_url is not None

    def stop(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Let the mail in progress finish, within a timeout."""
        self._aside.stop()
        if self._client is not None:
            self._aside.call_later(_LAST_TIMEOUT, self._client.abort)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._aside.run(self._client.close)
        await self._aside.close()

    async def work(self, item: Item) -> float:
        """Claim a mail, send it, and save the outcome."""
        mail: OutboxMail | None = await self._queue.claim(self.kind, item)
        if mail is None:
            return _PAUSE
        outcome = await self._attempt(mail)
        self.counts[outcome.fate] += 1
        self._note_server(outcome)
        await self._finish(mail, outcome)
        if not self._queue.is_stopping.is_set():
            self._aside.cancel_calls()
            if self._client is not None:
                self._aside.call_later(MAX_IDLE + 1, self._aside.run, self._client.close_if_idle)
        return self._pause

    async def _attempt(self, mail: OutboxMail) -> AttemptOutcome:
        """Send a mail in the thread; an error becomes an outcome."""
        try:
            return await self._aside.run(partial(self._send, mail))
        except Unavailable as fault:
            return AttemptOutcome(Fate.DELAYED, f"The database: {fault.code}")
        except Exception as problem:
            log.error("mail %d met an unexpected error", mail.id, exc_info=problem)
            return _UNEXPECTED

    def _send(self, mail: OutboxMail) -> AttemptOutcome:
        """Read, render and send a mail. Runs in the thread."""
        # Imported here: a server that sends no mail needs no templates.
        from keywright.delivery.mail import message

        client = self._connect()
        if client is None:
            return AttemptOutcome(Fate.DELAYED, "There is no longer a mail server.", is_servers_fault=True)
        now = read_clock()
        mail_settings = mail_settings_of(self._settings)
        read = partial(letters.read_letter, mail=mail, settings=mail_settings, now=now)
        letter = run_read(self._aside.storage, read)
        if isinstance(letter, AttemptOutcome):
            return letter
        composed = message.compose(letter)
        try:
            envelope = message.build_envelope(
                letter,
                composed,
                mail_from=self._settings.mail_from or "",
                message_id=mail.message_id,
                now=now,
            )
        except ValueError:
            return AttemptOutcome(Fate.REFUSED, "No mail can be sent to this address.")
        outcome = client.send(envelope)
        is_sent = outcome.fate is Fate.SENT
        return AttemptOutcome(Fate.SENT, composed.problem) if is_sent and composed.problem else outcome

    def _connect(self) -> SmtpClient | None:
        """Return the client of the SMTP server in the current settings. Runs in the thread."""
        server = self._settings.smtp_server
        if server != self._server and self._client is not None:
            self._client.close()
        if server != self._server:
            self._server, self._client = server, None if server is None else SmtpClient(server)
        return self._client

    def _note_server(self, outcome: AttemptOutcome) -> None:
        """Back off from an SMTP server that failed."""
        if not outcome.is_servers_fault:
            self._pause = 0.0
            return
        if not self._pause:
            log.warning("the SMTP server could not be used: %s", without_addresses(outcome.reason or ""))
        self._pause = min(max(_FIRST_PAUSE, self._pause * 2), _MAX_PAUSE)

    async def _finish(self, mail: OutboxMail, outcome: AttemptOutcome) -> None:
        """Save the outcome; retry until the database accepts it."""
        while True:
            command = FinishMail(
                context=Context(read_clock(), ORIGIN),
                mail_id=mail.id,
                claimed_by=self._queue.name,
                outcome=outcome,
            )
            try:
                await self._desk.execute(command)
            except ShuttingDown:
                raise
            except Unavailable as fault:
                if self._queue.is_stopping.is_set():
                    raise
                log.warning("what became of mail %d cannot be written: %s", mail.id, fault.code)
                await asyncio.sleep(_PAUSE)
            except KeywrightError as fault:
                if outcome is _UNEXPECTED:
                    raise
                log.error("what became of mail %d cannot be written: %s", mail.id, fault.code)
                outcome = _UNEXPECTED
            else:
                return
