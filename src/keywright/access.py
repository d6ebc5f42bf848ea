"""API keys and users: issue, revoke, authenticate."""

import hmac
from datetime import datetime

import msgspec

from keywright import keys
from keywright.errors import CredentialsInvalid, UnknownApiKey, UserExists
from keywright.model import ApiKey, Caller, Permissions, Role, User
from keywright.storage import Storage, Writing, ask, change

_NO_SECRET = bytes(32)


class IssuedApiKey(msgspec.Struct, frozen=True):
    """A new API key with its secrets, which are known at this moment only."""

    api_key: ApiKey
    consumer_key: str
    consumer_secret: str


def issue_api_key(
    storage: Storage,
    name: str,
    permissions: Permissions,
    now: datetime,
    *,
    product_id: int | None = None,
) -> IssuedApiKey:
    """Make an API key; durable when this returns."""
    consumer_key, consumer_secret = keys.new_consumer_key(), keys.new_consumer_secret()
    api_key = ApiKey(
        id=0,
        name=name,
        permissions=permissions,
        product_id=product_id,
        hint=consumer_key[-7:],
        secret_hash=keys.hash_consumer_secret(consumer_secret),
        created_at=now,
        revoked_at=None,
    )
    key_hash = keys.hash_consumer_key(consumer_key)
    number = change(storage, lambda tx: tx.save_new_api_key(api_key, key_hash))
    return IssuedApiKey(msgspec.structs.replace(api_key, id=number), consumer_key, consumer_secret)


def list_api_keys(storage: Storage) -> list[ApiKey]:
    """Every API key, revoked ones included, oldest first."""
    return ask(storage, lambda tx: tx.list_api_keys())


def revoke_api_key(storage: Storage, api_key_id: int, now: datetime) -> None:
    """End an API key at once. Raises ``UnknownApiKey`` when none in force has this number."""
    if not change(storage, lambda tx: tx.revoke_api_key(api_key_id, now)):
        raise UnknownApiKey


def caller_of(api_key: ApiKey | None, consumer_secret: str) -> Caller:
    """Who calls with this API key and secret. Raises ``CredentialsInvalid``.

    Takes as long for an unknown key as for a wrong secret.
    """
    expected = _NO_SECRET if api_key is None else api_key.secret_hash
    is_right = hmac.compare_digest(keys.hash_consumer_secret(consumer_secret), expected)
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


def create_user(storage: Storage, name: str, role: Role, password: str, now: datetime) -> User:
    """Make a user who signs in with this password. Raises ``UserExists``."""
    # Imported here: only signing in and making users need it.
    from argon2 import PasswordHasher

    user = User(0, name, role, PasswordHasher().hash(password), now)

    def save(tx: Writing) -> int:
        if tx.find_user(name) is not None:
            raise UserExists(name)
        return tx.save_new_user(user)

    return msgspec.structs.replace(user, id=change(storage, save))
