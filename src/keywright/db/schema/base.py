"""The metadata and types that all tables share."""

from typing import Any

from sqlalchemy import BigInteger, Connection, Index, Integer, MetaData, event, text

#: On SQLite, only a column declared as INTEGER is the rowid.
Id = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def partial_index(name: str, *columns: str, where: str, is_unique: bool = False) -> Index:
    """Return an index of the rows that satisfy ``where``."""
    return Index(name, *columns, unique=is_unique, sqlite_where=text(where))


@event.listens_for(metadata, "before_create")
def _share_conditions(_: MetaData, connection: Connection, **__: Any) -> None:
    """Copy the conditions of indexes on SQLite to PostgreSQL: an option for PostgreSQL would import its
    dialect, even if it is not used.
    """
    if connection.dialect.name == "postgresql":
        for index in (one for table in metadata.tables.values() for one in table.indexes):
            options = index.dialect_options
            options["postgresql"]["where"] = options["sqlite"]["where"]
