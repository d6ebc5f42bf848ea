"""Database access for signing keys."""

from datetime import datetime

from sqlalchemy import insert, select, update

from keywright.db.rows import to_seconds, with_datetimes
from keywright.db.schema import signing_keys
from keywright.db.sealed_columns import signing_key_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.signing.model import SigningKey

_KEYS = select(*(signing_keys.c[name] for name in SigningKey.__struct_fields__)).order_by(
    signing_keys.c.id.desc()
)
_SEALED = select(signing_keys.c.sealed_private_key)


def list_keys(tx: ReadTransaction) -> list[SigningKey]:
    """List all keys, newest first."""
    return [SigningKey(**with_datetimes(row)) for row in tx.connection.execute(_KEYS)]


def get_private_key(tx: ReadTransaction, key: SigningKey) -> bytes:
    """Return the private half of a key, empty if it was withdrawn. Raises ``ValueError`` for a key that was
    sealed with another secret.
    """
    sealed = tx.connection.execute(_SEALED.where(signing_keys.c.id == key.id)).scalar_one()
    return tx.key_ring.unseal(sealed, signing_key_associated_data(key.id))


def save_new_key(tx: WriteTransaction, key: SigningKey, private_key: bytes) -> None:
    """Insert a key; the database rejects a second one with the same ID."""
    values = {
        "id": key.id,
        "kid": key.kid,
        "public_key": key.public_key,
        "sealed_private_key": tx.sealing.seal(private_key, signing_key_associated_data(key.id)),
        "created_at": to_seconds(key.created_at),
        "signed_until": to_seconds(key.signed_until),
    }
    tx.connection.execute(insert(signing_keys).values(values))


def extend_key(tx: WriteTransaction, key_id: int, until: datetime) -> None:
    """Set the moment until which the key's signatures are valid, unless a later one is stored."""
    moment = to_seconds(until)
    query = update(signing_keys).where(signing_keys.c.id == key_id, signing_keys.c.signed_until < moment)
    tx.connection.execute(query.values(signed_until=moment))


def withdraw_key(tx: WriteTransaction, key: SigningKey, now: datetime) -> None:
    """Delete the private half of a key."""
    empty = tx.sealing.seal(b"", signing_key_associated_data(key.id))
    query = update(signing_keys).where(signing_keys.c.id == key.id)
    tx.connection.execute(query.values(sealed_private_key=empty, withdrawn_at=to_seconds(now)))
