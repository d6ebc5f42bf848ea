"""The links with which customers unsubscribe from reminders."""

import hmac

from keywright.core.crypto import KeyRing

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
