"""The vendor's templates, and the commands for them and the outbox."""

from datetime import datetime
from enum import Enum, auto

import msgspec

from keywright.core.command import Command
from keywright.events.model import MailTemplate

#: The product ID of a template for all products that have no template of their own.
EVERY_PRODUCT = 0


class OwnTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A Jinja2 template of the vendor, which replaces the built-in template. If ``html`` is empty, the HTML
    part of a mail is generated from its text.
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
    """The result of an attempt to send a mail. ``UNANSWERED``: the SMTP server may have received all of it,
    but its answer did not arrive.
    """

    SENT = auto()
    DELAYED = auto()
    UNANSWERED = auto()
    REFUSED = auto()
    DROPPED = auto()


class AttemptOutcome(msgspec.Struct, frozen=True):
    """The outcome of an attempt to send a mail. Addresses in ``reason`` are removed before it is stored."""

    fate: Fate
    reason: str | None = None
    #: Whether the SMTP server caused the failure, not this mail: it is unreachable or refuses all mails.
    is_servers_fault: bool = False


class FinishMail(Command, frozen=True, kw_only=True):
    """Save the outcome of an attempt to send a mail."""

    mail_id: int
    claimed_by: str
    outcome: AttemptOutcome


class SendAgain(Command, frozen=True, kw_only=True):
    """Queue a mail again: a sent mail as a copy, any other itself."""

    mail_id: int


class DecideHeld(Command, frozen=True, kw_only=True):
    """Send or drop a batch of the mails that a restored backup contained."""

    is_sent: bool


class QueueSample(Command, frozen=True, kw_only=True):
    """Queue a test mail with sample values to a user of the admin pages."""

    user_id: int
    template: MailTemplate
    product_id: int | None
    language: str


class SaveTemplate(Command, frozen=True, kw_only=True):
    """Save a template of the vendor."""

    name: MailTemplate
    product_id: int
    language: str
    subject: str
    text: str
    html: str


class DeleteTemplate(Command, frozen=True, kw_only=True):
    """Delete a template of the vendor, so that the built-in template is used again."""

    name: MailTemplate
    product_id: int
    language: str


class PurgeMails(Command, frozen=True, kw_only=True):
    """Delete a batch of mails finished at least ``keep_days`` ago, and give up mails that waited as long."""

    is_internal = True

    keep_days: int


class Unsubscribe(Command, frozen=True, kw_only=True):
    """Unsubscribe a customer from reminders, or subscribe the customer again."""

    customer_id: int
    is_unsubscribed: bool = True


class Resumed(msgspec.Struct, frozen=True):
    """The number of held mails that were decided, and whether none are left."""

    decided: int
    is_complete: bool
