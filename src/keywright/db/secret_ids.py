"""The secrets that a database needs, each named by an ID that does not reveal it.

While the secret is rotated there are two: new rows are sealed with the current one, and some rows still need
the previous one.
"""

from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from keywright.core.crypto import KeyRing
from keywright.core.errors import SecretMissing
from keywright.db.schema import installation

#: The same query for a connection of the driver's.
QUERY = "SELECT secret_id, previous_secret_id FROM installation"
_LOCKED = select(installation.c.secret_id).with_for_update(read=True)
_SECRET_IDS = select(installation.c.secret_id, installation.c.previous_secret_id)


class SecretIds(NamedTuple):
    """The ID of the secret that seals new rows, and of the previous one, which some rows still need."""

    current: str
    previous: str | None = None


def find_secret_ids(connection: Connection) -> SecretIds:
    """Read the IDs from the database."""
    return SecretIds(*connection.execute(_SECRET_IDS).one())


def describe_missing_secrets(secret_ids: SecretIds, key_ring: KeyRing, name: str) -> str | None:
    """Return a sentence that says which secret is needed and missing; None when none is."""
    missing = [one for one in secret_ids if one is not None and key_ring.find_ring(one) is None]
    if not missing:
        return None
    if secret_ids.previous is None:
        return (
            f"{name} was written with another secret, and its license keys cannot be read with this one. Use "
            f"the secret that belongs to this database (its ID is {secret_ids.current}): after a rotation, "
            "the new one; before it, the old one, as previous_secret beside the new one."
        )
    which = "the new secret" if missing == [secret_ids.current] else "the previous secret"
    return (
        f"the secret of {name} is being rotated, and {which if len(missing) == 1 else 'neither secret'} is "
        f"at hand (missing: {' and '.join(missing)}). Give the new one as secret and the old one as "
        "previous_secret, or put them into the files secret and secret.previous in the data directory."
    )


def is_rotation_due(secret_ids: SecretIds, key_ring: KeyRing) -> bool:
    """Whether a rotation was prepared or started, and is not finished."""
    return secret_ids.previous is not None or secret_ids.current != key_ring.secret_id


def require_secrets(row: Any, key_ring: KeyRing, name: str) -> None:
    """Raise ``SecretMissing`` for a row of IDs with a secret that this process does not have."""
    message = None if row is None else describe_missing_secrets(SecretIds(*row), key_ring, name)
    if message is not None:
        raise SecretMissing(message)


def lock_ring(connection: Connection, key_ring: KeyRing) -> KeyRing:
    """Return the key ring of the secret that seals new rows, and lock it until the transaction ends."""
    secret_id = connection.execute(_LOCKED).scalar_one()
    ring = key_ring.find_ring(secret_id)
    if ring is None:
        raise SecretMissing("the database is written with a secret that is not at hand")
    return ring
