"""Users of the administration pages: create, invite and change them, sign them in and out, store their views.

The database stores argon2id hashes of passwords, and SHA-256 hashes of session tokens.
"""

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import (
    InvitationOver,
    LastAdministrator,
    SetupOver,
    TooManyViews,
    UnknownUser,
    UserExists,
)
from keywright.core.parsing import MAX_NAME_LENGTH
from keywright.db import ReadTransaction
from keywright.events.unit_of_work import UnitOfWork
from keywright.identity import second_factors, store
from keywright.identity.model import (
    AcceptInvitation,
    ChangeUser,
    CreateUser,
    DeleteView,
    EndSession,
    InviteUser,
    RefuseSignIn,
    Role,
    SaveView,
    SeeSession,
    Session,
    StartCompanySession,
    StartSession,
    User,
)
from keywright.identity.sessions import hash_session_token, is_over
from keywright.identity.store import (
    delete_invitation,
    delete_old_sessions,
    delete_session,
    delete_sessions_of,
    find_session,
    find_user,
    find_user_by_id,
    has_users,
    hold_users,
    lock_user,
    lock_user_and_administrators,
    save_new_session,
    save_new_user,
    save_seen,
    save_user,
)


def create_user(work: UnitOfWork, command: CreateUser) -> User:
    """Create a user whose name no other user has. Raises ``SetupOver``, ``UserExists``."""
    hold_users(work.tx)
    if command.only_first and has_users(work.tx):
        raise SetupOver
    if find_user(work.tx, command.name) is not None:
        raise UserExists(command.name)
    user = User(0, command.name, command.role, command.password_hash, command.context.now)
    user = replace(user, id=save_new_user(work.tx, user))
    work.record_event("user.created", command, _of(user) | {"role": user.role})
    return user


def change_user(work: UnitOfWork, command: ChangeUser) -> User:
    """Change a user. At least one administrator with a password must remain (``LastAdministrator``)."""
    locked = lock_user_and_administrators(work.tx, command.user_id)
    user = locked.pop(command.user_id, None)
    if user is None:
        raise UnknownUser
    changed = _apply_changes(user, command)
    if _administers(user) and not _administers(changed) and not locked:
        raise LastAdministrator
    save_user(work.tx, changed)
    if command.is_disabled or command.password_hash is not None:
        delete_sessions_of(work.tx, user.id, but=command.but_session)
        delete_invitation(work.tx, user.id)
    if command.password_hash is not None:
        store.forget_failures(work.tx, user.id)
    if changed != user:
        work.record_event("user.changed", command, _of(user) | _differences(user, changed))
    return changed


def start_session(work: UnitOfWork, command: StartSession) -> Session | None:
    """Sign a user in, and delete sessions that have ended; None for a wrong code. Raises ``UnknownUser``."""
    tx, origin = work.tx, command.context.origin
    user = lock_user(tx, command.user_id)
    if user is None or user.disabled_at is not None or user.subject is not None:
        raise UnknownUser
    if command.password_hash not in (None, user.password_hash):
        raise UnknownUser
    details = _of(user)
    if store.has_factor(tx, user.id):
        # Until the code is checked, the caller is not known to be the user.
        attempt = replace(command, context=replace(command.context, origin=replace(origin, actor="visitor")))
        code = command.code or ""
        taken = second_factors.take(work, attempt, user, code, is_known=command.is_known)
        if taken is None:
            return None
        details["second_factor"] = taken
    return _begin_session(work, command, user, timedelta(hours=command.hours), details)


def _begin_session(
    work: UnitOfWork,
    command: StartSession | StartCompanySession,
    user: User,
    length: timedelta,
    details: Mapping[str, Any],
) -> Session:
    now, origin = command.context.now, command.context.origin
    delete_old_sessions(work.tx, now)
    ends_at = now + length
    session = Session(command.token_hash, user.id, now, ends_at, now, origin.ip_address, origin.user_agent)
    save_new_session(work.tx, session)
    save_user(work.tx, replace(user, last_signed_in_at=now))
    work.record_event("user.signed_in", command, details)
    return session


#: No password has this hash.
_NO_HASH = "!"


