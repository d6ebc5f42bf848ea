"""When a mail is sent again, and when it is given up; the links with which customers unsubscribe."""

import hmac
import re
from datetime import datetime, timedelta

from msgspec.structs import replace

from keywright.core.crypto import KeyRing
from keywright.delivery.mail.model import AttemptOutcome, Fate
from keywright.events.model import MailState, MailTemplate, OutboxMail

_FIRST_PAUSE, MAX_PAUSE = timedelta(seconds=15), timedelta(hours=2)
#: For how long a mail is tried; a code is worth nothing after its time.
_WORTH_SENDING = timedelta(days=3)
_SIGN_IN_WORTH = timedelta(minutes=15)
_MAX_REASON = 500
_ADDRESS = re.compile(r"[^\s<>@]+@[^\s<>]+")
#: What mail programs make a link of.
_LINK = re.compile(r"://|\bwww\.", re.IGNORECASE)


def greetable_name(name: str | None) -> str | None:
    """A customer's name; None for one with a link in it: whoever types a stranger's address and such a name
    at a shop's checkout would have the vendor's server mail an advertisement.
    """
    return None if name is None or _LINK.search(name) else name


def backoff(attempts: int) -> timedelta:
    """The pause after so many attempts: 15 s, 30 s, 1 min … 2 h."""
    return min(_FIRST_PAUSE * (1 << min(attempts - 1, 20)), MAX_PAUSE)


def after_attempt(mail: OutboxMail, outcome: AttemptOutcome, now: datetime) -> OutboxMail:
    """The mail after an attempt."""
    attempts = mail.attempts + (outcome.fate is not Fate.DROPPED)
    mail = replace(
        mail,
        attempts=attempts,
        unanswered=mail.unanswered + (outcome.fate is Fate.UNANSWERED),
        error=None if outcome.reason is None else without_addresses(outcome.reason)[:_MAX_REASON],
        claimed_by=None,
        claimed_until=None,
    )
    if outcome.fate is Fate.SENT:
        return finish(mail, MailState.SENT, now)
    if outcome.fate is Fate.DROPPED:
        return finish(mail, MailState.DROPPED, now)
    if outcome.fate is Fate.REFUSED or not is_worth_sending(mail, now + backoff(attempts)):
        return finish(mail, MailState.FAILED, now)
    return replace(mail, next_attempt_at=now + backoff(attempts))


def is_worth_sending(mail: OutboxMail, at: datetime) -> bool:
    """Whether another attempt at this moment makes sense. A mail that has waited for an SMTP server to be set
    up has all its attempts left.
    """
    if mail.template is MailTemplate.SIGN_IN_CODE:
        return at <= mail.created_at + _SIGN_IN_WORTH
    return sum(map(backoff, range(1, mail.attempts + 1)), timedelta()) <= _WORTH_SENDING


def finish(mail: OutboxMail, state: MailState, now: datetime) -> OutboxMail:
    """The mail, waiting no more."""
    return replace(mail, state=state, next_attempt_at=None, finished_at=now)


def mask_address(address: str) -> str:
    """An address as it may be shown: ``d…@example.com``."""
    local, _, domain = address.rpartition("@")
    return f"{local[:1]}…@{domain}"


def without_addresses(text: str) -> str:
    """The text with an ellipsis in place of every mail address."""
    printable = "".join(one if one.isprintable() else " " for one in text)
    return _ADDRESS.sub("…", " ".join(printable.split()))


_PURPOSE = "unsubscribe from reminders"


def path_of(key_ring: KeyRing, customer_id: int, language: str) -> str:
    """The path of the page with which this customer unsubscribes, in this language."""
    return f"/mail/unsubscribe/{customer_id}/{_token(key_ring, customer_id)}/{language}"


def is_token(key_ring: KeyRing, customer_id: int, token: str) -> bool:
    """Whether this is the token in the customer's link, also one from before the secret was rotated."""
    right = [_token(ring, customer_id) for ring in key_ring.rings]
    return any([hmac.compare_digest(one.encode(), token.encode(errors="replace")) for one in right])


def _token(key_ring: KeyRing, customer_id: int) -> str:
    return key_ring.sign(_PURPOSE, str(customer_id))[:16].hex()
