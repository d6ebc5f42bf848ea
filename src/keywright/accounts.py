"""Users of the administration pages: who they are, what each may do, how they sign in, and what they call
the products and customers of their shop.

Passwords are known by their argon2id hashes only, sessions by the SHA-256 of the token that the browser has.
"""

import hashlib
import hmac
import re
import secrets
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from keywright import commands as c
from keywright import second_factors
from keywright.errors import LastAdministrator, SetupOver, UnknownUser, UserExists
from keywright.model import License, Role, Session, User
from keywright.storage import Reading, people
from keywright.storage.people import (
    find_user,
    find_user_by_id,
    has_users,
    list_names,
    list_users,
    names_of,
    page_of_names_before,
)
from keywright.workset import Workset

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = [
    "DECISIONS",
    "MAX_PASSWORD_LENGTH",
    "MIN_PASSWORD_LENGTH",
    "SESSION_IDLE",
    "SESSION_LONGEST",
    "SETUP_TIME",
    "Right",
    "SignedIn",
    "check_password",
    "find_signed_in",
    "find_user",
    "find_user_by_id",
    "has_users",
    "hash_password",
    "hash_session_token",
    "is_setup_token",
    "is_to_be_seen",
    "list_names",
    "list_sessions",
    "list_users",
    "may",
    "names_of",
    "new_session_token",
    "page_of_names_before",
    "setup_token",
]

MIN_PASSWORD_LENGTH = 12
#: Longer ones only cost time.
MAX_PASSWORD_LENGTH = 1024
#: A session is good up to, not including, these times after somebody came by, and after it began.
SESSION_IDLE = timedelta(minutes=30)
SESSION_LONGEST = timedelta(hours=12)
#: How long the link for the first administrator is good.
SETUP_TIME = timedelta(minutes=30)
#: That somebody came by is written down no more often than this.
_SEEN_EVERY = timedelta(minutes=1)
#: How far the clocks of two servers may be apart.
_CLOCKS_APART = timedelta(minutes=1)
#: The hash of a password that nobody knows, so that looking for it is as much work as for any other.
_NOBODYS_HASH = (
    "$argon2id$v=19$m=65536,t=3,p=1$WqifCy9y32OweCyw0u+jAA$sEWq9esCKryCJFRgO7bOMFH+oZwDFXQkD22o3QjRZ0s"
)
_SETUP_TOKEN = re.compile(r"([0-9a-f]{1,12})\.([0-9a-f]{64})", re.ASCII)


# --- rights ---------------------------------------------------------------------------------------


class Right(StrEnum):
    """What a page, or a button on it, asks of its user."""

    LOOK = "look"
    CHANGE = "change"
    ADMINISTER = "administer"


_RIGHTS = {
    Role.READER: frozenset({Right.LOOK}),
    Role.SUPPORT: frozenset({Right.LOOK, Right.CHANGE}),
    Role.ADMINISTRATOR: frozenset(Right),
}


def may(role: Role, right: Right) -> bool:
    """Whether users with this role have the right."""
    return right in _RIGHTS[role]


# --- passwords ------------------------------------------------------------------------------------


def hash_password(password: str) -> str:
    """The argon2id hash of a password, with a salt of its own. Slow on purpose: some 100 ms and 64 MiB.

    Raises ``ValueError`` for more than ``MAX_PASSWORD_LENGTH`` characters.
    """
    if len(password) > MAX_PASSWORD_LENGTH:
        raise ValueError(f"has at most {MAX_PASSWORD_LENGTH:,} characters")
    return _hasher().hash(_password_bytes(password))


def check_password(user: User | None, password: str) -> bool:
    """Whether the user may sign in with this password; as much work for no user, or a disabled one."""
    # Imported here, as in _hasher: only signing in needs it.
    from argon2.exceptions import InvalidHashError, VerificationError

    # Nobody has a longer one, and to normalize a very long text can take a minute.
    is_possible = len(password) <= MAX_PASSWORD_LENGTH
    expected = user.password_hash if user is not None and is_possible else _NOBODYS_HASH
    try:
        _hasher().verify(expected, _password_bytes(password[:MAX_PASSWORD_LENGTH]))
    except (VerificationError, InvalidHashError):
        return False
    return is_possible and user is not None and user.disabled_at is None


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher

    # The second recommendation of RFC 9106, section 4, but with one lane: strangers who try passwords keep
    # one processor busy, not all.
    return PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)


