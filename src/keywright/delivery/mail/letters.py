"""The contents of a mail, read when it is sent, from the IDs in the outbox."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from keywright.core.crypto import mask
from keywright.db import ReadTransaction
from keywright.delivery.mail import rules
from keywright.delivery.mail.defaults import Source, built_in, choose_language
from keywright.delivery.mail.model import AttemptOutcome, Fate
from keywright.delivery.mail.rules import greetable_name
from keywright.delivery.mail.store import find_template, is_unsubscribed
from keywright.delivery.webhooks.model import DisabledReason
from keywright.delivery.webhooks.rules import short_url
from keywright.delivery.webhooks.store import WEBHOOKS
from keywright.events.model import MailTemplate, OutboxMail
from keywright.identity import passwords
from keywright.identity.store import find_user_by_id
from keywright.jobs.making_files import find_files
from keywright.languages import ENGLISH, Language
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.keys import make_license_ref
from keywright.licensing.licenses.model import License, LicenseFilter, Status
from keywright.licensing.licenses.store import find_licenses_by_id, list_licenses
from keywright.licensing.updates.model import ReleaseState
from keywright.licensing.updates.notices import NoticeState
from keywright.licensing.updates.store import NOTICES, find_release
from keywright.licensing.views_store import Views
from keywright.provisioning.brand import Brand
from keywright.provisioning.ownership.store import list_offered_to
from keywright.provisioning.portal.store import find_sign_in
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import CUSTOMERS, find_brand, names_of

#: The most licenses in one mail.
MAX_SHOWN = 100
_OF_NOTICE = ("title", "text", "url", "affected", "fixed_in", "is_security")
_REMINDERS = (MailTemplate.EXPIRING, MailTemplate.EXPIRED)
#: Mails about a license that is not the recipient's. They contain nothing of it but its product.
_OF_OTHERS = frozenset((MailTemplate.LICENSE_OFFERED, MailTemplate.LICENSE_GIVEN))
_ABOUT_LICENSES = (
    frozenset(MailTemplate)
    - {MailTemplate.SIGN_IN_CODE, MailTemplate.ENDPOINT_DISABLED, MailTemplate.NOTICE}
    - {MailTemplate.LICENSE_FILES}
    - _OF_OTHERS
)


class MailSettings(NamedTuple):
    """The settings for all mails: the vendor's name, the server's public URL, and the default language."""

    vendor: str
    public_url: str | None
    language: str


class Attachment(NamedTuple):
    """A file attached to a mail."""

    name: str
    content: bytes


class Letter(NamedTuple):
    """A mail that is ready to be rendered. ``own`` is the vendor's template."""

    address: str
    name: str | None
    language: Language
    own: Source | None
    built_in: Source
    values: Mapping[str, Any]
    brand: Brand
    unsubscribe_url: str | None
    attachments: tuple[Attachment, ...] = ()


class _Recipient(NamedTuple):
    address: str
    name: str | None
    language: str | None


def read_letter(
    tx: ReadTransaction, mail: OutboxMail, settings: MailSettings, now: datetime
) -> Letter | AttemptOutcome:
    """Return the letter to send, or the outcome that states why none is sent."""
    recipient = _find_recipient(tx, mail)
    if not isinstance(recipient, _Recipient):
        return recipient
    brand = find_brand(tx)
    settings = settings._replace(vendor=brand.name or settings.vendor)
    language = choose_language(mail.language or recipient.language, settings.language)
    is_sample = mail.subject.is_sample
    values = sample_values(settings, now) if is_sample else _read_values(tx, mail, settings, now)
    if isinstance(values, AttemptOutcome):
        return values
    values["customer"] = {"name": _line(recipient.name)}
    unsubscribe_url = _unsubscribe_url(tx, mail, settings, language.code)
    values["unsubscribe_url"] = unsubscribe_url
    own = find_template(tx, mail.template, mail.product_id, language.code)
    return Letter(
        recipient.address,
        recipient.name,
        language,
        None if own is None else Source(own.subject, own.text, own.html),
        built_in(mail.template, language),
        values,
        brand,
        unsubscribe_url,
        tuple(Attachment(one["name"], one["content"]) for one in values["files"] if "content" in one),
    )