def start_company_session(work: UnitOfWork, command: StartCompanySession) -> Session | None:
    """Sign in the user of a provider's account; None without a role. Raises ``UnknownUser`` for a user who is
    disabled, and for a new account while there are no users.
    """
    user = _lock_linked(work, command)
    if command.role is None:
        if user is not None:
            delete_sessions_of(work.tx, user.id, but=None)
        details = {"issuer": command.issuer, "subject": command.subject, "reason": "no role"}
        work.record_event("user.sign_in_refused", command, (_of(user) if user else {}) | details)
        return None
    if user is None:
        user = _make_linked(work, command, command.role)
    if user.disabled_at is not None:
        raise UnknownUser
    if user.role is not command.role:
        changed = replace(user, role=command.role)
        work.record_event("user.changed", command, _of(user) | _differences(user, changed))
        user = changed
    origin = replace(command.context.origin, actor=f"user:{user.id}", subject=user.subject)
    command = replace(command, context=replace(command.context, origin=origin, by=user.id))
    return _begin_session(work, command, user, timedelta(minutes=command.minutes), _of(user))


def _lock_linked(work: UnitOfWork, command: StartCompanySession) -> User | None:
    return store.lock_linked_user(work.tx, command.issuer, command.subject)


def _make_linked(work: UnitOfWork, command: StartCompanySession, role: Role) -> User:
    """Return the user for an account that signs in for the first time: the only user who has its verified
    address, or a new one.
    """
    hold_users(work.tx)
    if not has_users(work.tx):
        raise UnknownUser
    user = _lock_linked(work, command)
    if user is not None:
        # Another server has linked the account in the meantime.
        return user
    candidates = store.lock_users_to_link(work.tx, command.email) if command.email else []
    if len(candidates) == 1:
        if candidates[0].disabled_at is not None:
            raise UnknownUser
        # The user's former password, second factor, sessions and invitation no longer work.
        user = replace(candidates[0], password_hash=_NO_HASH, issuer=command.issuer, subject=command.subject)
        delete_sessions_of(work.tx, user.id, but=None)
        delete_invitation(work.tx, user.id)
        store.delete_factor(work.tx, user.id)
        work.record_event("user.linked", command, _of(user))
        return user
    name, now = _find_free_name(work.tx, command.name, command.subject), command.context.now
    user = User(
        0, name, role, _NO_HASH, now, None, None, None, command.email, command.issuer, command.subject
    )
    user = replace(user, id=save_new_user(work.tx, user))
    work.record_event("user.created", command, _of(user) | {"role": role})
    return user


def _find_free_name(tx: ReadTransaction, name: str, subject: str) -> str:
    """Return the name, followed by the subject if another user has that name."""
    name = name[:MAX_NAME_LENGTH].strip()
    candidates = (name, f"{name[:100]} ({subject[:90]})", f"{name[:100]} {secrets.token_hex(16)}")
    return next(one for one in candidates if find_user(tx, one) is None)


def see_session(work: UnitOfWork, command: SeeSession) -> Session | None:
    """Update a session's last-seen time; None if the session is unknown or over."""
    session = find_session(work.tx, command.token_hash)
    if session is None or is_over(session, command.context.now):
        return None
    save_seen(work.tx, command.token_hash, command.context.now)
    return replace(session, last_seen_at=command.context.now)


def end_session(work: UnitOfWork, command: EndSession) -> None:
    """Sign out; do nothing for an unknown session."""
    session = find_session(work.tx, command.token_hash)
    if session is None:
        return
    delete_session(work.tx, command.token_hash)
    user = find_user_by_id(work.tx, session.user_id)
    work.record_event("user.signed_out", command, {"user_id": session.user_id} if user is None else _of(user))


def refuse_sign_in(work: UnitOfWork, command: RefuseSignIn) -> None:
    """Record a failed sign-in; the name only if it is a user's: people type passwords in the wrong field."""
    user = find_user(work.tx, command.name)
    details = {"reason": command.reason} if command.reason else None
    work.record_event("user.sign_in_refused", command, details if user is None else _of(user))


