"""The products and customers that calls name by their numbers."""

from keywright.core.errors import UnknownReference
from keywright.db import ReadTransaction
from keywright.provisioning.customers import store as customer_store
from keywright.provisioning.products import store as product_store


def require_product(tx: ReadTransaction, product_id: int | None, only: int | None = None) -> None:
    """Raise ``UnknownReference`` unless there is this product, or v2 or a shop has named it. For an API key
    of one product, ``only``, there is no other.
    """
    if product_id is None or product_id == only:
        return
    if only is not None or not product_store.is_number_taken(tx, product_id):
        raise UnknownReference(f"product {product_id}", "/product_id")


def require_customer(tx: ReadTransaction, customer_id: int, only: int | None, pointer: str) -> None:
    """Raise ``UnknownReference`` unless there is this customer, or v2 or a shop has named it. For an API key
    of one product, ``only``, there are those who hold a license of it.
    """
    if only is None and not customer_store.is_number_taken(tx, customer_id):
        raise UnknownReference(f"customer {customer_id}", pointer)
    if only is not None and not customer_store.has_licenses(tx, customer_id, product_id=only):
        raise UnknownReference("such customer who holds a license of this product", pointer)
