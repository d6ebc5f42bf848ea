"""Users, their sessions, and the names of a vendor's products and customers, within one transaction."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Row, and_, delete, exists, insert, or_, select, update

from keywright.model import NameKind, Role, Session, User
from keywright.storage import rows
from keywright.storage.many import Lookup
from keywright.storage.schema import installation, names, sessions, users
from keywright.storage.transactions import Reading, Writing

_SESSION = [sessions.c[name] for name in Session.__struct_fields__]
_NAMES_OF = Lookup(select(names.c.number, names.c.name), names.c.kind, names.c.number)
_ADMINISTERS = and_(users.c.role == Role.ADMINISTRATOR, users.c.disabled_at.is_(None))


# --- users ----------------------------------------------------------------------------------------


def list_users(tx: Reading) -> list[User]:
    """Every user, disabled ones included, oldest first."""
    return [rows.user_of(row) for row in tx.connection.execute(select(*rows.USER).order_by(users.c.id))]


def find_user(tx: Reading, name: str) -> User | None:
    """The user with exactly this name."""
    # No database needs to be asked for a text that none can hold.
    return _find_user(tx, name) if name.isprintable() else None


def find_user_by_id(tx: Reading, user_id: int) -> User | None:
    """The user with this number."""
    row = tx.connection.execute(select(*rows.USER).where(users.c.id == user_id)).first()
    return None if row is None else rows.user_of(row)


def has_users(tx: Reading) -> bool:
    """Whether there is any user, disabled ones included."""
    return bool(tx.connection.execute(select(exists().select_from(users))).scalar_one())


def hold_users(tx: Writing) -> None:
    """Let no other transaction make users until the end of this one.

    A write, because a transaction that waited for a mere lock may go on with what it saw before.
    """
    tx.connection.execute(update(installation).values(secret_mark=installation.c.secret_mark))


def lock_user(tx: Writing, user_id: int) -> User | None:
    """The user with this number, locked until the end."""
    query = select(*rows.USER).where(users.c.id == user_id).with_for_update()
    row = tx.connection.execute(query).first()
    return None if row is None else rows.user_of(row)


def share_user(tx: Writing, user_id: int) -> User | None:
    """The user with this number, whom no other transaction changes until the end."""
    query = select(*rows.USER).where(users.c.id == user_id).with_for_update(read=True)
    row = tx.connection.execute(query).first()
    return None if row is None else rows.user_of(row)


def lock_user_and_administrators(tx: Writing, user_id: int) -> dict[int, User]:
    """The user with this number, and all who may administer, by number; locked in id order until the end."""
    query = select(*rows.USER).where(or_(users.c.id == user_id, _ADMINISTERS)).order_by(users.c.id)
    found = tx.connection.execute(query.with_for_update())
    return {row.id: rows.user_of(row) for row in found}


def save_user(tx: Writing, user: User) -> None:
    """Update every field."""
    tx.connection.execute(update(users).where(users.c.id == user.id).values(rows.values_of(user)))


def _find_user(tx: Reading, name: str) -> User | None:
    """The user with this name."""
    row = tx.connection.execute(select(*rows.USER).where(users.c.name == name)).first()
    return None if row is None else rows.user_of(row)


def save_new_user(tx: Writing, user: User) -> int:
    """Insert, and return the number that the user has from now on."""
    return tx.insert(users, rows.values_of(user))


# --- sessions -------------------------------------------------------------------------------------


def find_session(tx: Reading, token_hash: bytes) -> Session | None:
    """The session with this token."""
    row = tx.connection.execute(select(*_SESSION).where(sessions.c.token_hash == token_hash)).first()
    return None if row is None else _session_of(row)


def list_sessions(tx: Reading, user_id: int) -> list[Session]:
    """Every session of the user, over or not, the newest first."""
    query = select(*_SESSION).where(sessions.c.user_id == user_id).order_by(sessions.c.created_at.desc())
    return [_session_of(row) for row in tx.connection.execute(query)]


def save_new_session(tx: Writing, session: Session) -> None:
    """Insert."""
    values = {name: getattr(session, name) for name in Session.__struct_fields__}
    moments = {name: rows.seconds(values[name]) for name in ("created_at", "seen_at")}
    tx.connection.execute(insert(sessions).values(values | moments))


def save_seen(tx: Writing, token_hash: bytes, now: datetime) -> None:
    """Update when somebody came by."""
    query = update(sessions).where(sessions.c.token_hash == token_hash)
    tx.connection.execute(query.values(seen_at=rows.seconds(now)))


def delete_session(tx: Writing, token_hash: bytes) -> None:
    """Delete."""
    tx.connection.execute(delete(sessions).where(sessions.c.token_hash == token_hash))


def delete_sessions_of(tx: Writing, user_id: int, *, but: bytes | None) -> None:
    """Delete the user's sessions, except that with this hash."""
    query = delete(sessions).where(sessions.c.user_id == user_id)
    tx.connection.execute(query if but is None else query.where(sessions.c.token_hash != but))


