"""Who is signed in to the portal, and which browsers have signed in before."""

import hmac
from datetime import datetime

from keywright.core.crypto import KeyRing
from keywright.db import ReadTransaction
from keywright.identity.sessions import MAX_AHEAD, hash_session_token
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.store import CUSTOMERS
from keywright.provisioning.portal import store


def find_signed_in(tx: ReadTransaction, token: str, now: datetime) -> Customer | None:
    """The customer whose session has this token; None when it is unknown or over."""
    session = store.find_session(tx, hash_session_token(token))
    if session is None or now >= session.expires_at or session.created_at - now >= MAX_AHEAD:
        return None
    return CUSTOMERS.find(tx, session.customer_id)


def browser_mark(key_ring: KeyRing, customer_id: int) -> str:
    """The mark of a browser in which this customer has signed in. Strangers that ask for codes in the
    customer's name, or at the customer's address, do not keep such a browser waiting.
    """
    return f"{customer_id}.{key_ring.sign('a known browser of a customer', str(customer_id)).hex()}"


def find_marked(key_ring: KeyRing, mark: str) -> int | None:
    """The ID of the customer whose mark a browser has; also one from before the secret was rotated."""
    number = mark.partition(".")[0]
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        return None
    marks = [browser_mark(ring, int(number)) for ring in key_ring.rings]
    is_right = any([hmac.compare_digest(one.encode(), mark.encode(errors="replace")) for one in marks])
    return int(number) if is_right else None