def _find_recipient(tx: ReadTransaction, mail: OutboxMail) -> _Recipient | AttemptOutcome:
    if mail.user_id is not None:
        user = find_user_by_id(tx, mail.user_id)
        if user is None or user.email is None or user.disabled_at is not None:
            return AttemptOutcome(Fate.DROPPED, "The user has no e-mail address, or is disabled.")
        return _Recipient(user.email, None, user.language)
    customer = CUSTOMERS.find(tx, mail.customer_id or 0)
    if customer is None and mail.subject.sign_in_id is not None:
        sign_in = find_sign_in(tx, int(mail.subject.sign_in_id))
        if sign_in is not None and sign_in.email is not None:
            return _Recipient(sign_in.email, None, None)
    if customer is None or customer.email is None:
        return AttemptOutcome(Fate.DROPPED, "The customer has no e-mail address.")
    if mail.template in _REMINDERS and is_unsubscribed(tx, customer.id):
        return AttemptOutcome(Fate.DROPPED, "The customer unsubscribed from reminders.")
    return _Recipient(customer.email, greetable_name(customer.name), customer.language)


def _read_values(
    tx: ReadTransaction, mail: OutboxMail, settings: MailSettings, now: datetime
) -> dict[str, Any] | AttemptOutcome:
    licenses = _find_licenses(tx, mail)
    if mail.template in _ABOUT_LICENSES:
        licenses = [
            one
            for one in licenses
            if one.customer_id in (None, mail.customer_id) and _is_worth_a_word(mail.template, one, now)
        ]
        if not licenses:
            return AttemptOutcome(Fate.DROPPED, "The reason for the mail no longer applied to its licenses.")
    shown = [] if mail.template in _OF_OTHERS else licenses
    values = _common_values(settings) | _license_values(tx, shown, settings, mail.product_id)
    if mail.template is MailTemplate.LICENSE_OFFERED:
        values["offered_by"] = _find_offering(tx, mail, now)
    if values["offered_by"] is None:
        return AttemptOutcome(Fate.DROPPED, "The license is no longer offered.")
    if mail.template is MailTemplate.SIGN_IN_CODE:
        if mail.subject.sign_in_id is None:
            return AttemptOutcome(Fate.DROPPED, "The sign-in no longer exists.")
        # The code of a person who is not a customer yet needs the license key, which only the browser has.
        has_link = (mail.customer_id or 0) >= 0
        values |= _sign_in_values(tx, mail.subject.sign_in_id, settings if has_link else None)
    more = _values_of_others(tx, mail, settings)
    return more if isinstance(more, AttemptOutcome) else values | more


def _values_of_others(
    tx: ReadTransaction, mail: OutboxMail, settings: MailSettings
) -> dict[str, Any] | AttemptOutcome:
    """Return the values of a mail that is not about licenses."""
    if mail.subject.endpoint_id is not None:
        return _endpoint_values(tx, mail.subject.endpoint_id, settings)
    if mail.subject.job_id is not None:
        return _file_values(tx, mail, mail.subject.job_id, settings)
    return {} if mail.subject.notice_id is None else _notice_values(tx, mail.subject.notice_id)


def _notice_values(tx: ReadTransaction, notice_id: int) -> dict[str, Any] | AttemptOutcome:
    notice = NOTICES.find(tx, notice_id)
    if notice is None or notice.state is not NoticeState.PUBLISHED:
        return AttemptOutcome(Fate.DROPPED, "The notice is no longer published.")
    fix = None if notice.fixed_in is None else find_release(tx, notice.product_id, notice.fixed_in)
    is_free = fix is not None and fix.state is ReleaseState.PUBLISHED and fix.is_free_for_expired
    shown = {name: getattr(notice, name) for name in _OF_NOTICE}
    return {"notice": shown | {"severity": notice.severity.value, "is_free_for_expired": is_free}}


