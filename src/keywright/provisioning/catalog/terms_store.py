"""The search terms of products and customers, which change with their rows, in the same transaction."""

from collections.abc import Collection

from sqlalchemy import Table, select

from keywright.core.words import terms_of
from keywright.db.bulk import bulk_delete, bulk_upsert
from keywright.db.records import Model, Records
from keywright.db.schema import customers, name_terms, products
from keywright.db.transaction import WriteTransaction
from keywright.provisioning.catalog.model import NameKind

TABLES: dict[NameKind, Table] = {NameKind.PRODUCT: products, NameKind.CUSTOMER: customers}
#: The first character of the terms of a kind.
PREFIXES = {NameKind.PRODUCT: "p", NameKind.CUSTOMER: "c"}

_INSERT = bulk_upsert(name_terms, ["term", "number"])
_DELETE = bulk_delete(name_terms, "term", "number")
_TEXTS = {
    NameKind.PRODUCT: select(products.c.name, products.c.code),
    NameKind.CUSTOMER: select(customers.c.name, customers.c.email),
}


def terms_of_row(kind: NameKind, name: str | None, other: str | None) -> set[str]:
    """The terms of a customer with this name and e-mail address, or of a product with this name and code."""
    found = terms_of(name, other) if kind is NameKind.CUSTOMER else terms_of(f"{name or ''} {other or ''}")
    return {PREFIXES[kind] + one for one in found}


def lock_terms(tx: WriteTransaction, kind: NameKind, number: int) -> set[str]:
    """The terms of a row as it is now, locked until the end of the transaction; none without a row."""
    query = _TEXTS[kind].where(TABLES[kind].c.id == number).with_for_update()
    row = tx.connection.execute(query).first()
    return set() if row is None else terms_of_row(kind, *row)


def save_new_terms(tx: WriteTransaction, kind: NameKind, number: int, *texts: str | None) -> None:
    """Store the terms of a new row, which has these texts."""
    _INSERT.execute(
        tx.connection, [{"term": one, "number": number} for one in sorted(terms_of_row(kind, *texts))]
    )


def save_terms(tx: WriteTransaction, kind: NameKind, number: int, before: Collection[str]) -> None:
    """Store the terms of a row after it changed; ``before`` are those that it had."""
    row = tx.connection.execute(_TEXTS[kind].where(TABLES[kind].c.id == number)).first()
    after = set() if row is None else terms_of_row(kind, *row)
    gone, new = sorted({*before} - after), sorted(after - {*before})
    _DELETE.execute(tx.connection, [{"where_term": one, "where_number": number} for one in gone])
    _INSERT.execute(tx.connection, [{"term": one, "number": number} for one in new])


class NamedRecords(Records[Model]):
    """The rows of products or customers, which are found by their terms."""

    def __init__(self, table: Table, model: type[Model], kind: NameKind) -> None:
        super().__init__(table, model)
        self._kind = kind

    def insert(self, tx: WriteTransaction, one: Model) -> None:
        """Insert a row, and its terms."""
        super().insert(tx, one)
        texts = [getattr(one, column.name) for column in _TEXTS[self._kind].selected_columns]
        save_new_terms(tx, self._kind, one.id, *texts)  # type: ignore[attr-defined]

    def update(self, tx: WriteTransaction, one: Model) -> None:
        """Update every column, and the terms."""
        id: int = one.id  # type: ignore[attr-defined]
        before = lock_terms(tx, self._kind, id)
        super().update(tx, one)
        save_terms(tx, self._kind, id, before)

    def delete(self, tx: WriteTransaction, id: int) -> None:
        """Delete the row with this ID, and its terms."""
        before = lock_terms(tx, self._kind, id)
        super().delete(tx, id)
        save_terms(tx, self._kind, id, before)
