"""Facts about the database: its kind, version and size, and the sessions."""

from datetime import datetime

import msgspec
from sqlalchemy import func, select, text

from keywright.db import rows
from keywright.db.migrate import read_size
from keywright.db.schema import sessions
from keywright.db.transaction import ReadTransaction

_VERSION = {
    "sqlite": text("SELECT sqlite_version()"),
    "postgresql": text("SELECT split_part(current_setting('server_version'), ' ', 1)"),
}
_REVISION = text("SELECT version_num FROM alembic_version")


class Measured(msgspec.Struct, frozen=True):
    """``kind`` is ``sqlite`` or ``postgresql``; the size is in bytes, and all that is in the database."""

    kind: str
    version: str
    revision: str
    size: int


def measure(tx: ReadTransaction) -> Measured:
    """Read the kind, version, revision and size of the database."""
    kind = tx.connection.dialect.name
    version, revision = (tx.connection.execute(query).scalar_one() for query in (_VERSION[kind], _REVISION))
    return Measured(kind, str(version), str(revision), read_size(tx.connection))


def count_sessions(tx: ReadTransaction, now: datetime) -> int:
    """The number of sessions that have not ended."""
    query = select(func.count()).where(sessions.c.ends_at > rows.to_seconds(now))
    return int(tx.connection.execute(query).scalar_one())
