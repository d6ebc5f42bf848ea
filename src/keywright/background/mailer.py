"""Send what waits in the outbox, beside the calls that this server process answers.

One mail at a time: its claim is durable before a byte goes to the SMTP server, and its outcome before the
next one is claimed. So a mail is sent twice only if the server's answer, or this process, was lost between
the two; then its next attempt counts that. Rendering and sending happen in a thread with a connection of its
own.
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

#: The pause until an outcome that could not be written is written again, in seconds.
_PAUSE = 1.0
#: The pauses after the server could not be used, in seconds: twice as long each time.
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
#: How long a mail in progress may take while the process stops, in seconds.
_LAST_TIMEOUT = 5.0
_UNEXPECTED = AttemptOutcome(Fate.DELAYED, "An unexpected error; the server's log has more.")

log = logging.getLogger(__name__)


def mail_settings_of(settings: Settings) -> MailSettings:
    """What these settings define for every mail."""
    name, address = parseaddr(settings.mail_from or "")
    return MailSettings(name or address.rpartition("@")[2], settings.public_url, settings.mail_language)


def send_test_mail(settings: Settings, address: str, now: datetime) -> AttemptOutcome:
    """Send a mail with sample values at once, without the outbox. Slow: it waits for the SMTP server. Raises
    ``ValueError`` for an address that no mail can have.
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
        #: The connection to the server that the settings name; they may name another one later.
        self._server: SmtpServer | None = None
        self._client: SmtpClient | None = None
        self._pause = 0.0
        #: The attempts of this process by what they came to, for the metrics.
        self.counts: Counter[Fate] = Counter()

    def is_ready(self) -> bool:
        """Whether there is a server that sends mails."""
        return self._settings.smtp_url is not None

    def stop(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Finish the mail in progress."""
        self._aside.stop()
        if self._client is not None:
            self._aside.call_later(_LAST_TIMEOUT, self._client.abort)

    async def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            await self._aside.run(self._client.close)
        await self._aside.close()

    async def work(self, item: Item) -> float:
        """Send a mail."""
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
        """Send a mail."""
        try:
            return await self._aside.run(partial(self._send, mail))
        except Unavailable as fault:
            return AttemptOutcome(Fate.DELAYED, f"The database: {fault.code}")
        except Exception as problem:
            log.error("mail %d met an unexpected error", mail.id, exc_info=problem)
            return _UNEXPECTED

    def _send(self, mail: OutboxMail) -> AttemptOutcome:
        """Read, render and send a mail. In the thread."""
        # A server that sends no mail loads no templates.
        from keywright.delivery.mail import message

        client = self._connect()
        if client is None:
            return AttemptOutcome(Fate.DELAYED, "There is no mail server any more.", is_servers_fault=True)
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
        """The client of the server that the settings name now. In the thread."""
        server = self._settings.smtp_server
        if server != self._server and self._client is not None:
            self._client.close()
        if server != self._server:
            self._server, self._client = server, None if server is None else SmtpClient(server)
        return self._client

    def _note_server(self, outcome: AttemptOutcome) -> None:
        """Leave a server alone for a while that cannot be used."""
        if not outcome.is_servers_fault:
            self._pause = 0.0
            return
        if not self._pause:
            log.warning("the SMTP server could not be used: %s", without_addresses(outcome.reason or ""))
        self._pause = min(max(_FIRST_PAUSE, self._pause * 2), _MAX_PAUSE)

    async def _finish(self, mail: OutboxMail, outcome: AttemptOutcome) -> None:
        """Write the outcome, again and again until the database takes it."""
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
