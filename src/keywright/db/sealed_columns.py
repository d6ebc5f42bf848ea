"""The registry of binary columns, and the secrets that a database needs.

A rotation of the secret reseals the sealed columns and their blind indexes, and nothing else. A test fails
for a binary column that is not listed here.

During a rotation there are two secrets: new rows are sealed with the current one, and some rows still need
the previous one.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, Connection, Table, select

from keywright.core.crypto import KeyRing, license_associated_data
from keywright.core.errors import SecretMissing
from keywright.db import schema


def trial_associated_data(product_id: int) -> bytes:
    """Return the associated data of the sealed fingerprint of a trial."""
    return b"trial:%d" % product_id


class SealedColumn(NamedTuple):
    """A column of sealed values."""

    column: Column[Any]
    #: Returns the associated data of a row: its value can be unsealed only in this row, see ``KeyRing.seal``.
    associated_data: Callable[[Any], bytes]
    #: The column by which the plain value is looked up: its ``KeyRing.blind_index``.
    blind_index: Column[Any] | None = None
    #: Other columns by which it is looked up, each with the function of its blind index.
    other_indexes: Mapping[str, Callable[[KeyRing, str], int | None]] = MappingProxyType({})
    #: The number of rows resealed in one transaction.
    batch_size: int = 200

    @property
    def table(self) -> Table:
        """The table of the column."""
        table: Table = self.column.table
        return table


def chunk_associated_data(job_id: int, number: int) -> bytes:
    """Return the associated data of a sealed chunk of a job's file."""
    return b"job:%d:%d" % (job_id, number)


def snapshot_associated_data(license_id: int) -> bytes:
    """Return the associated data of the sealed snapshot of a deleted license."""
    return b"deleted:%d" % license_id


def factor_associated_data(user_id: int) -> bytes:
    """Return the associated data of the sealed secret of a user's second factor."""
    return b"user:%d" % user_id


def signing_key_associated_data(key_id: int) -> bytes:
    """Return the associated data of the sealed private half of a signing key."""
    return b"signing key:%d" % key_id


def webhook_associated_data(endpoint_id: int) -> bytes:
    """Return the associated data of a sealed secret of a webhook endpoint."""
    return b"webhook:%d" % endpoint_id


def connection_associated_data(connection_id: int, name: str) -> bytes:
    """Return the associated data of a sealed secret of a connection, ``secret`` or ``api_key``."""
    return f"connection:{connection_id}:{name}".encode()


def setting_associated_data(name: str) -> bytes:
    """Return the associated data of a sealed setting."""
    return f"setting:{name}".encode()


def shop_event_associated_data(row_id: int) -> bytes:
    """Return the associated data of the sealed payload of a shop's event."""
    return b"shop event:%d" % row_id


def sign_in_associated_data(sign_in_id: int) -> bytes:
    """Return the associated data of a sealed address of a sign-in to the portal."""
    return b"portal sign-in:%d" % sign_in_id


