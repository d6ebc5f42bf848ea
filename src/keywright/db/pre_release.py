"""Convert a database of the last version before the first release: the same rows under other names.

Delete this module, and schema-0007.sql of its test, when no such database is left.
"""

from sqlalchemy import Connection

from keywright.core.errors import StoreError
from keywright.db.bulk import is_postgres

#: The revision that can be converted, and the one that it becomes.
REVISION = "0007"
_BECOMES = "0008"

_POSTGRES = (
    "DROP SEQUENCE second_factors_user_id_seq CASCADE",
    "DROP SEQUENCE limit_refusals_license_id_seq CASCADE",
)
_STATEMENTS = (f"UPDATE alembic_version SET version_num = '{_BECOMES}'",)  # noqa: S608


def convert(connection: Connection, revision: str, name: str) -> None:
    """Convert the database, in the connection's transaction. Raises ``StoreError`` for an older revision."""
    if revision != REVISION:
        raise StoreError(
            f"{name} was made by a version before the first release (its schema is {revision!r}). This "
            f"version can convert schema {REVISION!r} only: start the last version before the first release "
            "with this database once, then this one."
        )
    for statement in (*_STATEMENTS, *_POSTGRES) if is_postgres(connection) else _STATEMENTS:
        connection.exec_driver_sql(statement)
