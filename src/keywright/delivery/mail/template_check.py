"""Find the vendor's templates that cannot be used any more."""

from datetime import datetime

from keywright.db.transaction import ReadTransaction
from keywright.delivery.mail.defaults import Source, choose_language
from keywright.delivery.mail.letters import MailSettings, sample_values
from keywright.delivery.mail.message import render_source
from keywright.delivery.mail.sandbox import BadTemplate
from keywright.delivery.mail.store import list_templates
from keywright.languages import ENGLISH
from keywright.provisioning.brand import Brand


def list_unusable(tx: ReadTransaction, settings: MailSettings, now: datetime) -> list[str]:
    """A sentence about each template that plausible values cannot be put in."""
    values, found = sample_values(settings, now), list[str]()
    for own in list_templates(tx):
        language = choose_language(own.language, ENGLISH)
        source = Source(own.subject, own.text, own.html)
        try:
            render_source(source, values, language, Brand(), is_strict=True)
        except BadTemplate as problem:
            place = "every product" if not own.product_id else f"product {own.product_id}"
            found.append(
                f"your mail template {own.name.value} ({own.language}, {place}) cannot be used: "
                f"{problem.sentence.rstrip('.')}. The built-in one is sent instead; correct yours on the "
                "page of mail templates."
            )
    return found
