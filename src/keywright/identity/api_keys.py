"""API keys: issue, revoke, authenticate, read."""

import hmac
import re
import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core import crypto
from keywright.core.command import Command
from keywright.core.errors import CredentialsInvalid, UnknownApiKey
from keywright.events.unit_of_work import UnitOfWork
from keywright.identity import store as identity_store
from keywright.identity.model import ApiKey, Caller, FindApiKey, IssueApiKey, Permissions, RevokeApiKey
from keywright.identity.store import save_new_api_key

_NO_SECRET = bytes(32)
_TOKEN = re.compile("kw_[0-9a-f]{80}")


class Secrets(msgspec.Struct, frozen=True):
    """The secrets of a new API key. They are shown once; only the values of ``hash_fields`` are stored."""

    consumer_key: str
    consumer_secret: str

    @property
    def token(self) -> str:
        """Both secrets in one text that secret scanners can recognize."""
        return f"kw_{self.consumer_key[3:]}{self.consumer_secret[3:]}"

    def hash_fields(self) -> dict[str, Any]:
        """Return the fields of ``IssueApiKey`` for these secrets."""
        return {
            "consumer_key_hash": crypto.hash_consumer_key(self.consumer_key),
            "secret_hash": crypto.hash_consumer_secret(self.consumer_secret),
            "key_suffix": self.consumer_key[-7:],
        }


def new_secrets() -> Secrets:
    """Generate a consumer key and a consumer secret, of 160 random bits each."""
    return Secrets(f"ck_{secrets.token_hex(20)}", f"cs_{secrets.token_hex(20)}")


def split_token(token: str) -> tuple[str, str] | None:
    """Return the consumer key and secret in ``Secrets.token``; None for any other text."""
    if _TOKEN.fullmatch(token) is None:
        return None
    return f"ck_{token[3:43]}", f"cs_{token[43:]}"


def caller_of(api_key: ApiKey | None, consumer_secret: str, now: datetime) -> Caller:
    """Check the secret and the expiry of this API key, and return the caller. Raises ``CredentialsInvalid``.

    It takes as long for an unknown key as for a wrong secret.
    """
    expected = _NO_SECRET if api_key is None else api_key.secret_hash
    is_right = hmac.compare_digest(crypto.hash_consumer_secret(consumer_secret), expected)
    if api_key is None or not is_right or is_expired(api_key, now):
        raise CredentialsInvalid
    return Caller(
        api_key.id, api_key.name, api_key.permissions, api_key.product_id, expires_at=api_key.expires_at
    )


def is_expired(api_key: ApiKey, now: datetime) -> bool:
    """Whether the API key has expired."""
    return api_key.expires_at is not None and now >= api_key.expires_at


def may_read(permissions: Permissions) -> bool:
    """Whether management calls that read are allowed."""
    return permissions in (Permissions.READ, Permissions.READ_WRITE)


def may_write(permissions: Permissions) -> bool:
    """Whether management calls that change something are allowed."""
    return permissions in (Permissions.WRITE, Permissions.READ_WRITE)


def may_call_core(permissions: Permissions) -> bool:
    """Whether activate, reactivate, deactivate, validate, and reading a license by its key are allowed."""
    return permissions is not Permissions.WRITE


def issue(work: UnitOfWork, command: IssueApiKey) -> ApiKey:
    """Create an API key."""
    api_key = ApiKey(
        id=0,
        name=command.name,
        permissions=command.permissions,
        product_id=command.product_id,
        key_suffix=command.key_suffix,
        secret_hash=command.secret_hash,
        created_at=command.context.now,
        revoked_at=None,
        expires_at=command.expires_at,
    )
    api_key = replace(api_key, id=save_new_api_key(work.tx, api_key, command.consumer_key_hash))
    details = {"api_key_id": api_key.id, "api_key": api_key.name, "permissions": api_key.permissions}
    if api_key.product_id is not None:
        details["product_id"] = api_key.product_id
    if api_key.expires_at is not None:
        details["expires_at"] = api_key.expires_at
    work.record_event("api_key.created", command, details)
    return api_key


def revoke(work: UnitOfWork, command: RevokeApiKey) -> None:
    """Revoke an API key. Raises ``UnknownApiKey``, also for a revoked one."""
    if not identity_store.revoke_api_key(work.tx, command.api_key_id, command.context.now):
        raise UnknownApiKey
    work.record_event("api_key.revoked", command, {"api_key_id": command.api_key_id})


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    IssueApiKey: issue,
    RevokeApiKey: revoke,
}


def find_api_key(read: Any, query: FindApiKey) -> ApiKey | None:
    """Return the API key with this hashed consumer key, unless it is revoked."""
    return identity_store.find_api_key(read.tx, query.consumer_key_hash)
