"""Renders a letter into a message: headers, text and HTML, as bytes for SMTP (RFC 5322, 2046, 8058)."""

from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from io import BytesIO
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from markupsafe import Markup

from keywright.db.transaction import ReadTransaction
from keywright.delivery.mail import html, sandbox
from keywright.delivery.mail.defaults import Source, choose_language
from keywright.delivery.mail.letters import Attachment, Letter, MailSettings, sample_values
from keywright.delivery.mail.sandbox import BadTemplate
from keywright.delivery.mail.store import list_templates
from keywright.languages import ENGLISH, Language
from keywright.provisioning.brand import Brand

_MAX_SUBJECT = 200
_MAX_ATTACHMENTS = 10
_POLICY = SMTP.clone(max_line_length=76)
_UTF8_POLICY = _POLICY.clone(utf8=True)


class Composed(NamedTuple):
    """The rendered parts of a mail. ``problem`` states why the vendor's template could not be used."""

    subject: str
    text: str
    html: str
    problem: str | None = None


class Envelope(NamedTuple):
    """A message with its addresses for the SMTP server. ``needs_utf8``: it requires SMTPUTF8 (RFC 6531)."""

    sender: str
    recipient: str
    message: bytes
    needs_utf8: bool


def compose(letter: Letter) -> Composed:
    """Render a letter. If the vendor's template fails, use the built-in one."""
    if letter.own is not None:
        try:
            return render_source(letter.own, letter.values, letter.language, letter.brand)
        except BadTemplate as problem:
            composed = render_source(letter.built_in, letter.values, letter.language, letter.brand)
            return composed._replace(problem=f"Your template could not be used: {problem.sentence}")
    return render_source(letter.built_in, letter.values, letter.language, letter.brand)


def render_source(
    source: Source, values: Mapping[str, Any], language: Language, brand: Brand, *, is_strict: bool = False
) -> Composed:
    """Render a template. Raises ``BadTemplate``."""
    code = language.code
    subject = " ".join(sandbox.render(source.subject, values, code, is_strict=is_strict).split())
    text = sandbox.render(source.text, values, code, is_strict=is_strict).strip() + "\n"
    if source.html.strip():
        page = sandbox.render(source.html, values, code, is_html=True, is_strict=is_strict)
        body = Markup(page)  # noqa: S704
    else:
        body = html.from_text(text)
    if not body.lstrip()[:9].lower().startswith(("<!doctype", "<html")):
        framed = html.frame(body, title=subject, brand=brand, vendor=values["vendor"], language=code)
    else:
        framed = str(body)
    return Composed(_printable(subject)[:_MAX_SUBJECT], text, framed)


def build_envelope(
    letter: Letter, composed: Composed, *, mail_from: str, message_id: str, now: datetime
) -> Envelope:
    """Build the message. Raises ``ValueError`` for an unusable address."""
    sender_name, sender = parseaddr(mail_from)
    try:
        recipient = _to_ascii_domain(letter.address)
        message = EmailMessage(policy=_POLICY if recipient.isascii() else _UTF8_POLICY)
        message["From"] = Address(_printable(sender_name), addr_spec=sender)
        message["To"] = Address(_printable(letter.name or ""), addr_spec=recipient)
    except (MessageError, ValueError, IndexError) as problem:
        raise ValueError("the address cannot be used") from problem
    message["Subject"] = composed.subject
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2]}>"
    if letter.brand.reply_to is not None:
        message["Reply-To"] = Address(addr_spec=_to_ascii_domain(letter.brand.reply_to))
    message["Auto-Submitted"] = "auto-generated"
    message["Content-Language"] = letter.language.code
    if letter.unsubscribe_url is not None:
        message["List-Unsubscribe"] = f"<{letter.unsubscribe_url}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(composed.text, cte="quoted-printable")
    message.add_alternative(composed.html, subtype="html", cte="quoted-printable")
    if letter.brand.logo is not None and html.LOGO in composed.html:
        main, _, kind = (letter.brand.logo_type or "").partition("/")
        page: Any = message.get_payload(1)
        page.add_related(b64decode(letter.brand.logo), main, kind, cid="<logo>", disposition="inline")
    _attach(message, letter.attachments)
    return Envelope(sender, recipient, message.as_bytes(), not recipient.isascii())


def _attach(message: EmailMessage, attachments: tuple[Attachment, ...]) -> None:
    """Attach the files; more than ``_MAX_ATTACHMENTS`` as one ZIP archive."""
    if len(attachments) <= _MAX_ATTACHMENTS:
        for one in attachments:
            message.add_attachment(one.content, "text", "plain", filename=one.name)
        return
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for one in attachments:
            archive.writestr(one.name, one.content)
    message.add_attachment(packed.getvalue(), "application", "zip", filename="license-files.zip")


def _to_ascii_domain(address: str) -> str:
    local, _, domain = address.rpartition("@")
    return f"{local}@{domain.encode('idna').decode('ascii')}" if not domain.isascii() else address


def _printable(text: str) -> str:
    """Return the text on one line and without control characters, as a header needs it."""
    return "".join(one if one.isprintable() else " " for one in " ".join(text.split())).strip()


def list_unusable(tx: ReadTransaction, settings: MailSettings, now: datetime) -> list[str]:
    """Return a sentence about each of the vendor's templates that cannot be rendered with sample values."""
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