def _file_values(
    tx: ReadTransaction, mail: OutboxMail, job_id: int, settings: MailSettings
) -> dict[str, Any] | AttemptOutcome:
    files = find_files(tx, job_id, mail.subject.parts, mail.customer_id or 0)
    if not files:
        return AttemptOutcome(Fate.DROPPED, "None of its license files exists, or is useful to the customer.")
    numbers = {one.product_id for one in files if one.product_id is not None}
    names = names_of(tx, NameKind.PRODUCT, numbers)
    shown = [
        {
            "name": one.name,
            "product": _line(names.get(one.product_id or 0)) or settings.vendor,
            "mask": mask(one.license_key),
            "device": _line(one.device or one.fingerprint),
            "valid_until": one.valid_until,
            "content": one.file.encode(),
        }
        for one in files
    ]
    products = ", ".join(dict.fromkeys(str(one["product"]) for one in shown))
    return {"files": shown, "product": products}


def _endpoint_values(
    tx: ReadTransaction, endpoint_id: int, settings: MailSettings
) -> dict[str, Any] | AttemptOutcome:
    endpoint = WEBHOOKS.find(tx, endpoint_id)
    if endpoint is None:
        return AttemptOutcome(Fate.DROPPED, "The endpoint was deleted.")
    page = None if settings.public_url is None else f"{settings.public_url}/admin/webhooks/{endpoint.id}"
    is_gone = endpoint.disabled_reason is DisabledReason.GONE
    url = short_url(endpoint.url)
    return {"endpoint": {"id": endpoint.id, "url": url, "page_url": page, "is_gone": is_gone}}


def _find_offering(tx: ReadTransaction, mail: OutboxMail, now: datetime) -> str | None:
    """Return the e-mail address of the customer who offers a mail's license; None if the offer has ended."""
    offered = list_offered_to(tx, mail.customer_id or 0, now)
    own = (one.from_customer_id for one in offered if one.license_id in mail.subject.license_ids)
    owner = CUSTOMERS.find(tx, next(own, 0))
    return None if owner is None else owner.email


def _find_licenses(tx: ReadTransaction, mail: OutboxMail) -> list[License]:
    if mail.subject.license_ids:
        return list(find_licenses_by_id(tx, mail.subject.license_ids).values())
    if mail.template is MailTemplate.YOUR_KEYS and mail.customer_id is not None:
        return list_licenses(tx, LicenseFilter(customer_id=mail.customer_id), limit=MAX_SHOWN + 1)
    return []


def _is_worth_a_word(template: MailTemplate, license: License, now: datetime) -> bool:
    if template is MailTemplate.YOUR_KEYS:
        return True
    # Refunded since: the mail would thank for a canceled purchase or ask for another payment.
    if license.status == Status.DISABLED:
        return False
    if template is MailTemplate.EXPIRED:
        return license_rules.is_expired(license, now)
    if template is MailTemplate.EXPIRING:
        return license.expires_at is not None and not license_rules.is_expired(license, now)
    return True


def _common_values(settings: MailSettings) -> dict[str, Any]:
    return {
        "vendor": settings.vendor,
        "portal_url": None if settings.public_url is None else f"{settings.public_url}/portal",
        "code": "",
        "sign_in_url": None,
        "offered_by": "",
        "endpoint": {"id": 0, "url": "", "page_url": None, "is_gone": False},
        "notice": {},
        "files": [],
    }


