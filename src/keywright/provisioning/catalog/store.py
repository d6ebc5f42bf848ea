"""Names of products and customers, within one transaction."""

from collections.abc import Collection

from sqlalchemy import delete, insert, select

from keywright.db.bulk import Lookup
from keywright.db.schema import names
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.catalog.model import NameKind

_NAMES_OF = Lookup(select(names.c.number, names.c.name), names.c.kind, names.c.number)


# --- names ----------------------------------------------------------------------------------------


def names_of(tx: ReadTransaction, kind: NameKind, numbers: Collection[int]) -> dict[int, str]:
    """The names of those of these numbers that have one."""
    found = _NAMES_OF.rows(tx.connection, [(kind.value, number) for number in {*numbers}])
    return {row.number: row.name for row in found}


def list_names(tx: ReadTransaction, kind: NameKind, *, after: int, limit: int) -> dict[int, str]:
    """At most ``limit`` names of larger numbers than ``after`` (-1 for the first), in the numbers' order."""
    query = select(names.c.number, names.c.name).where(names.c.kind == kind.value, names.c.number > after)
    found = tx.connection.execute(query.order_by(names.c.number).limit(limit))
    return {row.number: row.name for row in found}


def find_numbers(tx: ReadTransaction, kind: NameKind, name: str) -> list[int]:
    """Two of the numbers that have exactly this name, or the one, or none: the smallest."""
    if not name.isprintable():
        return []
    query = select(names.c.number).where(names.c.kind == kind.value, names.c.name == name)
    return list(tx.connection.execute(query.order_by(names.c.number).limit(2)).scalars())


def page_of_names_before(tx: ReadTransaction, kind: NameKind, *, number: int, limit: int) -> int:
    """After which number a page of ``limit`` names begins that ends with this number; -1 is the first."""
    query = select(names.c.number).where(names.c.kind == kind.value, names.c.number <= number)
    query = query.order_by(names.c.number.desc()).offset(limit).limit(1)
    after = tx.connection.execute(query).scalar_one_or_none()
    return -1 if after is None else int(after)


def save_name(tx: WriteTransaction, kind: NameKind, number: int, name: str | None) -> None:
    """Give the number this name instead of the one it had; None for no name at all."""
    tx.connection.execute(delete(names).where(names.c.kind == kind.value, names.c.number == number))
    if name is not None:
        tx.connection.execute(insert(names).values(kind=kind.value, number=number, name=name))