SEALED_COLUMNS: Final = (
    SealedColumn(
        schema.licenses.c.sealed_key,
        lambda row: license_associated_data(row.id),
        schema.licenses.c.key_hmac,
        {"key_start": KeyRing.key_start, "key_end": KeyRing.key_end, "key_folded": KeyRing.key_folded},
    ),
    SealedColumn(
        schema.rotated_keys.c.sealed_key,
        lambda row: license_associated_data(row.license_id),
        schema.rotated_keys.c.key_hmac,
    ),
    SealedColumn(
        schema.trials.c.sealed_fingerprint,
        lambda row: trial_associated_data(row.product_id),
        schema.trials.c.fingerprint_hmac,
    ),
    SealedColumn(schema.idempotency_records.c.sealed_body, lambda row: bytes(row.scope)),
    SealedColumn(schema.second_factors.c.sealed_secret, lambda row: factor_associated_data(row.user_id)),
    SealedColumn(schema.signing_keys.c.sealed_private_key, lambda row: signing_key_associated_data(row.id)),
    SealedColumn(
        schema.webhook_secrets.c.sealed_secret, lambda row: webhook_associated_data(row.endpoint_id)
    ),
    SealedColumn(
        schema.connections.c.sealed_secret, lambda row: connection_associated_data(row.id, "secret")
    ),
    SealedColumn(
        schema.connections.c.sealed_api_key, lambda row: connection_associated_data(row.id, "api_key")
    ),
    SealedColumn(schema.stored_settings.c.sealed_value, lambda row: setting_associated_data(row.name)),
    SealedColumn(schema.portal_sign_ins.c.sealed_email, lambda row: sign_in_associated_data(row.id)),
    # A payload, a snapshot or a chunk may be a megabyte.
    SealedColumn(
        schema.shop_events.c.sealed_payload,
        lambda row: shop_event_associated_data(row.id),
        batch_size=4,
    ),
    SealedColumn(
        schema.deleted_licenses.c.sealed_snapshot,
        lambda row: snapshot_associated_data(row.license_id),
        batch_size=4,
    ),
    SealedColumn(
        schema.job_file_chunks.c.sealed_content,
        lambda row: chunk_associated_data(row.job_id, row.number),
        batch_size=4,
    ),
)
#: Hashes that need no secret: anyone can compute them from the same value.
PLAIN_HASHES: Final = (
    schema.licenses.c.order_line_hash,
    schema.idempotency_records.c.scope,
    schema.idempotency_records.c.request_digest,
    schema.api_keys.c.secret_hash,
    schema.sessions.c.token_hash,
    schema.invitations.c.token_hash,
    schema.portal_links.c.token_hash,
    schema.portal_sessions.c.token_hash,
    schema.recovery_codes.c.code_hash,
    schema.update_tokens.c.token_hash,
)


#: The query of ``find_secret_ids``, for a connection of the driver.
QUERY = "SELECT secret_id, previous_secret_id FROM installation"
_LOCKED = select(schema.installation.c.secret_id).with_for_update(read=True)
_SECRET_IDS = select(schema.installation.c.secret_id, schema.installation.c.previous_secret_id)


class SecretIds(NamedTuple):
    """The ID of the secret that seals new rows, and that of the previous one, which some rows still need."""

    current: str
    previous: str | None = None


def find_secret_ids(connection: Connection) -> SecretIds:
    """Read the IDs from the database."""
    return SecretIds(*connection.execute(_SECRET_IDS).one())


def describe_missing_secrets(secret_ids: SecretIds, key_ring: KeyRing, name: str) -> str | None:
    """Return a sentence about the secret that is needed and missing; None if none is missing."""
    missing = [one for one in secret_ids if one is not None and key_ring.find_ring(one) is None]
    if not missing:
        return None
    if secret_ids.previous is None:
        return (
            f"{name} was written with another secret, and its license keys cannot be read with this one. "
            f"Use the secret of this database (its ID is {secret_ids.current}): after a rotation, the new "
            "one; before it, the old one, as previous_secret next to the new one."
        )
    which = "the new secret" if missing == [secret_ids.current] else "the previous secret"
    return (
        f"the secret of {name} is being rotated, and {which if len(missing) == 1 else 'neither secret'} is "
        f"available (missing: {' and '.join(missing)}). Set secret to the new one and previous_secret to "
        "the old one, or put them into the files secret and secret.previous in the data directory."
    )


def is_rotation_due(secret_ids: SecretIds, key_ring: KeyRing) -> bool:
    """Whether a rotation was prepared or started, and is not finished."""
    return secret_ids.previous is not None or secret_ids.current != key_ring.secret_id


def require_secrets(row: Any, key_ring: KeyRing, name: str) -> None:
    """Raise ``SecretMissing`` if a row of IDs names a secret that this process does not have."""
    message = None if row is None else describe_missing_secrets(SecretIds(*row), key_ring, name)
    if message is not None:
        raise SecretMissing(message)


def lock_ring(connection: Connection, key_ring: KeyRing) -> KeyRing:
    """Return the key ring of the secret that seals new rows, and lock it until the transaction ends."""
    secret_id = connection.execute(_LOCKED).scalar_one()
    ring = key_ring.find_ring(secret_id)
    if ring is None:
        raise SecretMissing("the database is written with a secret that is not available")
    return ring
