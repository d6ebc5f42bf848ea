"""The vendor's own templates."""

from datetime import datetime
from enum import Enum, auto

import msgspec

from keywright.events.outbox.model import MailTemplate

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