def _apply_changes(user: User, command: ChangeUser) -> User:
    changes: dict[str, Any] = {}
    if command.role is not None:
        changes["role"] = command.role
    if command.password_hash is not None:
        changes |= {"password_hash": command.password_hash, "issuer": None, "subject": None}
    if command.is_disabled is not None and command.is_disabled != (user.disabled_at is not None):
        changes["disabled_at"] = command.context.now if command.is_disabled else None
    if command.language is not None:
        changes["language"] = command.language or None
    if command.email is not None:
        changes["email"] = command.email or None
    return replace(user, **changes)


def _administers(user: User) -> bool:
    """Whether this is an administrator who signs in with a password."""
    return user.role is Role.ADMINISTRATOR and user.disabled_at is None and user.subject is None


def _of(user: User) -> dict[str, Any]:
    linked = {} if user.subject is None else {"issuer": user.issuer, "subject": user.subject}
    return {"user_id": user.id, "user": user.name} | linked


def _differences(before: User, after: User) -> dict[str, Any]:
    """The changed fields, as [before, after]; for a password or an address, only that it changed."""
    details: dict[str, Any] = {}
    if before.role is not after.role:
        details["role"] = [before.role, after.role]
    if before.disabled_at != after.disabled_at:
        details["is_disabled"] = [before.disabled_at is not None, after.disabled_at is not None]
    if before.password_hash != after.password_hash:
        details["is_password_new"] = True
    if before.language != after.language:
        details["language"] = [before.language, after.language]
    if before.email != after.email:
        details["is_email_new"] = True
    return details


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    CreateUser: create_user,
    ChangeUser: change_user,
    StartSession: start_session,
    StartCompanySession: start_company_session,
    SeeSession: see_session,
    EndSession: end_session,
    RefuseSignIn: refuse_sign_in,
}


#: How long the link of an invitation is valid.
INVITATION_TIME = timedelta(hours=72)


def find_invited(tx: ReadTransaction, token: str, now: datetime) -> User | None:
    """Return the user whom the link with this token invites, if the link is valid."""
    user_id = store.find_invited(tx, hash_session_token(token), now)
    user = None if user_id is None else store.find_user_by_id(tx, user_id)
    return None if user is None or user.disabled_at is not None else user


def invite(work: UnitOfWork, command: InviteUser) -> None:
    """Create a link for a user; it replaces an earlier one. Raises ``UnknownUser``."""
    user = store.lock_user(work.tx, command.user_id)
    if user is None or user.disabled_at is not None:
        raise UnknownUser
    expires_at = command.context.now + INVITATION_TIME
    store.save_invitation(work.tx, user.id, command.token_hash, expires_at)
    work.record_event("user.invited", command, {"user_id": user.id, "user": user.name})


def accept(work: UnitOfWork, command: AcceptInvitation) -> User:
    """Set the password of the user whom the link invites, and end the link. Raises ``InvitationOver``."""
    now = command.context.now
    user_id = store.find_invited(work.tx, command.token_hash, now)
    if user_id is None or store.lock_user(work.tx, user_id) is None:
        raise InvitationOver
    if store.find_invited(work.tx, command.token_hash, now) is None:
        # A concurrent request with the same link was faster.
        raise InvitationOver
    context = msgspec.structs.replace(
        command.context, origin=msgspec.structs.replace(command.context.origin, actor=f"user:{user_id}")
    )
    return change_user(
        work, ChangeUser(context=context, user_id=user_id, password_hash=command.password_hash)
    )


INVITATION_HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    InviteUser: invite,
    AcceptInvitation: accept,
}


#: The largest number of views of a user.
MAX_VIEWS = 20


def save_view(work: UnitOfWork, command: SaveView) -> None:
    """Store the view, replacing one with the same name. Raises ``TooManyViews``."""
    # The lock serializes a user's requests, so that none exceeds the limit.
    store.lock_user(work.tx, command.user_id)
    names = {one.name for one in store.list_views(work.tx, command.user_id)}
    if command.name not in names and len(names) >= MAX_VIEWS:
        raise TooManyViews(MAX_VIEWS)
    store.delete_view(work.tx, command.user_id, command.name)
    store.save_view(work.tx, command.user_id, command.name, command.query)


def delete_view(work: UnitOfWork, command: DeleteView) -> None:
    """Delete the view, if there is one."""
    store.delete_view(work.tx, command.user_id, command.name)


VIEW_HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    SaveView: save_view,
    DeleteView: delete_view,
}
