"""SQL of api_keys."""

from datetime import datetime

from sqlalchemy import select, update

from keywright.model import (
    ApiKey,
)
from keywright.storage import queries, rows
from keywright.storage.schema import api_keys
from keywright.storage.transactions import Reading, Writing


def find_api_key(tx: Reading, consumer_key_hash: str) -> ApiKey | None:
    """The API key in force with this hashed consumer key."""
    values = {"key_hash": consumer_key_hash}
    row = tx.connection.execute(queries.API_KEY_IN_FORCE, values).first()
    return None if row is None else rows.api_key_of(row)


def list_api_keys(tx: Reading) -> list[ApiKey]:
    """Every API key, revoked ones included, oldest first."""
    query = select(*rows.API_KEY).order_by(api_keys.c.id)
    return [rows.api_key_of(row) for row in tx.connection.execute(query)]


def save_new_api_key(tx: Writing, api_key: ApiKey, consumer_key_hash: str) -> int:
    """Insert, and return the number that the API key has from now on."""
    return tx.insert(api_keys, rows.values_of(api_key) | {"key_hash": consumer_key_hash})


def revoke_api_key(tx: Writing, api_key_id: int, now: datetime) -> bool:
    """Revoke; False when there is no such key in force."""
    query = update(api_keys).where(api_keys.c.id == api_key_id, api_keys.c.revoked_at.is_(None))
    return tx.connection.execute(query.values(revoked_at=rows.seconds(now))).rowcount == 1
