"""Commands and queries about products."""

from msgspec import field

from keywright.core.nouns import Create, Delete, Get, List, Noun, Update
from keywright.provisioning.products.fields import NewProduct, ProductFields, ProductQuery
from keywright.provisioning.products.model import Product


class CreateProduct(Create, frozen=True, kw_only=True):
    """Make a product. Without a code it gets one made from its name, if no other product has that."""

    fields: NewProduct


class UpdateProduct(Update, frozen=True, kw_only=True):
    """Change a product."""

    fields: ProductFields


class DeleteProduct(Delete, frozen=True, kw_only=True):
    """Delete the product, if no license and no policy names it."""


class GetProduct(Get, frozen=True, kw_only=True):
    """The product with this ID."""


class ListProducts(List, frozen=True, kw_only=True):
    """A page of the products that match."""

    where: ProductQuery = field(default_factory=ProductQuery)


PRODUCT = Noun(
    *("product", Product, ProductFields, NewProduct, ProductQuery),
    *(CreateProduct, UpdateProduct, DeleteProduct, GetProduct, ListProducts),
    is_of_product=True,
)
