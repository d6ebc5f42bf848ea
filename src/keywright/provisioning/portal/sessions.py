"""Who is signed in to the portal, and with which link one may be."""

from datetime import datetime

from keywright.db import ReadTransaction
from keywright.identity.sessions import MAX_AHEAD, hash_session_token
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.store import find_customer
from keywright.provisioning.portal import store


def find_signed_in(tx: ReadTransaction, token: str, now: datetime) -> Customer | None:
    """The customer whose session has this token; None when it is unknown or over."""
    session = store.find_session(tx, hash_session_token(token))
    if session is None or now >= session.expires_at or session.created_at - now >= MAX_AHEAD:
        return None
    return find_customer(tx, session.customer_id)
