"""Database access for sign-ins, links and sessions of customers."""

import hmac
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from keywright.core.crypto import KeyRing
from keywright.db.rows import to_columns, to_seconds, with_datetimes
from keywright.db.schema import portal_links, portal_sessions, portal_sign_ins
from keywright.db.sealed_columns import sign_in_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.identity.sessions import MAX_AHEAD, hash_session_token
from keywright.provisioning.customers import Customer
from keywright.provisioning.portal.model import PortalSession, SignIn
from keywright.provisioning.store import CUSTOMERS

_TABLES = (portal_sign_ins, portal_links, portal_sessions)
_SIGN_IN = [*portal_sign_ins.c]
_SESSION = [portal_sessions.c[name] for name in PortalSession.__struct_fields__]


def find_session(tx: ReadTransaction, token_hash: bytes) -> PortalSession | None:
    """Return the session with this token hash."""
    return tx.first(select(*_SESSION).where(portal_sessions.c.token_hash == token_hash), _session_of)


def save_new_session(tx: WriteTransaction, session: PortalSession) -> None:
    """Insert a session."""
    tx.connection.execute(insert(portal_sessions).values(to_columns(session)))


def delete_session(tx: WriteTransaction, token_hash: bytes) -> bool:
    """Delete a session; False if there is none."""
    query = delete(portal_sessions).where(portal_sessions.c.token_hash == token_hash)
    return tx.connection.execute(query).rowcount == 1


def lock_sign_ins(tx: WriteTransaction, customer_id: int) -> list[SignIn]:
    """Return the sign-ins of a customer, locked until the end of the transaction."""
    query = select(*_SIGN_IN).where(portal_sign_ins.c.customer_id == customer_id)
    locked = query.order_by(portal_sign_ins.c.id).with_for_update()
    return [_sign_in_of(tx, row) for row in tx.connection.execute(locked)]


def find_sign_in(tx: ReadTransaction, sign_in_id: int) -> SignIn | None:
    """Return the sign-in with this ID."""
    query = select(*_SIGN_IN).where(portal_sign_ins.c.id == sign_in_id)
    return tx.first(query, partial(_sign_in_of, tx))


def lock_sign_in(tx: WriteTransaction, sign_in_id: int) -> SignIn | None:
    """Return the sign-in with this ID, locked until the end of the transaction."""
    query = select(*_SIGN_IN).where(portal_sign_ins.c.id == sign_in_id)
    return tx.first(query.with_for_update(), partial(_sign_in_of, tx))


def save_new_sign_in(tx: WriteTransaction, sign_in: SignIn) -> None:
    """Insert a sign-in."""
    values = to_columns(sign_in) | {"id": sign_in.id}
    email = values.pop("email")
    place = sign_in_associated_data(sign_in.id)
    values["sealed_email"] = None if email is None else tx.sealing.seal(email.encode(), place)
    tx.connection.execute(insert(portal_sign_ins).values(values))


def count_wrong_code(tx: WriteTransaction, ids: Iterable[int]) -> None:
    """Count a wrong code for these sign-ins."""
    query = update(portal_sign_ins).where(portal_sign_ins.c.id.in_(list(ids)))
    tx.connection.execute(query.values(wrong_codes=portal_sign_ins.c.wrong_codes + 1))


def delete_sign_ins(tx: WriteTransaction, ids: Iterable[int]) -> None:
    """Delete sign-ins."""
    tx.connection.execute(delete(portal_sign_ins).where(portal_sign_ins.c.id.in_(list(ids))))


def save_link(tx: WriteTransaction, token_hash: bytes, customer_id: int, expires_at: datetime) -> None:
    """Insert a link."""
    values = {"token_hash": token_hash, "customer_id": customer_id, "expires_at": to_seconds(expires_at)}
    tx.connection.execute(insert(portal_links).values(values))


def take_link(tx: WriteTransaction, token_hash: bytes, now: datetime) -> int | None:
    """Delete a valid link, and return its customer's ID. Only one of two transactions gets it."""
    is_good = (portal_links.c.token_hash == token_hash, portal_links.c.expires_at > to_seconds(now))
    query = select(portal_links.c.customer_id).where(*is_good).with_for_update()
    customer_id = tx.connection.execute(query).scalar()
    taken = tx.connection.execute(delete(portal_links).where(*is_good))
    return customer_id if taken.rowcount == 1 else None


def end_all(tx: WriteTransaction, customer_id: int) -> None:
    """End a customer's sessions, sign-ins and links."""
    for table in _TABLES:
        tx.connection.execute(delete(table).where(table.c.customer_id == customer_id))


def purge(tx: WriteTransaction, before: datetime) -> None:
    """Delete everything that was over before this moment."""
    for table in _TABLES:
        tx.connection.execute(delete(table).where(table.c.expires_at < to_seconds(before)))


def _session_of(row: Row[Any]) -> PortalSession:
    return PortalSession(**with_datetimes(row))


def _sign_in_of(tx: ReadTransaction, row: Row[Any]) -> SignIn:
    values = with_datetimes(row)
    sealed = values.pop("sealed_email")
    place = sign_in_associated_data(row.id)
    return SignIn(**values, email=None if sealed is None else tx.key_ring.unseal(sealed, place).decode())


def find_signed_in(tx: ReadTransaction, token: str, now: datetime) -> Customer | None:
    """Return the customer whose session has this token; None if it is unknown or over."""
    session = find_session(tx, hash_session_token(token))
    if session is None or now >= session.expires_at or session.created_at - now >= MAX_AHEAD:
        return None
    return CUSTOMERS.find(tx, session.customer_id)


def browser_mark(key_ring: KeyRing, customer_id: int) -> str:
    """Return the mark of a browser in which this customer has signed in. Strangers who request codes for the
    customer's e-mail address, or from the customer's IP address, do not delay such a browser.
    """
    return f"{customer_id}.{key_ring.sign('a known browser of a customer', str(customer_id)).hex()}"


def find_marked(key_ring: KeyRing, mark: str) -> int | None:
    """Return the ID of the customer whose mark a browser has; marks from before a rotation are valid, too."""
    number = mark.partition(".")[0]
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        return None
    marks = [browser_mark(ring, int(number)) for ring in key_ring.rings]
    is_right = any([hmac.compare_digest(one.encode(), mark.encode(errors="replace")) for one in marks])
    return int(number) if is_right else None
