"""Database access for users, sessions, second factors, invitations, saved views and API keys."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, and_, bindparam, delete, exists, func, insert, or_, select, update

from keywright.db import rows
from keywright.db.rows import Records, with_datetimes
from keywright.db.schema import (
    api_keys,
    installation,
    invitations,
    recovery_codes,
    saved_views,
    second_factors,
    sessions,
    users,
)
from keywright.db.sealed_columns import factor_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.identity.model import ApiKey, Role, SavedView, SecondFactor, Session, User

API_KEYS = Records(api_keys, ApiKey)
USERS = Records(users, User)
list_api_keys = API_KEYS.list_all
find_user_by_id, list_users, lock_user = USERS.find, USERS.list_all, USERS.lock
save_new_user, save_user = USERS.insert_new, USERS.update


API_KEY_IN_FORCE = API_KEYS.all.where(
    api_keys.c.key_hash == bindparam("key_hash"), api_keys.c.revoked_at.is_(None)
)


def find_api_key(tx: ReadTransaction, consumer_key_hash: str) -> ApiKey | None:
    """Return the API key with this hashed consumer key, unless it is revoked."""
    row = tx.connection.execute(API_KEY_IN_FORCE, {"key_hash": consumer_key_hash}).first()
    return None if row is None else API_KEYS.of_row(row)


def save_new_api_key(tx: WriteTransaction, api_key: ApiKey, consumer_key_hash: str) -> int:
    """Insert an API key; return its new ID."""
    return tx.insert(api_keys, API_KEYS.values_of(api_key) | {"key_hash": consumer_key_hash})


def share_api_key(tx: WriteTransaction, api_key_id: int) -> ApiKey | None:
    """Return the API key with this ID, with a shared lock until the end of the transaction."""
    query = API_KEYS.all.where(api_keys.c.id == api_key_id)
    return tx.first(query.with_for_update(read=True), API_KEYS.of_row)


def revoke_api_key(tx: WriteTransaction, api_key_id: int, now: datetime) -> bool:
    """Revoke an API key; False if there is no such key, or it is revoked already."""
    query = update(api_keys).where(api_keys.c.id == api_key_id, api_keys.c.revoked_at.is_(None))
    return tx.connection.execute(query.values(revoked_at=rows.to_seconds(now))).rowcount == 1


_SESSION = [sessions.c[name] for name in Session.__struct_fields__]
_SESSION_WITH_USER: Select[Any] = (
    select(
        *(one.label(f"session_{one.name}") for one in _SESSION),
        *(one.label(f"user_{one.name}") for one in USERS.columns),
        second_factors.c.user_id.label("factor"),
    )
    .join(users, users.c.id == sessions.c.user_id)
    .outerjoin(second_factors, second_factors.c.user_id == users.c.id)
    .where(sessions.c.token_hash == bindparam("token"))
)
_ADMINISTERS = and_(
    users.c.role == Role.ADMINISTRATOR, users.c.disabled_at.is_(None), users.c.subject.is_(None)
)


def find_user(tx: ReadTransaction, name: str) -> User | None:
    """Return the user with exactly this name."""
    # A text that no database can store needs no query.
    return tx.first(USERS.all.where(users.c.name == name), USERS.of_row) if name.isprintable() else None


def lock_linked_user(tx: WriteTransaction, issuer: str, subject: str) -> User | None:
    """Return the user linked to this account of a provider, locked until the end of the transaction."""
    is_it = and_(users.c.issuer == issuer, users.c.subject == subject)
    return tx.first(USERS.all.where(is_it).with_for_update(), USERS.of_row)


def lock_users_to_link(tx: WriteTransaction, email: str) -> list[User]:
    """Return the users with this address to whom a provider's account may be linked: no administrators, and
    no users who have one. They are locked until the end of the transaction.
    """
    may_get = and_(users.c.subject.is_(None), users.c.role != Role.ADMINISTRATOR)
    query = USERS.all.where(may_get, func.lower(users.c.email) == email.lower()).order_by(users.c.id)
    return [USERS.of_row(row) for row in tx.connection.execute(query.with_for_update())]


def has_users(tx: ReadTransaction) -> bool:
    """Whether there are any users, including disabled ones."""
    return bool(tx.connection.execute(select(exists().select_from(users))).scalar_one())


def hold_users(tx: WriteTransaction) -> None:
    """Prevent other transactions from creating users until the end of this one.

    This is a write, because a transaction that waited for a mere lock may continue with its older snapshot.
    """
    tx.connection.execute(update(installation).values(secret_id=installation.c.secret_id))


def share_user(tx: WriteTransaction, user_id: int) -> User | None:
    """Return the user with this ID, with a shared lock until the end of the transaction."""
    return tx.first(USERS.all.where(users.c.id == user_id).with_for_update(read=True), USERS.of_row)


def lock_user_and_administrators(tx: WriteTransaction, user_id: int) -> dict[int, User]:
    """Return the user with this ID, and all enabled administrators with a password, by ID; locked in the
    order of their IDs until the end of the transaction.
    """
    query = USERS.all.where(or_(users.c.id == user_id, _ADMINISTERS)).order_by(users.c.id)
    found = tx.connection.execute(query.with_for_update())
    return {row.id: USERS.of_row(row) for row in found}


def find_session(tx: ReadTransaction, token_hash: bytes) -> Session | None:
    """Return the session with this token hash."""
    return tx.first(select(*_SESSION).where(sessions.c.token_hash == token_hash), _session_of)


class FoundSession(NamedTuple):
    """A session, its user, and whether the user has a second factor."""

    session: Session
    user: User
    has_factor: bool


def find_session_with_user(tx: ReadTransaction, token_hash: bytes) -> FoundSession | None:
    """Return the session with this token hash, and its user, in one query: every page runs it."""
    row = tx.connection.execute(_SESSION_WITH_USER, {"token": token_hash}).first()
    if row is None:
        return None
    values = with_datetimes(row)
    session = Session(**{name: values[f"session_{name}"] for name in Session.__struct_fields__})
    user = {name: values[f"user_{name}"] for name in User.__struct_fields__}
    return FoundSession(session, User(**user | {"role": Role(user["role"])}), values["factor"] is not None)


def list_sessions(tx: ReadTransaction, user_id: int) -> list[Session]:
    """Return all sessions of the user, expired ones included, newest first."""
    query = select(*_SESSION).where(sessions.c.user_id == user_id).order_by(sessions.c.created_at.desc())
    return [_session_of(row) for row in tx.connection.execute(query)]


def save_new_session(tx: WriteTransaction, session: Session) -> None:
    """Insert a session."""
    tx.connection.execute(insert(sessions).values(rows.to_columns(session)))


def save_seen(tx: WriteTransaction, token_hash: bytes, now: datetime) -> None:
    """Update a session's last-seen time."""
    query = update(sessions).where(sessions.c.token_hash == token_hash)
    tx.connection.execute(query.values(last_seen_at=rows.to_seconds(now)))


