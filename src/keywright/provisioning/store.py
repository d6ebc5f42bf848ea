"""Database access for products, customers and the brand, and the pages of rows that exports read."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import func, literal, select, tuple_, union

from keywright.core.errors import UnknownReference
from keywright.core.words import terms_of
from keywright.db.bulk import Lookup, Values, bulk_delete, bulk_upsert
from keywright.db.rows import Model, Records, to_seconds
from keywright.db.schema import (
    activations,
    customers,
    events,
    licenses,
    name_terms,
    policies,
    products,
)
from keywright.db.schema import brand as brand_table
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.model import Event
from keywright.events.store import EVENT, event_of
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import ACTIVATION, activation_of
from keywright.provisioning.brand import Brand, FooterLink
from keywright.provisioning.customers import Customer, fold_email
from keywright.provisioning.products import NameKind, Product

TABLES: dict[NameKind, sa.Table] = {NameKind.PRODUCT: products, NameKind.CUSTOMER: customers}
#: The first character of a kind's search terms.
PREFIXES = {NameKind.PRODUCT: "p", NameKind.CUSTOMER: "c"}

_INSERT = bulk_upsert(name_terms, ["term", "number"])
_DELETE = bulk_delete(name_terms, "term", "number")
_TEXTS = {
    NameKind.PRODUCT: sa.select(products.c.name, products.c.code),
    NameKind.CUSTOMER: sa.select(customers.c.name, customers.c.email),
}


def terms_of_row(kind: NameKind, name: str | None, other: str | None) -> set[str]:
    """Return the search terms of a customer (name, e-mail address) or a product (name, code)."""
    found = terms_of(name, other) if kind is NameKind.CUSTOMER else terms_of(f"{name or ''} {other or ''}")
    return {PREFIXES[kind] + one for one in found}


def lock_terms(tx: WriteTransaction, kind: NameKind, number: int) -> set[str]:
    """Return the terms of a row as it is now, locked until the end of the transaction; none without a row."""
    query = _TEXTS[kind].where(TABLES[kind].c.id == number).with_for_update()
    row = tx.connection.execute(query).first()
    return set() if row is None else terms_of_row(kind, *row)


def save_new_terms(tx: WriteTransaction, kind: NameKind, number: int, *texts: str | None) -> None:
    """Store the search terms of a new row with these texts."""
    _INSERT.execute(
        tx.connection, [{"term": one, "number": number} for one in sorted(terms_of_row(kind, *texts))]
    )


def save_terms(tx: WriteTransaction, kind: NameKind, number: int, before: Collection[str]) -> None:
    """Update the search terms of a row that has changed; ``before`` are its former terms."""
    row = tx.connection.execute(_TEXTS[kind].where(TABLES[kind].c.id == number)).first()
    after = set() if row is None else terms_of_row(kind, *row)
    gone, new = sorted({*before} - after), sorted(after - {*before})
    _DELETE.execute(tx.connection, [{"where_term": one, "where_number": number} for one in gone])
    _INSERT.execute(tx.connection, [{"term": one, "number": number} for one in new])


class NamedRecords(Records[Model]):
    """The rows of products or customers, with the terms by which a search finds them."""

    def __init__(self, table: sa.Table, model: type[Model], kind: NameKind) -> None:
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


_NAMES_OF = {
    kind: Lookup(sa.select(table.c.id, table.c.name).where(table.c.name.is_not(None)), table.c.id)
    for kind, table in TABLES.items()
}


def names_of(tx: ReadTransaction, kind: NameKind, numbers: Collection[int]) -> dict[int, str]:
    """Return the names of those IDs that have one."""
    return {row.id: row.name for row in _NAMES_OF[kind].find_rows(tx.connection, {*numbers})}


def list_names(tx: ReadTransaction, kind: NameKind, *, after: int, limit: int) -> dict[int, str]:
    """Return at most ``limit`` names for the IDs above ``after`` (-1 for the first page), in ID order."""
    table = TABLES[kind]
    query = sa.select(table.c.id, table.c.name).where(table.c.name.is_not(None), table.c.id > after)
    found = tx.connection.execute(query.order_by(table.c.id).limit(limit))
    return {row.id: row.name for row in found}


def has_more_names(tx: ReadTransaction, kind: NameKind, *, than: int) -> bool:
    """Whether more than this many IDs have names."""
    table = TABLES[kind]
    query = sa.select(table.c.id).where(table.c.name.is_not(None)).order_by(table.c.id).offset(than).limit(1)
    return tx.connection.execute(query).first() is not None


def find_numbers(tx: ReadTransaction, kind: NameKind, name: str) -> list[int]:
    """Return the smallest IDs that have exactly this name, at most two."""
    if not name.isprintable():
        return []
    table = TABLES[kind]
    query = sa.select(table.c.id).where(table.c.name == name)
    return list(tx.connection.execute(query.order_by(table.c.id).limit(2)).scalars())


def find_similar(tx: ReadTransaction, kind: NameKind, text: str) -> list[int]:
    """Return the smallest IDs, at most two, of products with this code, or with this name in any case."""
    if kind is not NameKind.PRODUCT or not text.isprintable():
        return []
    is_named = sa.func.lower(products.c.name) == sa.func.lower(text)
    query = sa.select(products.c.id).where(sa.or_(products.c.code == text.lower(), is_named))
    return list(tx.connection.execute(query.order_by(products.c.id).limit(2)).scalars())


def find_words_for_products(tx: ReadTransaction) -> dict[str, str]:
    """Return the IDs of products, as texts, by their codes, and by names that only one product has; in lower
    case, for the first 10,000 products.
    """
    rows = tx.connection.execute(
        sa.select(products.c.id, products.c.code, products.c.name).order_by(products.c.id).limit(10_000)
    ).all()
    names = Counter(row.name.strip().lower() for row in rows if row.name)
    named = {row.name.strip().lower(): str(row.id) for row in rows if row.name}
    clear = {name: id for name, id in named.items() if names[name] == 1 and not name.isdigit()}
    return clear | {row.code.lower(): str(row.id) for row in rows if row.code and not row.code.isdigit()}


def save_name(tx: WriteTransaction, kind: NameKind, number: int, name: str | None, now: datetime) -> None:
    """Set the name of a product or a customer, who is inserted if need be. None deletes the row; a customer
    with an e-mail address loses only the name.
    """
    table, moment = TABLES[kind], to_seconds(now)
    this, before = table.c.id == number, lock_terms(tx, kind, number)
    if name is None:
        _delete_name(tx, table, number)
    elif not tx.connection.execute(
        sa.update(table).where(this).values(name=name, updated_at=moment)
    ).rowcount:
        new = sa.insert(table).values(id=number, name=name, created_at=moment, updated_at=moment)
        tx.connection.execute(new)
    save_terms(tx, kind, number, before)


def _delete_name(tx: WriteTransaction, table: sa.Table, number: int) -> None:
    this = table.c.id == number
    if table is customers:
        tx.connection.execute(sa.update(table).where(this).values(name=None))
        this &= table.c.email.is_(None)
    tx.connection.execute(sa.delete(table).where(this))


PRODUCTS = NamedRecords(products, Product, NameKind.PRODUCT)


def product_has_licenses(tx: ReadTransaction, product_id: int) -> bool:
    """Whether a license is for this product."""
    return _exists(tx, licenses.c.product_id == product_id)


def product_has_policies(tx: ReadTransaction, product_id: int) -> bool:
    """Whether a policy is for this product."""
    return _exists(tx, policies.c.product_id == product_id)


def is_product_taken(tx: ReadTransaction, number: int) -> bool:
    """Whether there is a product with this ID, or a license or a policy for one."""
    return (
        _exists(tx, products.c.id == number)
        or product_has_licenses(tx, number)
        or product_has_policies(tx, number)
    )


def _exists(tx: ReadTransaction, condition: Any) -> bool:
    return bool(tx.connection.execute(sa.select(sa.exists().where(condition))).scalar_one())


_TITLES = Lookup(
    sa.select(customers.c.id, sa.func.coalesce(customers.c.name, customers.c.email).label("title")),
    customers.c.id,
)
#: The largest number of customers with a request for erasure that are listed.
_MAX_TO_ERASE = 100
_NUMBER: sa.BindParameter[int] = sa.bindparam("number")
_IS_TAKEN = sa.select(
    sa.exists().where(customers.c.id == _NUMBER) | sa.exists().where(licenses.c.customer_id == _NUMBER)
)


class _Customers(NamedRecords[Customer]):
    """The rows of customers, who are looked up by their e-mail addresses in any case."""

    def condition(self, name: str, value: Any) -> sa.ColumnElement[bool]:
        """Return the condition for a filter."""
        if name == "email":
            return customers.c.email_folded == fold_email(value)
        return super().condition(name, value)

    def values_of(self, one: Customer) -> Values:
        """Return the columns of a customer, without the ID."""
        folded = None if one.email is None else fold_email(one.email)
        return super().values_of(one) | {"email_folded": folded}


CUSTOMERS = _Customers(customers, Customer, NameKind.CUSTOMER)
_BY_ID = Lookup(CUSTOMERS.all, customers.c.id)
_BY_EMAIL = Lookup(sa.select(customers.c.id, customers.c.email_folded), customers.c.email_folded)


def find_customers(tx: ReadTransaction, customer_ids: Collection[int]) -> dict[int | None, Customer]:
    """Return those of these customers that exist, by ID."""
    return {row.id: CUSTOMERS.of_row(row) for row in _BY_ID.find_rows(tx.connection, customer_ids)}


def find_by_emails(tx: ReadTransaction, emails: Collection[str]) -> dict[str, int]:
    """Return the IDs of the customers with these folded addresses, by address."""
    return {row.email_folded: row.id for row in _BY_EMAIL.find_rows(tx.connection, emails)} if emails else {}


def find_titles(tx: ReadTransaction, customer_ids: Collection[int]) -> dict[int, str]:
    """Return the display names of those of these customers that have one: the name, or the e-mail address."""
    found = _TITLES.find_rows(tx.connection, customer_ids)
    return {row.id: row.title for row in found if row.title is not None}


def list_to_erase(tx: ReadTransaction) -> list[Customer]:
    """List the first customers who have requested erasure, in the order of their requests."""
    at = customers.c.erasure_requested_at
    query = CUSTOMERS.all.where(at.is_not(None)).order_by(at).limit(_MAX_TO_ERASE)
    return [CUSTOMERS.of_row(row) for row in tx.connection.execute(query)]


def customer_has_licenses(tx: ReadTransaction, customer_id: int, *, product_id: int | None = None) -> bool:
    """Whether the customer has a license, of this product or of any."""
    condition = sa.exists().where(licenses.c.customer_id == customer_id)
    if product_id is not None:
        condition = condition.where(licenses.c.product_id == product_id)
    return bool(tx.connection.execute(sa.select(condition)).scalar_one())


def is_customer_taken(tx: ReadTransaction, number: int) -> bool:
    """Whether there is a customer with this ID, or a license that a shop sold to one."""
    return bool(tx.connection.execute(_IS_TAKEN, {"number": number}).scalar_one())


def require_product(tx: ReadTransaction, product_id: int | None, only: int | None = None) -> None:
    """Raise ``UnknownReference`` unless this product exists, or v2 or a shop has referred to it. For an API
    key of one product, ``only``, no other product exists.
    """
    if product_id is None or product_id == only:
        return
    if only is not None or not is_product_taken(tx, product_id):
        raise UnknownReference(f"product {product_id}", "/product_id")


def require_customer(tx: ReadTransaction, customer_id: int, only: int | None, pointer: str) -> None:
    """Raise ``UnknownReference`` unless this customer exists, or v2 or a shop has referred to them. For an
    API key of one product, ``only``, just the customers with a license of it exist.
    """
    if only is None and not is_customer_taken(tx, customer_id):
        raise UnknownReference(f"customer {customer_id}", pointer)
    if only is not None and not customer_has_licenses(tx, customer_id, product_id=only):
        raise UnknownReference("such customer who holds a license of this product", pointer)


_BRAND_ID = 1
_BRAND = [brand_table.c[name] for name in Brand.__struct_fields__]
_decode_links = msgspec.json.Decoder(tuple[FooterLink, ...]).decode


def find_brand(tx: ReadTransaction) -> Brand:
    """Return the vendor's brand, an empty one until the vendor has saved it."""
    row = tx.connection.execute(sa.select(*_BRAND).where(brand_table.c.id == _BRAND_ID)).first()
    if row is None:
        return Brand()
    return Brand(row.name, row.color, row.logo, row.logo_type, _decode_links(row.links), row.reply_to)


