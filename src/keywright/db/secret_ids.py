"""Which secrets a database needs, and whether they are the ones at hand.

The database says which secret it is written with, by an ID that does not give the secret away. While the
secret is rotated there are two: what is new is written with the one, and some rows still need the other.
"""

from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from keywright.core.crypto import KeyRing
from keywright.core.errors import SecretMissing
from keywright.db.schema import installation

#: For a driver's own connection.
QUERY = "SELECT secret_id, previous_secret_id FROM installation"
_LOCKED = select(installation.c.secret_id).with_for_update(read=True)
_SECRET_IDS = select(installation.c.secret_id, installation.c.previous_secret_id)


class SecretIds(NamedTuple):
    """The ID of the secret that a database is written with; and of the one that some rows still need."""

    current: str
    previous: str | None = None


def find_secret_ids(connection: Connection) -> SecretIds:
    """The secret IDs that the database names."""
    return SecretIds(*connection.execute(_SECRET_IDS).one())


def describe_missing_secrets(secret_ids: SecretIds, key_ring: KeyRing, name: str) -> str | None:
    """A sentence that says which secret the database needs that is not at hand; None when there is none."""
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
    """Whether a rotation was prepared or begun, and is not finished."""
    return secret_ids.previous is not None or secret_ids.current != key_ring.secret_id


def require_secrets(row: Any, key_ring: KeyRing, name: str) -> None:
    """Raise ``SecretMissing`` when the secret IDs of a connection that was just opened name a secret that is
    not at hand: since this process looked, the secret was rotated without it.
    """
    complaint = None if row is None else describe_missing_secrets(SecretIds(*row), key_ring, name)
    if complaint is not None:
        raise SecretMissing(complaint)


def lock_ring(connection: Connection, key_ring: KeyRing) -> KeyRing:
    """The secret that the database is written with, by itself; it stays so until the transaction ends."""
    secret_id = connection.execute(_LOCKED).scalar_one()
    ring = key_ring.find_ring(secret_id)
    if ring is None:
        raise SecretMissing("the database is written with a secret that is not at hand")
    return ring
