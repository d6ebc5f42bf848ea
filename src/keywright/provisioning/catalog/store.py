"""Statements about the names of products and customers."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Table, delete, insert, select, update

from keywright.db.bulk import Lookup
from keywright.db.rows import to_seconds
from keywright.db.schema import customers
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.catalog import terms_store
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.terms_store import TABLES

_NAMES_OF = {
    kind: Lookup(select(table.c.id, table.c.name).where(table.c.name.is_not(None)), table.c.id)
    for kind, table in TABLES.items()
}


def names_of(tx: ReadTransaction, kind: NameKind, numbers: Collection[int]) -> dict[int, str]:
    """The names of those of these numbers that have one."""
    return {row.id: row.name for row in _NAMES_OF[kind].find_rows(tx.connection, {*numbers})}


def list_names(tx: ReadTransaction, kind: NameKind, *, after: int, limit: int) -> dict[int, str]:
    """At most ``limit`` names of larger numbers than ``after`` (-1 for the first), in the numbers' order."""
    table = TABLES[kind]
    query = select(table.c.id, table.c.name).where(table.c.name.is_not(None), table.c.id > after)
    found = tx.connection.execute(query.order_by(table.c.id).limit(limit))
    return {row.id: row.name for row in found}


def has_more_names(tx: ReadTransaction, kind: NameKind, *, than: int) -> bool:
    """Whether more numbers than this have names."""
    table = TABLES[kind]
    query = select(table.c.id).where(table.c.name.is_not(None)).order_by(table.c.id).offset(than).limit(1)
    return tx.connection.execute(query).first() is not None


def find_numbers(tx: ReadTransaction, kind: NameKind, name: str) -> list[int]:
    """The smallest numbers that have exactly this name, at most two."""
    if not name.isprintable():
        return []
    table = TABLES[kind]
    query = select(table.c.id).where(table.c.name == name)
    return list(tx.connection.execute(query.order_by(table.c.id).limit(2)).scalars())


def save_name(tx: WriteTransaction, kind: NameKind, number: int, name: str | None, now: datetime) -> None:
    """Set the name of a product or a customer, which is made if need be. None deletes it; a customer who has
    an address stays.
    """
    table, moment = TABLES[kind], to_seconds(now)
    this, before = table.c.id == number, terms_store.lock_terms(tx, kind, number)
    if name is None:
        _delete_name(tx, table, number)
    elif not tx.connection.execute(update(table).where(this).values(name=name, updated_at=moment)).rowcount:
        new = insert(table).values(id=number, name=name, created_at=moment, updated_at=moment)
        tx.connection.execute(new)
    terms_store.save_terms(tx, kind, number, before)


def _delete_name(tx: WriteTransaction, table: Table, number: int) -> None:
    this = table.c.id == number
    if table is customers:
        tx.connection.execute(update(table).where(this).values(name=None))
        this &= table.c.email.is_(None)
    tx.connection.execute(delete(table).where(this))
