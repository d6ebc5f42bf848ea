"""Statements about customers."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import BindParameter, Row, bindparam, delete, exists, func, insert, select, update

from keywright.core.paging import ItemPage
from keywright.db.bulk import Lookup, Values
from keywright.db.keyset import read_page
from keywright.db.rows import to_columns, to_seconds, with_datetimes
from keywright.db.schema import customers, licenses
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.catalog import terms_store
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.customers.commands import ListCustomers
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.rules import fold_email

_TITLES = Lookup(
    select(customers.c.id, func.coalesce(customers.c.name, customers.c.email).label("title")), customers.c.id
)
#: So many customers who ask to be erased are listed.
_MAX_TO_ERASE = 100
_CUSTOMER = [customers.c[name] for name in Customer.__struct_fields__]
_BY_ID = Lookup(select(*_CUSTOMER), customers.c.id)
_BY_EMAIL = select(*_CUSTOMER).where(customers.c.email_folded == bindparam("email"))
_NUMBER: BindParameter[int] = bindparam("number")
_IS_TAKEN = select(
    exists().where(customers.c.id == _NUMBER) | exists().where(licenses.c.customer_id == _NUMBER)
)
_INSERT = insert(customers)


def find_customer(tx: ReadTransaction, customer_id: int) -> Customer | None:
    """The customer with this id."""
    return tx.first(select(*_CUSTOMER).where(customers.c.id == customer_id), _customer_of)


def find_customer_by_email(tx: ReadTransaction, email: str) -> Customer | None:
    """The customer with this e-mail address, in any case."""
    return tx.first(_BY_EMAIL, _customer_of, email=fold_email(email))


def find_by_external_id(tx: ReadTransaction, external_id: str) -> Customer | None:
    """The customer whom another system of the vendor calls so."""
    return tx.first(select(*_CUSTOMER).where(customers.c.external_id == external_id), _customer_of)


def find_customers(tx: ReadTransaction, customer_ids: Collection[int]) -> dict[int | None, Customer]:
    """Those of these customers that there are, by ID."""
    return {row.id: _customer_of(row) for row in _BY_ID.find_rows(tx.connection, customer_ids)}


def find_titles(tx: ReadTransaction, customer_ids: Collection[int]) -> dict[int, str]:
    """What those of these customers that are known are called: the name, else the e-mail address."""
    found = _TITLES.find_rows(tx.connection, customer_ids)
    return {row.id: row.title for row in found if row.title is not None}


def lock_customer(tx: WriteTransaction, customer_id: int) -> Customer | None:
    """The customer with this id, locked until the end of the transaction."""
    return tx.first(select(*_CUSTOMER).where(customers.c.id == customer_id).with_for_update(), _customer_of)


def list_customers(tx: ReadTransaction, query: ListCustomers) -> ItemPage[Customer]:
    """The page that is asked for."""
    column, conditions = customers.c, []
    if query.email is not None:
        conditions.append(column.email_folded == fold_email(query.email))
    if query.name is not None:
        conditions.append(column.name == query.name)
    if query.external_id is not None:
        conditions.append(column.external_id == query.external_id)
    if query.updated_after is not None:
        conditions.append(column.updated_at > to_seconds(query.updated_after))
    if query.created_after is not None:
        conditions.append(column.created_at > to_seconds(query.created_after))
    if query.created_before is not None:
        conditions.append(column.created_at < to_seconds(query.created_before))
    return read_page(tx, select(*_CUSTOMER).where(*conditions), query.paging, _customer_of)


def list_to_erase(tx: ReadTransaction) -> list[Customer]:
    """The first customers who ask to be erased, those who wait longest first."""
    at = customers.c.erasure_requested_at
    query = select(*_CUSTOMER).where(at.is_not(None)).order_by(at).limit(_MAX_TO_ERASE)
    return [_customer_of(row) for row in tx.connection.execute(query)]


def save_new_customer(tx: WriteTransaction, customer: Customer) -> None:
    """Insert a customer."""
    tx.connection.execute(_INSERT, _values(customer) | {"id": customer.id})
    terms_store.save_new_terms(tx, NameKind.CUSTOMER, customer.id, customer.name, customer.email)


def save_customer(tx: WriteTransaction, customer: Customer) -> None:
    """Update every field."""
    before = terms_store.lock_terms(tx, NameKind.CUSTOMER, customer.id)
    tx.connection.execute(update(customers).where(customers.c.id == customer.id).values(_values(customer)))
    terms_store.save_terms(tx, NameKind.CUSTOMER, customer.id, before)


def delete_customer(tx: WriteTransaction, customer_id: int) -> None:
    """Delete a customer."""
    before = terms_store.lock_terms(tx, NameKind.CUSTOMER, customer_id)
    tx.connection.execute(delete(customers).where(customers.c.id == customer_id))
    terms_store.save_terms(tx, NameKind.CUSTOMER, customer_id, before)


def has_licenses(tx: ReadTransaction, customer_id: int, *, product_id: int | None = None) -> bool:
    """Whether a license, of this product or of any, is of this customer."""
    condition = exists().where(licenses.c.customer_id == customer_id)
    if product_id is not None:
        condition = condition.where(licenses.c.product_id == product_id)
    return bool(tx.connection.execute(select(condition)).scalar_one())


def is_number_taken(tx: ReadTransaction, number: int) -> bool:
    """Whether there is a customer of this number, or a license that a shop sold to one."""
    return bool(tx.connection.execute(_IS_TAKEN, {"number": number}).scalar_one())


def _customer_of(row: Row[Any]) -> Customer:
    return Customer(**with_datetimes(row))


def _values(customer: Customer) -> Values:
    folded = None if customer.email is None else fold_email(customer.email)
    return to_columns(customer) | {"email_folded": folded}
