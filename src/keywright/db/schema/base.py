"""The metadata and types that all tables share."""

from sqlalchemy import BigInteger, Index, Integer, MetaData, text

#: On SQLite, only a column declared INTEGER is the rowid.
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
    """An index of the rows that fulfil ``where``."""
    return Index(name, *columns, unique=is_unique, sqlite_where=text(where), postgresql_where=text(where))
