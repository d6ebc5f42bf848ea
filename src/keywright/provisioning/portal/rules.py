"""The rules of sign-ins to the portal. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from keywright.core.crypto import KeyRing
from keywright.provisioning.customers import fold_email
from keywright.provisioning.portal.model import CODE_TIME, KEPT_TIME, MAILED_LINK_TIME, SignIn

#: A sign-in takes no code after so many wrong ones.
MAX_WRONG_CODES = 5
#: The pause before the next mail to an address, by how many were sent to it within a day. The longest is
#: shorter than a mailed link is good: whoever owns the mailbox always has one that works.
_PAUSES = tuple(timedelta(minutes=one) for one in (0, 0, 0, 1, 2, 5, 10, 30, 60))
#: How far the clocks of two servers may be apart.
_CLOCKS_APART = timedelta(minutes=1)
#: Sign-ins for unknown addresses are kept in so many groups: strangers fill no more than these.
_UNKNOWN_GROUPS = 1024


def number_of_unknown(key_ring: KeyRing, email: str) -> int:
    """The negative number under which a sign-in for an unknown address is kept, like one for a customer:
    the server does the same work for both, so that its time reveals no address.
    """
    mark = key_ring.sign("portal unknown address", fold_email(email))
    return -1 - int.from_bytes(mark[:8], "big") % _UNKNOWN_GROUPS


def takes_link(sign_in: SignIn, now: datetime) -> bool:
    """Whether the sign-in's link is good."""
    return now < sign_in.asked_at + MAILED_LINK_TIME


def takes_code(sign_in: SignIn, now: datetime) -> bool:
    """Whether the sign-in's code is good."""
    return now < sign_in.asked_at + CODE_TIME and sign_in.wrong_codes < MAX_WRONG_CODES


def surplus(sign_ins: Sequence[SignIn], now: datetime) -> list[int]:
    """The IDs of those that no mail has to wait for: they are over, or of a clock that was ahead."""
    return [one.id for one in sign_ins if not now - KEPT_TIME < one.asked_at <= now + _CLOCKS_APART]


def may_mail(sign_ins: Sequence[SignIn], now: datetime) -> bool:
    """Whether another mail may go to the address of these sign-ins of the last day."""
    pause = _PAUSES[min(len(sign_ins), len(_PAUSES) - 1)]
    return all(one.asked_at + pause <= now for one in sign_ins)
