"""Statements about customers."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, bindparam, exists, func, select

from keywright.db.bulk import Lookup, Values
from keywright.db.schema import customers, licenses
from keywright.db.transaction import ReadTransaction
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.terms_store import NamedRecords
from keywright.provisioning.customers.fields import fold_email
from keywright.provisioning.customers.model import Customer

_TITLES = Lookup(
    select(customers.c.id, func.coalesce(customers.c.name, customers.c.email).label("title")), customers.c.id
)
#: So many customers who ask to be erased are listed.
_MAX_TO_ERASE = 100
_NUMBER: BindParameter[int] = bindparam("number")
_IS_TAKEN = select(
    exists().where(customers.c.id == _NUMBER) | exists().where(licenses.c.customer_id == _NUMBER)
)


class _Customers(NamedRecords[Customer]):
    """The rows of customers, who are found by their e-mail addresses in any case."""

    def condition(self, name: str, value: Any) -> ColumnElement[bool]:
        """What a filter means."""
        if name == "email":
            return customers.c.email_folded == fold_email(value)
        return super().condition(name, value)

    def values_of(self, one: Customer) -> Values:
        """The columns of a customer, without the ID."""
        folded = None if one.email is None else fold_email(one.email)
        return super().values_of(one) | {"email_folded": folded}


CUSTOMERS = _Customers(customers, Customer, NameKind.CUSTOMER)
_BY_ID = Lookup(CUSTOMERS.all, customers.c.id)
_BY_EMAIL = Lookup(select(customers.c.id, customers.c.email_folded), customers.c.email_folded)


def find_customers(tx: ReadTransaction, customer_ids: Collection[int]) -> dict[int | None, Customer]:
    """Those of these customers that there are, by ID."""
    return {row.id: CUSTOMERS.of_row(row) for row in _BY_ID.find_rows(tx.connection, customer_ids)}


def find_by_emails(tx: ReadTransaction, emails: Collection[str]) -> dict[str, int]:
    """The IDs of the customers who have these folded addresses, by address."""
    return {row.email_folded: row.id for row in _BY_EMAIL.find_rows(tx.connection, emails)} if emails else {}


def find_titles(tx: ReadTransaction, customer_ids: Collection[int]) -> dict[int, str]:
    """What those of these customers that are known are called: the name, else the e-mail address."""
    found = _TITLES.find_rows(tx.connection, customer_ids)
    return {row.id: row.title for row in found if row.title is not None}


def list_to_erase(tx: ReadTransaction) -> list[Customer]:
    """The first customers who ask to be erased, those who wait longest first."""
    at = customers.c.erasure_requested_at
    query = CUSTOMERS.all.where(at.is_not(None)).order_by(at).limit(_MAX_TO_ERASE)
    return [CUSTOMERS.of_row(row) for row in tx.connection.execute(query)]


def has_licenses(tx: ReadTransaction, customer_id: int, *, product_id: int | None = None) -> bool:
    """Whether a license, of this product or of any, is of this customer."""
    condition = exists().where(licenses.c.customer_id == customer_id)
    if product_id is not None:
        condition = condition.where(licenses.c.product_id == product_id)
    return bool(tx.connection.execute(select(condition)).scalar_one())


def is_number_taken(tx: ReadTransaction, number: int) -> bool:
    """Whether there is a customer of this number, or a license that a shop sold to one."""
    return bool(tx.connection.execute(_IS_TAKEN, {"number": number}).scalar_one())
