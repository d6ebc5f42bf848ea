"""The rules of sign-ins to the portal. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from keywright.core.crypto import KeyRing
from keywright.provisioning.customers import fold_email
from keywright.provisioning.portal.model import CODE_TIME, KEPT_TIME, MAILED_LINK_TIME, SignIn

#: The number of wrong codes after which a sign-in accepts none.
MAX_WRONG_CODES = 5
#: The pause before the next mail to an address, by the number of mails within a day. The longest is shorter
#: than a mailed link is valid, so that the owner of the mailbox always has a valid one.
_PAUSES = tuple(timedelta(minutes=one) for one in (0, 0, 0, 1, 2, 5, 10, 30, 60))
#: The maximum difference between the clocks of two servers.
_CLOCKS_APART = timedelta(minutes=1)
#: The number of groups of sign-ins with unknown addresses: strangers cannot make more.
_UNKNOWN_GROUPS = 1024


def number_of_unknown(key_ring: KeyRing, email: str) -> int:
    """Return the negative number that replaces the customer's ID in a sign-in with an unknown address: the
    server does the same work for both, so that its time does not reveal whether an address is known.
    """
    mark = key_ring.sign("portal unknown address", fold_email(email))
    return -1 - int.from_bytes(mark[:8], "big") % _UNKNOWN_GROUPS


def takes_link(sign_in: SignIn, now: datetime) -> bool:
    """Whether the sign-in's link is valid."""
    return now < sign_in.asked_at + MAILED_LINK_TIME


def takes_code(sign_in: SignIn, now: datetime) -> bool:
    """Whether the sign-in's code is valid."""
    return now < sign_in.asked_at + CODE_TIME and sign_in.wrong_codes < MAX_WRONG_CODES


def surplus(sign_ins: Sequence[SignIn], now: datetime) -> list[int]:
    """Return the IDs of sign-ins that do not delay a mail: they are over, or from a clock that was ahead."""
    return [one.id for one in sign_ins if not now - KEPT_TIME < one.asked_at <= now + _CLOCKS_APART]


def may_mail(sign_ins: Sequence[SignIn], now: datetime) -> bool:
    """Whether another mail may be sent to the address of these sign-ins of the last day."""
    pause = _PAUSES[min(len(sign_ins), len(_PAUSES) - 1)]
    return all(one.asked_at + pause <= now for one in sign_ins)
