"""Statements about names of products and customers."""

from collections.abc import Collection

from sqlalchemy import delete, insert, select

from keywright.db.bulk import Lookup
from keywright.db.schema import catalog_names
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.catalog.model import NameKind

columns = catalog_names.c
_NAMES_OF = Lookup(select(columns.number, columns.name), columns.kind, columns.number)


def names_of(tx: ReadTransaction, kind: NameKind, numbers: Collection[int]) -> dict[int, str]:
    """The names of those of these numbers that have one."""
    found = _NAMES_OF.find_rows(tx.connection, [(kind.value, number) for number in {*numbers}])
    return {row.number: row.name for row in found}


def list_names(tx: ReadTransaction, kind: NameKind, *, after: int, limit: int) -> dict[int, str]:
    """At most ``limit`` names of larger numbers than ``after`` (-1 for the first), in the numbers' order."""
    query = select(columns.number, columns.name).where(columns.kind == kind.value, columns.number > after)
    found = tx.connection.execute(query.order_by(columns.number).limit(limit))
    return {row.number: row.name for row in found}


def find_numbers(tx: ReadTransaction, kind: NameKind, name: str) -> list[int]:
    """The smallest numbers that have exactly this name, at most two."""
    if not name.isprintable():
        return []
    query = select(columns.number).where(columns.kind == kind.value, columns.name == name)
    return list(tx.connection.execute(query.order_by(columns.number).limit(2)).scalars())


def page_of_names_before(tx: ReadTransaction, kind: NameKind, *, number: int, limit: int) -> int:
    """The number after which a page of ``limit`` names begins that ends with this number; -1 is the first."""
    query = select(columns.number).where(columns.kind == kind.value, columns.number <= number)
    query = query.order_by(columns.number.desc()).offset(limit).limit(1)
    after = tx.connection.execute(query).scalar_one_or_none()
    return -1 if after is None else int(after)


def save_name(tx: WriteTransaction, kind: NameKind, number: int, name: str | None) -> None:
    """Replace the name of the number; None deletes it."""
    tx.connection.execute(delete(catalog_names).where(columns.kind == kind.value, columns.number == number))
    if name is not None:
        tx.connection.execute(insert(catalog_names).values(kind=kind.value, number=number, name=name))