def renew_session(tx: Writing, user_id: int, session: bytes | None, new: bytes | None) -> None:
    """End the user's sessions, except that with this hash, which has another from now on."""
    delete_sessions_of(tx, user_id, but=session)
    if session is not None and new is not None:
        own = and_(sessions.c.user_id == user_id, sessions.c.token_hash == session)
        tx.connection.execute(update(sessions).where(own).values(token_hash=new))


def delete_old_sessions(tx: Writing, *, seen_before: datetime, created_before: datetime) -> None:
    """Delete the sessions seen last, or created, at these moments or earlier."""
    is_old = or_(
        sessions.c.seen_at <= rows.seconds(seen_before),
        sessions.c.created_at <= rows.seconds(created_before),
    )
    tx.connection.execute(delete(sessions).where(is_old))


def _session_of(row: Row[tuple[object, ...]]) -> Session:
    moments = {name: rows.moment(row._mapping[name]) for name in ("created_at", "seen_at")}
    return Session(**dict(row._mapping) | moments)


# --- names ----------------------------------------------------------------------------------------


def names_of(tx: Reading, kind: NameKind, numbers: Collection[int]) -> dict[int, str]:
    """The names of those of these numbers that have one."""
    found = _NAMES_OF.rows(tx.connection, [(kind.value, number) for number in {*numbers}])
    return {row.number: row.name for row in found}


def list_names(tx: Reading, kind: NameKind, *, after: int, limit: int) -> dict[int, str]:
    """At most ``limit`` names of larger numbers than ``after`` (-1 for the first), in the numbers' order."""
    query = select(names.c.number, names.c.name).where(names.c.kind == kind.value, names.c.number > after)
    found = tx.connection.execute(query.order_by(names.c.number).limit(limit))
    return {row.number: row.name for row in found}


def find_numbers(tx: Reading, kind: NameKind, name: str) -> list[int]:
    """Two of the numbers that have exactly this name, or the one, or none: the smallest."""
    if not name.isprintable():
        return []
    query = select(names.c.number).where(names.c.kind == kind.value, names.c.name == name)
    return list(tx.connection.execute(query.order_by(names.c.number).limit(2)).scalars())


def page_of_names_before(tx: Reading, kind: NameKind, *, number: int, limit: int) -> int:
    """After which number a page of ``limit`` names begins that ends with this number; -1 is the first."""
    query = select(names.c.number).where(names.c.kind == kind.value, names.c.number <= number)
    query = query.order_by(names.c.number.desc()).offset(limit).limit(1)
    after = tx.connection.execute(query).scalar_one_or_none()
    return -1 if after is None else int(after)


def save_name(tx: Writing, kind: NameKind, number: int, name: str | None) -> None:
    """Give the number this name instead of the one it had; None for no name at all."""
    tx.connection.execute(delete(names).where(names.c.kind == kind.value, names.c.number == number))
    if name is not None:
        tx.connection.execute(insert(names).values(kind=kind.value, number=number, name=name))
