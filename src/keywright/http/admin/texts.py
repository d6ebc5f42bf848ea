"""Texts for roles, license states, mails and missing settings; second-factor codes; encrypted values for
URLs.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from keywright.config import Settings
from keywright.db.transaction import ReadTransaction
from keywright.events.model import MailState, MailTemplate
from keywright.http.pages.formats import N_, _
from keywright.http.pages.request import PageRequest
from keywright.identity import store
from keywright.identity.model import Role, User
from keywright.identity.second_factors import MAX_FAILURES
from keywright.licensing.licenses.model import License, State, Status, order_of
from keywright.licensing.licenses.rules import state

#: A sentence about what each role may do.
ROLE_TEXTS: dict[Role, str] = {
    Role.READER: N_("A reader can view licenses and events, but change nothing."),
    Role.SUPPORT: N_("Support can view everything about licenses, and change licenses and activations."),
    Role.ADMINISTRATOR: N_("An administrator can do everything."),
}
#: The values of enumerations that pages show through ``_(one.value)``.
_WORDS = (
    *(N_("reader"), N_("support"), N_("administrator")),
    *(N_("sold"), N_("delivered"), N_("active"), N_("inactive"), N_("disabled"), N_("expired"), N_("grace")),
)

#: The name of each mail template.
MAIL_TEXTS: dict[MailTemplate, str] = {
    MailTemplate.YOUR_LICENSE: N_("Your license"),
    MailTemplate.RENEWED: N_("Renewed"),
    MailTemplate.CHANGED: N_("Changed"),
    MailTemplate.EXPIRING: N_("Expiring soon"),
    MailTemplate.EXPIRED: N_("Expired"),
    MailTemplate.PAYMENT_FAILED: N_("Payment failed"),
    MailTemplate.SIGN_IN_CODE: N_("Sign-in code"),
    MailTemplate.YOUR_KEYS: N_("Your keys"),
    MailTemplate.LICENSE_OFFERED: N_("License offered"),
    MailTemplate.LICENSE_RECEIVED: N_("License received"),
    MailTemplate.LICENSE_GIVEN: N_("License transferred"),
    MailTemplate.NOTICE: N_("Notice about a version"),
    MailTemplate.LICENSE_FILES: N_("License files"),
    MailTemplate.ENDPOINT_DISABLED: N_("Webhook disabled"),
}

#: Why a call was refused, by problem code of v3 or finding of its validation.
_REFUSALS = {
    "limit_reached": N_("No place was free"),
    "expired": N_("The license had expired"),
    "inactive": N_("The license was inactive"),
    "disabled": N_("The license was disabled"),
    "product_mismatch": N_("The license is for another product"),
    "key_rotated": N_("The key had been replaced"),
    "fingerprint_required": N_("The program sent no fingerprint"),
    "too_many_new_devices": N_("Too many new devices"),
    "no_removal_left": N_("No device can be removed now"),
    "version_not_covered": N_("The version is not covered"),
    "not_activated": N_("The device was not active"),
    "unknown_device": N_("The device was not active"),
    "lease_lost": N_("The lease had ended"),
    "lease_required": N_("No lease was held"),
    "entitlement_missing": N_("A feature is not included"),
}


#: The colors of the states of licenses.
_TONES = {"active": "good", "grace": "warn", "expired": "warn", "inactive": "soft", "disabled": "bad"}


def license_state(license: License, now: datetime) -> str:
    """The state of a license in one word: ``expired`` or ``grace`` if one applies, else its status."""
    now_is = state(license, now)
    return now_is.value if now_is in (State.EXPIRED, State.GRACE) else Status(license.status).name.lower()


def refusal_text(code: str) -> str:
    """Why a call was refused, in words; an unknown code is returned unchanged."""
    return _(_REFUSALS[code]) if code in _REFUSALS else code


def state_tone(state: str) -> str:
    """The color of a badge with this state of a license."""
    return _TONES.get(state, "plain")


def order_text(license: License) -> str | None:
    """The shop's ID of the order with which a license was sold."""
    return order_of(license).id


