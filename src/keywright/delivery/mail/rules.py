"""When a mail is retried or given up, and the links with which customers unsubscribe."""

import hmac
import re
from datetime import datetime, timedelta

from msgspec.structs import replace

from keywright.core.crypto import KeyRing
from keywright.delivery.mail.model import AttemptOutcome, Fate
from keywright.events.model import MailState, MailTemplate, OutboxMail

_FIRST_PAUSE, MAX_PAUSE = timedelta(seconds=15), timedelta(hours=2)
#: How long a mail is retried. A sign-in code is useless after it has expired.
_WORTH_SENDING = timedelta(days=3)
_SIGN_IN_WORTH = timedelta(minutes=15)
_MAX_REASON = 500
_ADDRESS = re.compile(r"[^\s<>@]+@[^\s<>]+")
#: Text that mail programs turn into a link.
_LINK = re.compile(r"://|\bwww\.", re.IGNORECASE)


def greetable_name(name: str | None) -> str | None:
    """Return a customer's name, or None if it contains a link. Otherwise, a spammer could enter a stranger's
    address and such a name at a shop's checkout, and the vendor's server would mail the advertisement.
    """
    return None if name is None or _LINK.search(name) else name


def backoff(attempts: int) -> timedelta:
    """Return the delay after this number of attempts: 15 s, 30 s, 1 min … 2 h."""
    return min(_FIRST_PAUSE * (1 << min(attempts - 1, 20)), MAX_PAUSE)


def after_attempt(mail: OutboxMail, outcome: AttemptOutcome, now: datetime) -> OutboxMail:
    """Return the mail after an attempt: finished, or due again after a delay."""
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
    """Whether another attempt at this time makes sense. The time for which a mail has waited for an SMTP
    server to be set up does not count, except for a sign-in code.
    """
    if mail.template is MailTemplate.SIGN_IN_CODE:
        return at <= mail.created_at + _SIGN_IN_WORTH
    return sum(map(backoff, range(1, mail.attempts + 1)), timedelta()) <= _WORTH_SENDING


def finish(mail: OutboxMail, state: MailState, now: datetime) -> OutboxMail:
    """Return the mail in this final state."""
    return replace(mail, state=state, next_attempt_at=None, finished_at=now)


def mask_address(address: str) -> str:
    """Mask an address for display: ``d…@example.com``."""
    local, _, domain = address.rpartition("@")
    return f"{local[:1]}…@{domain}"


def without_addresses(text: str) -> str:
    """Replace every mail address in the text by an ellipsis."""
    printable = "".join(one if one.isprintable() else " " for one in text)
    return _ADDRESS.sub("…", " ".join(printable.split()))


_PURPOSE = "unsubscribe from reminders"


def path_of(key_ring: KeyRing, customer_id: int, language: str) -> str:
    """Return the path of the page on which this customer unsubscribes, in this language."""
    return f"/mail/unsubscribe/{customer_id}/{_token(key_ring, customer_id)}/{language}"


def is_token(key_ring: KeyRing, customer_id: int, token: str) -> bool:
    """Whether this is the token in the customer's link. Tokens from before a secret rotation stay valid."""
    right = [_token(ring, customer_id) for ring in key_ring.rings]
    return any([hmac.compare_digest(one.encode(), token.encode(errors="replace")) for one in right])


def _token(key_ring: KeyRing, customer_id: int) -> str:
    return key_ring.sign(_PURPOSE, str(customer_id))[:16].hex()
