"""Statements about products."""

from typing import Any

from sqlalchemy import exists, select

from keywright.db.schema import licenses, policies, products
from keywright.db.transaction import ReadTransaction
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.terms_store import NamedRecords
from keywright.provisioning.products.model import Product

PRODUCTS = NamedRecords(products, Product, NameKind.PRODUCT)


def has_licenses(tx: ReadTransaction, product_id: int) -> bool:
    """Whether a license is for this product."""
    return _exists(tx, licenses.c.product_id == product_id)


def has_policies(tx: ReadTransaction, product_id: int) -> bool:
    """Whether a policy is for this product."""
    return _exists(tx, policies.c.product_id == product_id)


def is_number_taken(tx: ReadTransaction, number: int) -> bool:
    """Whether there is a product of this number, or a license or a policy for one."""
    return _exists(tx, products.c.id == number) or has_licenses(tx, number) or has_policies(tx, number)


def _exists(tx: ReadTransaction, condition: Any) -> bool:
    return bool(tx.connection.execute(select(exists().where(condition))).scalar_one())