def version_text(version: str) -> str:
    """A program's version in words: ``*`` stands for all other versions, "" for an unknown one."""
    return _("all others") if version == "*" else version or _("not known")


#: The functions that templates may call, or use as filters.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "license_state": license_state,
    "state_tone": state_tone,
    "order_text": order_text,
    "refusal_text": refusal_text,
    "version_text": version_text,
}


#: The text for each state of a mail.
MAIL_STATES = {
    MailState.WAITING: N_("waiting"),
    MailState.HELD: N_("held"),
    MailState.SENT: N_("sent"),
    MailState.FAILED: N_("given up"),
    MailState.DROPPED: N_("not needed"),
}


class Gap(NamedTuple):
    """A missing setting: a title, its consequences, and the path of the page that sets it."""

    title: str
    sentence: str
    path: str


def mail_gaps(settings: Settings) -> list[Gap]:
    """The missing settings for mails."""
    gaps = []
    if settings.smtp_server is None:
        sentence = _(
            "There is no mail server. Until you set one, mails wait, and after some time they are given up."
        )
        gaps.append(Gap(_("No mail is sent."), sentence, "/settings#mail"))
    if settings.public_url is None:
        sentence = _(
            "The public address is not set. Until you set it, mails have no links to the portal or to stop "
            "reminders."
        )
        gaps.append(Gap(_("Mails have no links."), sentence, "/settings#address"))
    return gaps


def portal_gaps(settings: Settings) -> list[Gap]:
    """The missing settings for the portal."""
    gaps = mail_gaps(settings)
    if not settings.portal:
        gaps.insert(0, Gap(_("The portal is off."), _("Customers cannot open it."), "/settings#portal"))
    elif settings.smtp_server is None:
        sentence = _(
            "Sign-in codes are sent by mail. Without a mail server, customers can only use a license key."
        )
        gaps[0] = Gap(_("No customer can sign in by e-mail."), sentence, "/settings#mail")
    return gaps


def system_gaps(settings: Settings) -> list[Gap]:
    """The missing settings for the whole installation."""
    gaps = mail_gaps(settings)
    if settings.backup_daily_at is None:
        sentence = _("The server makes no automatic backups.")
        gaps.append(Gap(_("No daily backup."), sentence, "/settings#backups"))
    return gaps


WRONG_CODE = N_("This code is wrong, or was used before. Wait for the next one.")
_ONLY_RECOVERY = N_(
    "Too many codes were wrong. Use a recovery code, or ask an administrator to turn your second factor off."
)


def is_recovery_code(code: str) -> bool:
    """Whether the text is a recovery code, which is longer than the code that an app shows."""
    return len(code) > len("123 456")


def wrong_code_message(request: PageRequest, user: User) -> str:
    """The message about a wrong code, or about too many of them."""
    factor = request.ask(lambda tx: store.find_factor(tx, user.id))
    is_locked = factor is not None and factor.failed_attempts >= MAX_FAILURES
    return _(_ONLY_RECOVERY if is_locked else WRONG_CODE)


Value = TypeVar("Value")


def seal_text(tx: ReadTransaction, value: Any, purpose: bytes) -> str:
    """Encrypt a value as text for a URL. Only ``unseal_text`` with the same purpose can decrypt it."""
    sealed = tx.key_ring.seal(msgspec.msgpack.encode(value), purpose)
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def unseal_text(tx: ReadTransaction, text: str, type: type[Value], purpose: bytes) -> Value:
    """Decrypt the value that ``seal_text`` encrypted. Raises ``ValueError`` for any other text."""
    sealed = base64.urlsafe_b64decode(f"{text}===")
    return msgspec.msgpack.decode(tx.key_ring.unseal(sealed, purpose), type=type)


#: The labels of the figures in reports.
FIGURES = {
    "made": N_("Made"),
    "trials": N_("Trials started"),
    "bought": N_("Trials bought"),
    "expiries": N_("Due"),
    "renewed": N_("Renewed"),
    "lapsed": N_("Lapsed"),
    "refunded": N_("Refunded"),
}