def _password_bytes(password: str) -> bytes:
    """The same for a text however the keyboard composes it (NIST SP 800-63B, section 3.1.1.2)."""
    return unicodedata.normalize("NFKC", password).encode(errors="surrogatepass")


# --- the first administrator ----------------------------------------------------------------------


def setup_token(tx: Reading, now: datetime) -> str:
    """What lets its bearer make the first administrator, for ``SETUP_TIME``. Raises ``SetupOver`` when there
    are users.
    """
    if has_users(tx):
        raise SetupOver
    issued = f"{int(now.timestamp()):x}"
    return f"{issued}.{_setup_signature(tx, issued)}"


def is_setup_token(tx: Reading, token: str, now: datetime) -> bool:
    """Whether this came from ``setup_token`` of this installation in time, and there are no users yet."""
    found = _SETUP_TOKEN.fullmatch(token)
    if found is None or not hmac.compare_digest(found[2], _setup_signature(tx, found[1])):
        return False
    age = now - datetime.fromtimestamp(int(found[1], 16), UTC)
    return -_CLOCKS_APART < age < SETUP_TIME and not has_users(tx)


def _setup_signature(tx: Reading, issued: str) -> str:
    return tx.key_ring.sign("the first administrator", issued).hex()


def device_mark(tx: Reading, user: User) -> str:
    """What a browser shows in which this user has signed in, until they have another password: strangers who
    try passwords under somebody's name must not keep out who has been here before.
    """
    return tx.key_ring.sign("a known browser", f"{user.id} {user.password_hash}").hex()


# --- sessions -------------------------------------------------------------------------------------


class SignedIn(msgspec.Struct, frozen=True):
    """The session, its user, and whether the user has a second factor."""

    user: User
    session: Session
    has_factor: bool


def new_session_token() -> str:
    """A new token for a session: 256 random bits in URL-safe characters."""
    return secrets.token_urlsafe(32)