def delete_session(tx: WriteTransaction, token_hash: bytes) -> None:
    """Delete a session."""
    tx.connection.execute(delete(sessions).where(sessions.c.token_hash == token_hash))


def delete_sessions_of(tx: WriteTransaction, user_id: int, *, but: bytes | None) -> None:
    """Delete the user's sessions, except the one with this hash."""
    query = delete(sessions).where(sessions.c.user_id == user_id)
    tx.connection.execute(query if but is None else query.where(sessions.c.token_hash != but))


def renew_session(tx: WriteTransaction, user_id: int, session: bytes | None, new: bytes | None) -> None:
    """Delete the user's sessions, except the one with this hash, which gets the hash ``new``."""
    delete_sessions_of(tx, user_id, but=session)
    if session is not None and new is not None:
        own = and_(sessions.c.user_id == user_id, sessions.c.token_hash == session)
        tx.connection.execute(update(sessions).where(own).values(token_hash=new))


def find_invited(tx: ReadTransaction, token_hash: bytes, now: datetime) -> int | None:
    """Return the ID of the user whom the link with this token hash invites, if the link is valid."""
    is_good = and_(invitations.c.token_hash == token_hash, invitations.c.expires_at > rows.to_seconds(now))
    return tx.connection.execute(select(invitations.c.user_id).where(is_good)).scalar()


def find_invitation_end(tx: ReadTransaction, user_id: int) -> datetime | None:
    """Return the expiry of the user's link, which may have passed."""
    query = select(invitations.c.expires_at).where(invitations.c.user_id == user_id)
    seconds = tx.connection.execute(query).scalar()
    return None if seconds is None else rows.to_datetime(seconds)


def save_invitation(tx: WriteTransaction, user_id: int, token_hash: bytes, expires_at: datetime) -> None:
    """Store a user's link, replacing an earlier one."""
    delete_invitation(tx, user_id)
    values = {"user_id": user_id, "token_hash": token_hash, "expires_at": rows.to_seconds(expires_at)}
    tx.connection.execute(insert(invitations).values(values))


def delete_invitation(tx: WriteTransaction, user_id: int) -> None:
    """Delete a user's link."""
    tx.connection.execute(delete(invitations).where(invitations.c.user_id == user_id))


