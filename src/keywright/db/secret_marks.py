"""Which secrets a database needs, and whether they are the ones at hand.

The database says which secret it is written with, by a mark that does not give the secret away. While the
secret is rotated there are two: what is new is written with the one, and some rows still need the other.
"""

from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from keywright.core.crypto import KeyRing
from keywright.core.errors import SecretMissing
from keywright.db.schema import installation

#: For a driver's own connection.
QUERY = "SELECT secret_mark, previous_secret_mark FROM installation"
_LOCKED = select(installation.c.secret_mark).with_for_update(read=True)
_MARKS = select(installation.c.secret_mark, installation.c.previous_secret_mark)


class Marks(NamedTuple):
    """The mark of the secret that a database is written with; and of the one that some rows still need."""

    current: str
    previous: str | None = None


def find_marks(connection: Connection) -> Marks:
    """The secret IDs that the database names."""
    return Marks(*connection.execute(_MARKS).one())


def what_is_missing(secret_ids: Marks, key_ring: KeyRing, name: str) -> str | None:
    """A sentence that says which secret the database needs that is not at hand; None when there is none."""
    missing = [mark for mark in secret_ids if mark is not None and key_ring.find_ring(mark) is None]
    if not missing:
        return None
    if secret_ids.previous is None:
        return (
            f"{name} was written with another secret, and its license keys cannot be read with this one. Use "
            f"the secret that belongs to this database (its mark is {secret_ids.current}): after a rotation, "
            "the new one; before it, the old one, as previous_secret beside the new one."
        )
    which = "the new secret" if missing == [secret_ids.current] else "the previous secret"
    return (
        f"the secret of {name} is being rotated, and {which if len(missing) == 1 else 'neither secret'} is "
        f"at hand (missing: {' and '.join(missing)}). Give the new one as secret and the old one as "
        "previous_secret, or put them into the files secret and secret.previous in the data directory."
    )


def is_rotation_due(secret_ids: Marks, key_ring: KeyRing) -> bool:
    """Whether a rotation was prepared or begun, and is not finished."""
    return secret_ids.previous is not None or secret_ids.current != key_ring.secret_mark


def require_secrets(row: Any, key_ring: KeyRing, name: str) -> None:
    """Raise ``SecretMissing`` when the secret IDs of a connection that was just opened name a secret that is
    not at hand: since this process looked, the secret was rotated without it.
    """
    complaint = None if row is None else what_is_missing(Marks(*row), key_ring, name)
    if complaint is not None:
        raise SecretMissing(complaint)


def lock_ring(connection: Connection, key_ring: KeyRing) -> KeyRing:
    """The secret that the database is written with, by itself; it stays so until the transaction ends."""
    mark = connection.execute(_LOCKED).scalar_one()
    ring = key_ring.find_ring(mark)
    if ring is None:
        raise SecretMissing("the database is written with a secret that is not at hand")
    return ring
