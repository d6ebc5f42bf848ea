"""Types and options shared by the tables of the first schema."""

from typing import Any

import sqlalchemy as sa

#: An ID that the database assigns.
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def text_in_order(length: int) -> Any:
    """Return a text type that is compared byte by byte on both databases."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def where(condition: str) -> dict[str, Any]:
    """Return the options for a partial index with this condition."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