def save_brand(tx: WriteTransaction, brand: Brand, now: datetime) -> None:
    """Insert or replace the brand."""
    values = msgspec.structs.asdict(brand) | {"links": msgspec.json.encode(brand.links).decode()}
    tx.connection.execute(sa.delete(brand_table).where(brand_table.c.id == _BRAND_ID))
    tx.connection.execute(sa.insert(brand_table).values(id=_BRAND_ID, updated_at=to_seconds(now), **values))


_LICENSES_OF = Lookup(
    select(licenses.c.customer_id, func.count())
    .where(licenses.c.customer_id.is_not(None))
    .group_by(licenses.c.customer_id),
    licenses.c.customer_id,
)


_EXTERNAL_IDS = Lookup(select(customers.c.id, customers.c.external_id), customers.c.id)


def list_activations(tx: ReadTransaction, after: tuple[int, str], limit: int) -> list[Activation]:
    """Return at most ``limit`` activations after a license ID and token."""
    place = tuple_(activations.c.license_id, activations.c.token)
    query = select(*ACTIVATION).where(place > tuple_(*map(literal, after)))
    order = (activations.c.license_id, activations.c.token)
    return [activation_of(row) for row in tx.connection.execute(query.order_by(*order).limit(limit))]


def list_events(tx: ReadTransaction, after: int, limit: int) -> list[tuple[int, Event]]:
    """Return at most ``limit`` events after an ID, each with its ID."""
    query = select(events.c.id, *EVENT).where(events.c.id > after).order_by(events.c.id).limit(limit)
    return [(row[0], event_of(row[1:])) for row in tx.connection.execute(query)]


def list_customers(tx: ReadTransaction, after: int, limit: int) -> list[int]:
    """Return at most ``limit`` IDs after this one, of customers who are stored or have a license."""
    known = select(customers.c.id).where(customers.c.id > after)
    holding = select(licenses.c.customer_id).distinct().where(licenses.c.customer_id > after)
    parts = (
        select(known.order_by(customers.c.id).limit(limit).subquery()),
        select(holding.order_by(licenses.c.customer_id).limit(limit).subquery()),
    )
    found = union(*parts).subquery()
    return list(tx.connection.execute(select(found).order_by(found.c[0]).limit(limit)).scalars())


def find_external_ids(tx: ReadTransaction, customers: list[int]) -> dict[int, str | None]:
    """Return the external IDs of those of these customers that are stored."""
    return {row[0]: row[1] for row in _EXTERNAL_IDS.find_rows(tx.connection, customers)}


def count_licenses_of(tx: ReadTransaction, customers: list[int]) -> dict[int, int]:
    """Return the number of licenses of each of these customers that has any."""
    return {row[0]: row[1] for row in _LICENSES_OF.find_rows(tx.connection, customers)}
