"""Commands and queries about products."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keywright.core.command import Command, Query
from keywright.core.paging import Paging
from keywright.provisioning.products.model import Feature


class CreateProduct(Command, frozen=True, kw_only=True):
    """Make a product. Without an id it gets one of Keywright's own; without a code, one made from its name,
    if no other product has that.
    """

    name: str
    id: int | None = None
    code: str | None = None
    url: str | None = None
    features: tuple[Feature, ...] = ()
    metadata: str | None = None
    external_id: str | None = None
    renew_url: str | None = None


class UpdateProduct(Command, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``Product``; ``metadata`` is a JSON merge patch."""

    product_id: int
    changes: Mapping[str, Any]


class DeleteProduct(Command, frozen=True, kw_only=True):
    """Delete the product, if no license and no policy names it."""

    product_id: int


class GetProduct(Query, frozen=True, kw_only=True):
    """The product with this id."""

    product_id: int
    only_product_id: int | None = None


class ListProducts(Query, frozen=True, kw_only=True):
    """A page of the products that match."""

    paging: Paging
    code: str | None = None
    external_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    only_product_id: int | None = None
