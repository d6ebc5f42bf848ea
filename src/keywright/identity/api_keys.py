"""API keys: issue, revoke, authenticate."""

import hmac
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core import crypto
from keywright.core.command import Command, Origin
from keywright.core.errors import CredentialsInvalid, UnknownApiKey
from keywright.db import Storage, WriteTransaction, ask, change
from keywright.identity import store as identity_store
from keywright.identity.commands import IssueApiKey, RevokeApiKey
from keywright.identity.model import ApiKey, Caller, Permissions
from keywright.identity.store import save_new_api_key
from keywright.licensing.unit_of_work import UnitOfWork

_NO_SECRET = bytes(32)
_PROGRAM = Origin(actor="program", ip_address="", user_agent="")


class Secrets(msgspec.Struct, frozen=True):
    """The secrets of a new API key; they are shown once, and only what ``hashed`` gives is kept."""

    consumer_key: str
    consumer_secret: str

    def hashed(self) -> dict[str, Any]:
        """The fields of ``IssueApiKey`` that these secrets say."""
        return {
            "consumer_key_hash": crypto.hash_consumer_key(self.consumer_key),
            "secret_hash": crypto.hash_consumer_secret(self.consumer_secret),
            "hint": self.consumer_key[-7:],
        }


class IssuedApiKey(msgspec.Struct, frozen=True):
    """A new API key with its secrets, which are known at this moment only."""

    api_key: ApiKey
    consumer_key: str
    consumer_secret: str


def new_secrets() -> Secrets:
    """A new consumer key and consumer secret."""
    return Secrets(crypto.new_consumer_key(), crypto.new_consumer_secret())


def issue_api_key(
    storage: Storage,
    name: str,
    permissions: Permissions,
    now: datetime,
    *,
    product_id: int | None = None,
    origin: Origin = _PROGRAM,
) -> IssuedApiKey:
    """Make an API key; durable when this returns."""
    new = new_secrets()
    command = IssueApiKey(
        now=now,
        origin=origin,
        name=name,
        permissions=permissions,
        product_id=product_id,
        **new.hashed(),
    )
    api_key: ApiKey = _decided(storage, issue, command)
    return IssuedApiKey(api_key, new.consumer_key, new.consumer_secret)


def list_api_keys(storage: Storage) -> list[ApiKey]:
    """Every API key, revoked ones included, oldest first."""
    return ask(storage, identity_store.list_api_keys)


def revoke_api_key(storage: Storage, api_key_id: int, now: datetime, *, origin: Origin = _PROGRAM) -> None:
    """End an API key at once. Raises ``UnknownApiKey`` when none in force has this number."""
    _decided(storage, revoke, RevokeApiKey(now=now, origin=origin, api_key_id=api_key_id))


def caller_of(api_key: ApiKey | None, consumer_secret: str) -> Caller:
    """Who calls with this API key and secret. Raises ``CredentialsInvalid``.

    Takes as long for an unknown key as for a wrong secret.
    """
    expected = _NO_SECRET if api_key is None else api_key.secret_hash
    is_right = hmac.compare_digest(crypto.hash_consumer_secret(consumer_secret), expected)
    if api_key is None or not is_right:
        raise CredentialsInvalid
    return Caller(api_key.id, api_key.name, api_key.permissions, api_key.product_id)


def may_read(permissions: Permissions) -> bool:
    """Whether management calls that read are allowed."""
    return permissions in (Permissions.READ, Permissions.READ_WRITE)


def may_write(permissions: Permissions) -> bool:
    """Whether management calls that change something are allowed."""
    return permissions in (Permissions.WRITE, Permissions.READ_WRITE)


def may_call_core(permissions: Permissions) -> bool:
    """Whether activate, reactivate, deactivate and validate are allowed."""
    return permissions is not Permissions.WRITE


def issue(work: UnitOfWork, command: IssueApiKey) -> ApiKey:
    """Make an API key."""
    api_key = ApiKey(
        id=0,
        name=command.name,
        permissions=command.permissions,
        product_id=command.product_id,
        hint=command.hint,
        secret_hash=command.secret_hash,
        created_at=command.now,
        revoked_at=None,
    )
    api_key = replace(api_key, id=save_new_api_key(work.tx, api_key, command.consumer_key_hash))
    details = {"api_key_id": api_key.id, "api_key": api_key.name, "permissions": api_key.permissions}
    if api_key.product_id is not None:
        details["product_id"] = api_key.product_id
    work.note("api_key.created", command, details)
    return api_key


def revoke(work: UnitOfWork, command: RevokeApiKey) -> None:
    """End an API key."""
    if not identity_store.revoke_api_key(work.tx, command.api_key_id, command.now):
        raise UnknownApiKey
    work.note("api_key.revoked", command, {"api_key_id": command.api_key_id})


def _decided(storage: Storage, decide: Callable[[UnitOfWork, Any], Any], command: Command) -> Any:
    def transact(tx: WriteTransaction) -> Any:
        work = UnitOfWork(tx, [command])
        value = decide(work, command)
        work.save()
        return value

    return change(storage, transact)


#: Which function decides which command.
HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    IssueApiKey: issue,
    RevokeApiKey: revoke,
}