def list_views(tx: ReadTransaction, user_id: int) -> list[SavedView]:
    """Return the user's saved views, by name."""
    query = select(saved_views.c.name, saved_views.c.query).where(saved_views.c.user_id == user_id)
    found = tx.connection.execute(query.order_by(saved_views.c.name))
    return [SavedView(row.name, row.query) for row in found]


def save_view(tx: WriteTransaction, user_id: int, name: str, query: str) -> None:
    """Insert a view."""
    tx.connection.execute(insert(saved_views).values(user_id=user_id, name=name, query=query))


def delete_view(tx: WriteTransaction, user_id: int, name: str) -> None:
    """Delete a view."""
    is_it = and_(saved_views.c.user_id == user_id, saved_views.c.name == name)
    tx.connection.execute(delete(saved_views).where(is_it))


def delete_old_sessions(tx: WriteTransaction, now: datetime) -> None:
    """Delete the expired sessions."""
    tx.connection.execute(delete(sessions).where(sessions.c.ends_at <= rows.to_seconds(now)))


def _session_of(row: Row[Any]) -> Session:
    return Session(**with_datetimes(row))


def has_factor(tx: ReadTransaction, user_id: int) -> bool:
    """Whether the user has a second factor."""
    query = select(second_factors.c.user_id).where(second_factors.c.user_id == user_id)
    return tx.connection.execute(query).first() is not None


def list_users_with_factor(tx: ReadTransaction) -> set[int]:
    """Return the IDs of the users who have a second factor."""
    return set(tx.connection.execute(select(second_factors.c.user_id)).scalars())


def find_factor(tx: ReadTransaction, user_id: int) -> SecondFactor | None:
    """Return the user's second factor."""
    query = select(second_factors).where(second_factors.c.user_id == user_id)
    row = tx.connection.execute(query).first()
    if row is None:
        return None
    secret = tx.key_ring.unseal(row.sealed_secret, factor_associated_data(user_id)).decode()
    return SecondFactor(user_id, secret, rows.to_datetime(row.enabled_at), row.last_step, row.failed_attempts)


def lock_factor(tx: WriteTransaction, user_id: int) -> SecondFactor | None:
    """Return the user's second factor, locked until the end of the transaction."""
    query = select(second_factors.c.user_id).where(second_factors.c.user_id == user_id)
    tx.connection.execute(query.with_for_update())
    return find_factor(tx, user_id)


def save_new_factor(tx: WriteTransaction, factor: SecondFactor) -> None:
    """Insert a second factor; its secret is sealed so that it can be read only for this user."""
    values = {
        "user_id": factor.user_id,
        "sealed_secret": tx.sealing.seal(factor.secret.encode(), factor_associated_data(factor.user_id)),
        "enabled_at": rows.to_seconds(factor.enabled_at),
        "last_step": factor.last_step,
        "failed_attempts": factor.failed_attempts,
    }
    tx.connection.execute(insert(second_factors).values(values))


def save_attempt(tx: WriteTransaction, factor: SecondFactor) -> None:
    """Update the last accepted step and the number of failures."""
    query = update(second_factors).where(second_factors.c.user_id == factor.user_id)
    tx.connection.execute(query.values(last_step=factor.last_step, failed_attempts=factor.failed_attempts))


def forget_failures(tx: WriteTransaction, user_id: int) -> None:
    """Reset the user's number of failures."""
    query = update(second_factors).where(second_factors.c.user_id == user_id)
    tx.connection.execute(query.values(failed_attempts=0))


def delete_factor(tx: WriteTransaction, user_id: int) -> None:
    """Delete the user's second factor and recovery codes."""
    save_codes(tx, user_id, ())
    tx.connection.execute(delete(second_factors).where(second_factors.c.user_id == user_id))


def count_codes(tx: ReadTransaction, user_id: int) -> int:
    """Return the number of recovery codes that the user has left."""
    query = select(func.count()).where(recovery_codes.c.user_id == user_id)
    return int(tx.connection.execute(query).scalar_one())


def save_codes(tx: WriteTransaction, user_id: int, hashes: Collection[bytes]) -> None:
    """Replace the user's recovery codes by those with these hashes."""
    tx.connection.execute(delete(recovery_codes).where(recovery_codes.c.user_id == user_id))
    if hashes:
        values = [{"user_id": user_id, "code_hash": one} for one in hashes]
        tx.connection.execute(insert(recovery_codes), values)


def take_code(tx: WriteTransaction, user_id: int, code_hash: bytes) -> bool:
    """Delete a recovery code; False if the user has no such code."""
    own = recovery_codes.c.user_id == user_id
    query = delete(recovery_codes).where(own, recovery_codes.c.code_hash == code_hash)
    return tx.connection.execute(query).rowcount == 1
