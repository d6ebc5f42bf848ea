"""The commands of the outbox, and of templates."""

import msgspec

from keywright.core.command import Command
from keywright.delivery.mail.model import AttemptOutcome
from keywright.events.outbox.model import MailTemplate


class FinishMail(Command, frozen=True, kw_only=True):
    """Write what an attempt to send a mail has come to."""

    mail_id: int
    claimed_by: str
    outcome: AttemptOutcome


class SendAgain(Command, frozen=True, kw_only=True):
    """Let a mail wait again that was given up or held; queue a copy of one that was sent."""

    mail_id: int


class DecideHeld(Command, frozen=True, kw_only=True):
    """Let mails wait again that a restored backup has brought, or drop them: some of them."""

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
