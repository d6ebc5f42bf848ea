"""Statements about products."""

from typing import Any

import msgspec
from sqlalchemy import Row, delete, exists, insert, select, update

from keywright.core.paging import ItemPage
from keywright.db.bulk import Values
from keywright.db.keyset import read_page
from keywright.db.rows import to_columns, to_seconds, with_datetimes
from keywright.db.schema import licenses, policies, products
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.provisioning.catalog import terms_store
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.products.commands import ListProducts
from keywright.provisioning.products.model import Feature, Product

_PRODUCT = [products.c[name] for name in Product.__struct_fields__]
_decode_features = msgspec.json.Decoder(tuple[Feature, ...]).decode


def find_product(tx: ReadTransaction, product_id: int) -> Product | None:
    """The product with this id."""
    return tx.first(select(*_PRODUCT).where(products.c.id == product_id), _product_of)


def find_product_by_code(tx: ReadTransaction, code: str) -> Product | None:
    """The product with this code."""
    return tx.first(select(*_PRODUCT).where(products.c.code == code), _product_of)


def find_by_external_id(tx: ReadTransaction, external_id: str) -> Product | None:
    """The product that another system of the vendor calls so."""
    return tx.first(select(*_PRODUCT).where(products.c.external_id == external_id), _product_of)


def lock_product(tx: WriteTransaction, product_id: int) -> Product | None:
    """The product with this id, locked until the end of the transaction."""
    return tx.first(select(*_PRODUCT).where(products.c.id == product_id).with_for_update(), _product_of)


def list_products(tx: ReadTransaction, query: ListProducts) -> ItemPage[Product]:
    """The page that is asked for."""
    column, conditions = products.c, []
    if query.code is not None:
        conditions.append(column.code == query.code)
    if query.external_id is not None:
        conditions.append(column.external_id == query.external_id)
    if query.created_after is not None:
        conditions.append(column.created_at > to_seconds(query.created_after))
    if query.created_before is not None:
        conditions.append(column.created_at < to_seconds(query.created_before))
    if query.only_product_id is not None:
        conditions.append(column.id == query.only_product_id)
    return read_page(tx, select(*_PRODUCT).where(*conditions), query.paging, _product_of)


def save_new_product(tx: WriteTransaction, product: Product) -> None:
    """Insert a product."""
    tx.connection.execute(insert(products).values(_values(product) | {"id": product.id}))
    terms_store.save_new_terms(tx, NameKind.PRODUCT, product.id, product.name, product.code)


def save_product(tx: WriteTransaction, product: Product) -> None:
    """Update every field."""
    before = terms_store.lock_terms(tx, NameKind.PRODUCT, product.id)
    tx.connection.execute(update(products).where(products.c.id == product.id).values(_values(product)))
    terms_store.save_terms(tx, NameKind.PRODUCT, product.id, before)


def delete_product(tx: WriteTransaction, product_id: int) -> None:
    """Delete a product."""
    before = terms_store.lock_terms(tx, NameKind.PRODUCT, product_id)
    tx.connection.execute(delete(products).where(products.c.id == product_id))
    terms_store.save_terms(tx, NameKind.PRODUCT, product_id, before)


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


def _product_of(row: Row[Any]) -> Product:
    values = with_datetimes(row)
    return Product(**values | {"features": _decode_features(values["features"])})


def _values(product: Product) -> Values:
    return to_columns(product) | {"features": msgspec.json.encode(product.features).decode()}
