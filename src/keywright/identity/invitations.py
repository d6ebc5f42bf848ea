"""Invitations: a link with which a user sets a password, once."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from keywright.core.command import Command
from keywright.core.errors import InvitationOver, UnknownUser
from keywright.db import ReadTransaction
from keywright.events.unit_of_work import UnitOfWork
from keywright.identity import store
from keywright.identity.commands import AcceptInvitation, ChangeUser, InviteUser
from keywright.identity.model import User
from keywright.identity.sessions import hash_session_token
from keywright.identity.users import change_user

#: How long the link of an invitation is good.
INVITATION_TIME = timedelta(hours=72)


def find_invited(tx: ReadTransaction, token: str, now: datetime) -> User | None:
    """The user whom the link with this token invites, while it is good."""
    user_id = store.find_invited(tx, hash_session_token(token), now)
    user = None if user_id is None else store.find_user_by_id(tx, user_id)
    return None if user is None or user.disabled_at is not None else user


def invite(work: UnitOfWork, command: InviteUser) -> None:
    """Make a link for a user; one from before is worthless then. Raises ``UnknownUser``."""
    user = store.lock_user(work.tx, command.user_id)
    if user is None or user.disabled_at is not None:
        raise UnknownUser
    expires_at = command.context.now + INVITATION_TIME
    store.save_invitation(work.tx, user.id, command.token_hash, expires_at)
    work.record_event("user.invited", command, {"user_id": user.id, "user": user.name})


def accept(work: UnitOfWork, command: AcceptInvitation) -> User:
    """Set the password of the user whom the link invites, which ends it. Raises ``InvitationOver``."""
    now = command.context.now
    user_id = store.find_invited(work.tx, command.token_hash, now)
    if user_id is None or store.lock_user(work.tx, user_id) is None:
        raise InvitationOver
    if store.find_invited(work.tx, command.token_hash, now) is None:
        # Another form with the same link was faster.
        raise InvitationOver
    context = msgspec.structs.replace(
        command.context, origin=msgspec.structs.replace(command.context.origin, actor=f"user:{user_id}")
    )
    return change_user(
        work, ChangeUser(context=context, user_id=user_id, password_hash=command.password_hash)
    )


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    InviteUser: invite,
    AcceptInvitation: accept,
}