def _license_values(
    tx: ReadTransaction, licenses: list[License], settings: MailSettings, product_id: int | None
) -> dict[str, Any]:
    numbers = {one.product_id for one in licenses} | {product_id}
    names = names_of(tx, NameKind.PRODUCT, [one for one in numbers if one is not None])
    views = Views(tx)
    views.load(licenses)
    ends = [one.expires_at for one in licenses if one.expires_at is not None]
    first = product_id if product_id in names else next((one.product_id for one in licenses), None)
    return {
        "product": _line(names.get(first or 0)) or settings.vendor,
        "licenses": [
            {
                "key": one.key,
                "mask": mask(one.key),
                "product": _line(names.get(one.product_id or 0)) or settings.vendor,
                "expires_at": one.expires_at,
                "max_activations": one.times_activated_max,
                "renew_url": _link_to_renew(tx, views, one),
            }
            for one in licenses[:MAX_SHOWN]
        ],
        "more_licenses": len(licenses) > MAX_SHOWN,
        "expires_at": min(ends, default=None),
    }


def _link_to_renew(tx: ReadTransaction, views: Views, license: License) -> str | None:
    product = views.product_of(license)
    return None if product is None else product.link_to_renew(make_license_ref(tx.key_ring, license.id))


def _sign_in_values(tx: ReadTransaction, sign_in_id: str, settings: MailSettings | None) -> dict[str, Any]:
    code = passwords.derive_code(tx.key_ring, sign_in_id)
    path = passwords.link_path(tx.key_ring, sign_in_id)
    url = f"{settings.public_url}{path}" if settings is not None and settings.public_url else None
    return {"code": f"{code[:4]} {code[4:]}", "sign_in_url": url}


def _unsubscribe_url(
    tx: ReadTransaction, mail: OutboxMail, settings: MailSettings, language: str
) -> str | None:
    if mail.template not in _REMINDERS or mail.customer_id is None or settings.public_url is None:
        return None
    return settings.public_url + rules.path_of(tx.key_ring, mail.customer_id, language)


def sample_values(settings: MailSettings, now: datetime) -> dict[str, Any]:
    """Return sample values for every template; links only if the server's public URL is set."""
    expires_at = now + timedelta(days=365)
    one = {
        "key": "K7QM-2XWP-9RTD-4HVN",
        "mask": mask("K7QM-2XWP-9RTD-4HVN"),
        "product": "Example Writer",
        "expires_at": expires_at,
        "max_activations": 3,
        "renew_url": "https://example.com/renew",
    }

    def link(path: str) -> str | None:
        return None if settings.public_url is None else settings.public_url + path

    return {
        "vendor": settings.vendor,
        "portal_url": link("/portal"),
        "product": "Example Writer",
        "licenses": [one, one | {"key": "W3ZB-8NKF-5GJC-6PYL", "expires_at": None}],
        "more_licenses": False,
        "expires_at": expires_at,
        "code": "1234 5678",
        "sign_in_url": link("/portal/sign-in/sample"),
        "offered_by": "erin@example.com",
        "endpoint": {
            "id": 7,
            "url": "https://example.com/hooks",
            "page_url": link("/admin/webhooks/7"),
            "is_gone": False,
        },
        "notice": {
            "title": "A crafted file runs code",
            "text": "Do not open files from people whom you do not know.",
            "url": "https://example.com/advisories/5",
            "affected": "< 3.2.1",
            "fixed_in": "3.2.1",
            "severity": "high",
            "is_security": True,
            "is_free_for_expired": True,
        },
        "files": [
            {
                "name": "license-17-1.txt",
                "product": "Example Writer",
                "mask": one["mask"],
                "device": "Dora's laptop",
                "valid_until": expires_at,
            }
        ],
        "customer": {"name": "Dora Example"},
        "unsubscribe_url": link("/mail/unsubscribe/sample"),
    }


def sample_letter(settings: MailSettings, address: str, now: datetime) -> Letter:
    """Return a letter with sample values to this address."""
    language = choose_language(settings.language, ENGLISH)
    source = built_in(MailTemplate.YOUR_LICENSE, language)
    return Letter(address, None, language, None, source, sample_values(settings, now), Brand(), None)


def _line(text: str | None) -> str | None:
    """Return a name on one line: line breaks in it would change the layout of a mail."""
    return None if text is None else " ".join(text.split())
