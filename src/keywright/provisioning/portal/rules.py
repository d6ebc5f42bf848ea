"""The rules of sign-ins to the portal. Pure."""

from collections.abc import Sequence
from datetime import datetime

from keywright.core.crypto import KeyRing
from keywright.provisioning.customers.rules import fold_email
from keywright.provisioning.portal.model import SignIn

#: A sign-in takes no code after so many wrong ones.
MAX_WRONG_CODES = 5
#: So many sign-ins of a customer are good at once; another one ends the oldest.
MAX_OPEN = 4
#: Sign-ins for unknown addresses are kept in so many groups: strangers fill no more than these.
_UNKNOWN_GROUPS = 1024


def number_of_unknown(key_ring: KeyRing, email: str) -> int:
    """The negative number under which a sign-in for an unknown address is kept, like one for a customer:
    the server does the same work for both, so that its time tells no address.
    """
    mark = key_ring.sign("portal unknown address", fold_email(email))
    return -1 - int.from_bytes(mark[:8], "big") % _UNKNOWN_GROUPS


def is_open(sign_in: SignIn, now: datetime) -> bool:
    """Whether the sign-in's link is good."""
    return now < sign_in.expires_at


def takes_code(sign_in: SignIn, now: datetime) -> bool:
    """Whether the sign-in's code is good."""
    return is_open(sign_in, now) and sign_in.wrong_codes < MAX_WRONG_CODES


def surplus(sign_ins: Sequence[SignIn], now: datetime) -> list[int]:
    """The IDs of those that go when there is a new one; the newest come first."""
    kept = [one for one in sign_ins if is_open(one, now)][: MAX_OPEN - 1]
    return [one.id for one in sign_ins if one not in kept]
