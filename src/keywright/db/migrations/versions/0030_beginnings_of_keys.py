"""Licenses are found by the beginning of their keys, and "Łukasz" is found as "lukasz"."""

import sqlalchemy as sa
from alembic import op

from keywright.core.words import LETTERS

revision = "0030"
down_revision = "0029"

_TERMS = sa.table("name_terms", sa.column("term", sa.String), sa.column("number", sa.BigInteger))
_MAX_LENGTH = 25


def upgrade() -> None:
    has_one = sa.text("key_start IS NOT NULL")
    op.add_column("licenses", sa.Column("key_start", sa.BigInteger))
    op.create_index(
        "ix_licenses_key_start", "licenses", ["key_start"], sqlite_where=has_one, postgresql_where=has_one
    )
    _fold_terms()


def _fold_terms() -> None:
    """Fold each stored term that contains such a letter."""
    connection, column = op.get_bind(), _TERMS.c
    is_old = sa.or_(*(column.term.contains(chr(letter)) for letter in LETTERS))
    old = connection.execute(sa.select(column.term, column.number).where(is_old)).all()
    for term, number in old:
        connection.execute(sa.delete(_TERMS).where(column.term == term, column.number == number))
        new, is_it = term.translate(LETTERS)[:_MAX_LENGTH], column.number == number
        if connection.execute(sa.select(column.term).where(column.term == new, is_it)).first() is None:
            connection.execute(sa.insert(_TERMS).values(term=new, number=number))
