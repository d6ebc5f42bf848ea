"""The codes with which customers sign in to the portal, derived from the sign-in's ID and the secret.

So a code lies nowhere: the mail derives it when it is sent, and the portal when it is typed.
"""

import hmac

from keywright.core.crypto import KeyRing

#: The number of digits of a code: with five tries for each sign-in, one in 20 million guesses is right.
CODE_LENGTH = 8
_PURPOSE, _LINK_PURPOSE = "portal sign-in", "portal sign-in link"


def derive_code(key_ring: KeyRing, sign_in_id: str) -> str:
    """The eight digits that belong to this sign-in. Its ID is random, so that no other, also none after a
    backup was restored, has the same code.
    """
    number = int.from_bytes(key_ring.sign(_PURPOSE, sign_in_id)[:8], "big")
    return f"{number % 10**CODE_LENGTH:0{CODE_LENGTH}}"


def derive_link_token(key_ring: KeyRing, sign_in_id: str) -> str:
    """The 32 hex characters of the sign-in's link."""
    return key_ring.sign(_LINK_PURPOSE, sign_in_id)[:16].hex()


def is_code(key_ring: KeyRing, sign_in_id: str, typed: str) -> bool:
    """Whether this is the sign-in's code, typed with any spaces and dashes; also one that was mailed before
    the secret was rotated.
    """
    digits = "".join(filter(str.isalnum, typed))
    return _is_any([derive_code(ring, sign_in_id) for ring in key_ring.rings], digits)


def is_link_token(key_ring: KeyRing, sign_in_id: str, token: str) -> bool:
    """Whether this is the token of the sign-in's link."""
    return _is_any([derive_link_token(ring, sign_in_id) for ring in key_ring.rings], token)


def link_path(key_ring: KeyRing, sign_in_id: str) -> str:
    """The path of the page to which the sign-in's link leads."""
    return f"/portal/sign-in/{sign_in_id}/{derive_link_token(key_ring, sign_in_id)}"


def _is_any(right: list[str], given: str) -> bool:
    # Every one is compared: the time says nothing.
    return any([hmac.compare_digest(one.encode(), given.encode(errors="replace")) for one in right])
