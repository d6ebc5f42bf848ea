"""The vendor's own templates, and the commands about them and the outbox."""

from datetime import datetime
from enum import Enum, auto

import msgspec

from keywright.core.command import Command
from keywright.events.model import MailTemplate

#: The product of a template that is for every product that has none of its own.
EVERY_PRODUCT = 0


class OwnTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A template of the vendor's, instead of the built-in one; in Jinja2. Without ``html``, that part of a
    mail is made from its text.
    """

    name: MailTemplate
    product_id: int
    language: str
    subject: str
    text: str
    html: str
    updated_at: datetime
    updated_by: int | None


class Fate(Enum):
    """What an attempt to send a mail has come to. ``UNANSWERED``: the SMTP server had all of it, and its
    answer did not arrive.
    """

    SENT = auto()
    DELAYED = auto()
    UNANSWERED = auto()
    REFUSED = auto()
    DROPPED = auto()


class AttemptOutcome(msgspec.Struct, frozen=True):
    """The outcome of an attempt; ``reason`` has no address in it."""

    fate: Fate
    reason: str | None = None
    #: Something else than this mail is in the way: the server cannot be reached, or refuses to work.
    is_servers_fault: bool = False


class FinishMail(Command, frozen=True, kw_only=True):
    """Write what an attempt to send a mail has come to."""

    mail_id: int
    claimed_by: str
    outcome: AttemptOutcome


class SendAgain(Command, frozen=True, kw_only=True):
    """Let a mail wait again that was given up or held; queue a copy of one that was sent."""

    mail_id: int


class DecideHeld(Command, frozen=True, kw_only=True):
    """Let mails wait again that a restored backup contained, or drop them: some of them."""

    is_sent: bool


class QueueSample(Command, frozen=True, kw_only=True):
    """Queue a test mail with sample values to a user of the pages."""

    user_id: int
    template: MailTemplate
    product_id: int | None
    language: str


class SaveTemplate(Command, frozen=True, kw_only=True):
    """Save a template of the vendor's."""

    name: MailTemplate
    product_id: int
    language: str
    subject: str
    text: str
    html: str


class DeleteTemplate(Command, frozen=True, kw_only=True):
    """Delete a template of the vendor's: the built-in one is used again."""

    name: MailTemplate
    product_id: int
    language: str


class PurgeMails(Command, frozen=True, kw_only=True):
    """Delete some mails that were finished before this moment, and give up those that wait for so long."""

    is_internal = True

    keep_days: int


class Unsubscribe(Command, frozen=True, kw_only=True):
    """A customer wants no reminders any more, or wants them again."""

    customer_id: int
    is_unsubscribed: bool = True


class Resumed(msgspec.Struct, frozen=True):
    """How many held mails were decided, and whether more are left."""

    decided: int
    is_complete: bool