def hash_session_token(token: str) -> bytes:
    """SHA-256; a slow hash has nothing to add to 256 random bits."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def find_signed_in(tx: Reading, token: str, now: datetime) -> SignedIn | None:
    """Who is signed in with this token: nobody when it is unknown, the session is over, or the user is
    disabled.
    """
    session = people.find_session(tx, hash_session_token(token))
    if session is None or _is_over(session, now):
        return None
    user = find_user_by_id(tx, session.user_id)
    if user is None or user.disabled_at is not None:
        return None
    return SignedIn(user, session, second_factors.has_factor(tx, user.id))


def list_sessions(tx: Reading, user_id: int, now: datetime) -> list[Session]:
    """Where the user is signed in, the newest first."""
    return [one for one in people.list_sessions(tx, user_id) if not _is_over(one, now)]


def is_to_be_seen(session: Session, now: datetime) -> bool:
    """Whether it is time for a ``SeeSession``; not on every page, for each is a change of the database."""
    return abs(now - session.seen_at) >= _SEEN_EVERY


def _is_over(session: Session, now: datetime) -> bool:
    # One that was seen far in the future is of a clock that was wrong.
    return abs(now - session.seen_at) >= SESSION_IDLE or now - session.created_at >= SESSION_LONGEST


# --- what each command does -----------------------------------------------------------------------


def create_user(work: Workset, command: c.CreateUser) -> User:
    """Make a user with a name that no other has."""
    people.hold_users(work.tx)
    if command.only_first and has_users(work.tx):
        raise SetupOver
    if find_user(work.tx, command.name) is not None:
        raise UserExists(command.name)
    user = User(0, command.name, command.role, command.password_hash, command.now)
    user = replace(user, id=people.save_new_user(work.tx, user))
    work.note("user.created", command, _of(user) | {"role": user.role})
    return user


def change_user(work: Workset, command: c.ChangeUser) -> User:
    """Change a user; somebody who may administer has to be left."""
    locked = people.lock_user_and_administrators(work.tx, command.user_id)
    user = locked.pop(command.user_id, None)
    if user is None:
        raise UnknownUser
    changed = _changed(user, command)
    if _administers(user) and not _administers(changed) and not locked:
        raise LastAdministrator
    people.save_user(work.tx, changed)
    if command.is_disabled or command.password_hash is not None:
        people.delete_sessions_of(work.tx, user.id, but=command.but_session)
    if command.password_hash is not None:
        second_factors.forget_failures(work.tx, user.id)
    if changed != user:
        work.note("user.changed", command, _of(user) | _differences(user, changed))
    return changed


def start_session(work: Workset, command: c.StartSession) -> Session | None:
    """Sign a user in, and forget the sessions that are over; None for a wrong code. Raises
    ``UnknownUser``.
    """
    tx, now, origin = work.tx, command.now, command.origin
    user = people.lock_user(tx, command.user_id)
    if user is None or user.disabled_at is not None:
        raise UnknownUser
    if command.password_hash not in (None, user.password_hash):
        raise UnknownUser
    details = _of(user)
    if second_factors.has_factor(tx, user.id):
        # It is not known before that it is them.
        attempt = replace(command, origin=replace(origin, actor="visitor"))
        if (taken := second_factors.take(work, attempt, user, command.code or "")) is None:
            return None
        details["second_factor"] = taken
    people.delete_old_sessions(tx, seen_before=now - SESSION_IDLE, created_before=now - SESSION_LONGEST)
    session = Session(command.token_hash, user.id, now, now, origin.ip_address, origin.user_agent)
    people.save_new_session(tx, session)
    people.save_user(tx, replace(user, signed_in_at=now))
    work.note("user.signed_in", command, details)
    return session


def see_session(work: Workset, command: c.SeeSession) -> Session | None:
    """Let the session go on; None when there is none any more."""
    session = people.find_session(work.tx, command.token_hash)
    if session is None or _is_over(session, command.now):
        return None
    people.save_seen(work.tx, command.token_hash, command.now)
    return replace(session, seen_at=command.now)


def end_session(work: Workset, command: c.EndSession) -> None:
    """Sign out; nothing happens where nobody is signed in."""
    session = people.find_session(work.tx, command.token_hash)
    if session is None:
        return
    people.delete_session(work.tx, command.token_hash)
    user = find_user_by_id(work.tx, session.user_id)
    work.note("user.signed_out", command, {"user_id": session.user_id} if user is None else _of(user))


def refuse_sign_in(work: Workset, command: c.RefuseSignIn) -> None:
    """Write down that somebody could not sign in; the name only where it is a user's, for people type their
    passwords into the wrong field.
    """
    user = find_user(work.tx, command.name)
    work.note("user.sign_in_refused", command, None if user is None else _of(user))


def save_name(work: Workset, command: c.SaveName) -> None:
    """Call a number of the shop by another name."""
    before = names_of(work.tx, command.kind, [command.number]).get(command.number)
    if before == command.name:
        return
    people.save_name(work.tx, command.kind, command.number, command.name)
    details = {"kind": command.kind, "number": command.number, "name": [before, command.name]}
    work.note("name.saved", command, details)


def show_key(work: Workset, command: c.ShowKey) -> License:
    """A license for somebody who looks at its key."""
    license = work.get_license(command)
    work.announce("license.key_shown", license, command)
    return license


def _changed(user: User, command: c.ChangeUser) -> User:
    changes: dict[str, Any] = {}
    if command.role is not None:
        changes["role"] = command.role
    if command.password_hash is not None:
        changes["password_hash"] = command.password_hash
    if command.is_disabled is not None and command.is_disabled != (user.disabled_at is not None):
        changes["disabled_at"] = command.now if command.is_disabled else None
    return replace(user, **changes)


def _administers(user: User) -> bool:
    return user.role is Role.ADMINISTRATOR and user.disabled_at is None


def _of(user: User) -> dict[str, Any]:
    return {"user_id": user.id, "user": user.name}


def _differences(before: User, after: User) -> dict[str, Any]:
    """What changed, as [before, after]; of a password only that it is another."""
    details: dict[str, Any] = {}
    if before.role is not after.role:
        details["role"] = [before.role, after.role]
    if before.disabled_at != after.disabled_at:
        details["is_disabled"] = [before.disabled_at is not None, after.disabled_at is not None]
    if before.password_hash != after.password_hash:
        details["is_password_new"] = True
    return details


#: Which function decides which command.
DECISIONS: dict[type[c.Command], Callable[[Workset, Any], Any]] = {
    c.CreateUser: create_user,
    c.ChangeUser: change_user,
    c.StartSession: start_session,
    c.SeeSession: see_session,
    c.EndSession: end_session,
    c.RefuseSignIn: refuse_sign_in,
    c.SaveName: save_name,
    c.ShowKey: show_key,
}
