"""Send what waits in the outbox, beside the calls that this server process answers.

One mail at a time: its claim is durable before a byte goes to the SMTP server, and its outcome before the
next one is claimed. So a mail is sent twice only if the server's answer, or this process, was lost between
the two; then its next attempt counts that. Rendering and sending happen in a thread with a connection of its
own.
"""

import asyncio
import logging
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from email.utils import parseaddr
from functools import partial
from time import monotonic
from typing import TypeVar

from keywright.background.loops import ORIGIN, READ_TIMEOUT, Waits, interrupting, read_clock
from keywright.background.watch import Bell, Watch
from keywright.config import Settings
from keywright.core.command import Context
from keywright.core.errors import KeywrightError, ShuttingDown, Unavailable
from keywright.db import ReadTransaction, Storage, run_read
from keywright.delivery.mail import letters, store
from keywright.delivery.mail.commands import ClaimMail, FinishMail, HoldMail
from keywright.delivery.mail.letters import MailSettings
from keywright.delivery.mail.model import AttemptOutcome, Fate, MailClaim
from keywright.delivery.mail.rules import without_addresses
from keywright.delivery.mail.smtp import SmtpClient
from keywright.engine.claims import Claims
from keywright.engine.desk import Desk
from keywright.events.outbox.model import OutboxMail

Answer = TypeVar("Answer")

#: The pause until an outcome that could not be written is written again, in seconds.
_PAUSE = 1.0
#: How often the claim on a mail is renewed, in seconds.
_HOLD_INTERVAL = 1.5
#: The pauses after the server could not be used, in seconds: twice as long each time.
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
#: How long a mail in progress may take while the process stops, in seconds.
_LAST_TIMEOUT = 5.0
_UNEXPECTED = AttemptOutcome(Fate.DELAYED, "An unexpected error; the server's log says more.")

log = logging.getLogger(__name__)


def mail_settings_of(settings: Settings) -> MailSettings:
    """What these settings say about every mail."""
    name, address = parseaddr(settings.mail_from or "")
    return MailSettings(name or address.rpartition("@")[2], settings.public_url, settings.mail_language)


class Mailer:
    """Claims mails and sends them, from when it is made. Belongs to one event loop."""

    def __init__(self, desk: Desk, storage: Storage, settings: Settings, watch: Watch, bell: Bell) -> None:
        """Without an SMTP server in the settings, mails wait; also while the clock is in doubt."""
        self._desk = desk
        self._settings = settings
        self._is_clock_right = watch.is_clock_right
        self._mail_settings = mail_settings_of(settings)
        self._name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._claims: Claims[MailClaim] = Claims(self._name)
        self._waits = Waits("mails have to wait")
        self._loop = asyncio.get_running_loop()
        self._bell = bell
        self._is_stopping = False
        self._pause_until, self._pause = 0.0, 0.0
        #: The attempts of this process by what they came to, for the metrics.
        self.counts: Counter[Fate] = Counter()
        self._task: asyncio.Task[None] | None = None
        if settings.smtp_server is not None:
            self._storage = storage.clone()
            self._client = SmtpClient(settings.smtp_server)
            watch.add(store.WAITING, bell)
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="mail")
            self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Finish the mail in progress. The desk must still be open."""
        if self._task is None:
            return
        self._is_stopping = True
        self._bell.ring()
        timeout = self._loop.call_later(_LAST_TIMEOUT, self._client.abort)
        with interrupting(self._storage):
            await asyncio.wait([self._task])
        timeout.cancel()
        await self._in_thread(self._client.close)
        await self._in_thread(self._storage.close)
        self._thread.shutdown()

    async def _run(self) -> None:
        while not self._is_stopping:
            has_worked = False
            try:
                can_work = monotonic() >= self._pause_until and self._is_clock_right()
                has_worked = can_work and await self._work()
                self._waits.reset()
            except ShuttingDown:
                return
            except Unavailable as fault:
                self._waits.log(fault)
            except Exception as problem:
                self._waits.log_unexpected(problem)
            if not has_worked and not self._is_stopping:
                await self._bell.wait()

    async def _work(self) -> bool:
        """Send a mail. Returns False when there is none."""
        over = self._claims.find_over(await self._read(store.list_claims))
        if not over and not await self._read(partial(store.is_any_due, now=read_clock())):
            await self._in_thread(self._client.close_if_idle)
            return False
        command = ClaimMail(context=Context(read_clock(), ORIGIN), claimed_by=self._name, over=over)
        mail: OutboxMail | None = await self._desk.execute(command)
        if mail is None:
            return False
        outcome = await self._attempt(mail)
        self.counts[outcome.fate] += 1
        self._note_server(outcome)
        await self._finish(mail, outcome)
        return True

    async def _attempt(self, mail: OutboxMail) -> AttemptOutcome:
        """Send a mail, and renew the claim on it meanwhile."""
        sending = self._loop.run_in_executor(self._thread, self._send, mail)
        while not (await asyncio.wait([sending], timeout=_HOLD_INTERVAL))[0]:
            with suppress(Unavailable):
                hold = HoldMail(context=Context(read_clock(), ORIGIN), mail_id=mail.id, claimed_by=self._name)
                await self._desk.execute(hold)
        try:
            return sending.result()
        except Unavailable as fault:
            return AttemptOutcome(Fate.DELAYED, f"The database: {fault.code}")
        except Exception as problem:
            log.error("mail %d met an unexpected error", mail.id, exc_info=problem)
            return _UNEXPECTED

    def _send(self, mail: OutboxMail) -> AttemptOutcome:
        """Read, render and send a mail. In the thread."""
        # A server that sends no mail loads no templates.
        from keywright.delivery.mail import message

        now = read_clock()
        letter = run_read(
            self._storage, partial(letters.read_letter, mail=mail, settings=self._mail_settings, now=now)
        )
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
        outcome = self._client.send(envelope)
        is_sent = outcome.fate is Fate.SENT
        return AttemptOutcome(Fate.SENT, composed.problem) if is_sent and composed.problem else outcome

    def _note_server(self, outcome: AttemptOutcome) -> None:
        """Leave a server alone for a while that cannot be used."""
        if not outcome.is_servers_fault:
            self._pause = 0.0
            return
        if not self._pause:
            log.warning("the SMTP server could not be used: %s", without_addresses(outcome.reason or ""))
        self._pause = min(max(_FIRST_PAUSE, self._pause * 2), _MAX_PAUSE)
        self._pause_until = monotonic() + self._pause

    async def _finish(self, mail: OutboxMail, outcome: AttemptOutcome) -> None:
        """Write the outcome, again and again until the database takes it."""
        while True:
            command = FinishMail(
                context=Context(read_clock(), ORIGIN),
                mail_id=mail.id,
                claimed_by=self._name,
                outcome=outcome,
            )
            try:
                await self._desk.execute(command)
            except ShuttingDown:
                raise
            except Unavailable as fault:
                if self._is_stopping:
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

    async def _read(self, question: Callable[[ReadTransaction], Answer]) -> Answer:
        with interrupting(self._storage, READ_TIMEOUT):
            return await self._in_thread(partial(run_read, self._storage, question))

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        return await self._loop.run_in_executor(self._thread, work)


@asynccontextmanager
async def sending_mails(
    desk: Desk, storage: Storage, settings: Settings, watch: Watch, bell: Bell
) -> AsyncIterator[Mailer]:
    """Send mails until the end of the block; the bell rings when one was queued."""
    mailer = Mailer(desk, storage, settings, watch, bell)
    try:
        yield mailer
    finally:
        await mailer.stop()
