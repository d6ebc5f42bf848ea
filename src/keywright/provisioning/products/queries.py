"""Read products."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Query
from keywright.core.errors import NotFound
from keywright.core.paging import ItemPage
from keywright.provisioning.products import store as product_store
from keywright.provisioning.products.commands import GetProduct, ListProducts
from keywright.provisioning.products.model import Product


def get_product(read: Any, query: GetProduct) -> Product:
    """One product. Raises ``NotFound``."""
    product = product_store.find_product(read.tx, query.product_id)
    if product is None or query.only_product_id not in (None, product.id):
        raise NotFound(f"product {query.product_id}")
    return product


def list_products(read: Any, query: ListProducts) -> ItemPage[Product]:
    """A page of products."""
    return product_store.list_products(read.tx, query)


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    GetProduct: get_product,
    ListProducts: list_products,
}
