"""What the tables of the first schema share."""

from typing import Any

import sqlalchemy as sa

#: A number that the database gives.
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def text_in_order(length: int) -> Any:
    """A text that is compared byte by byte on both databases."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def where(condition: str) -> dict[str, Any]:
    """The condition of a partial index."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
