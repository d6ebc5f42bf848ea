"""The vendor's own templates."""

from datetime import datetime

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
