"""Products."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from keywright.core.fields import ExternalId, Metadata, Name, OwnId, Parse, Time, about, list_changes
from keywright.core.metadata import read_metadata
from keywright.core.parsing import parse_metadata
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import catalog_schemas, lists, schemas
from keywright.http.v3.answers import created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body
from keywright.http.v3.lists import ListQuery
from keywright.http.v3.route import Route
from keywright.provisioning.products import rules
from keywright.provisioning.products.commands import (
    CreateProduct,
    DeleteProduct,
    GetProduct,
    ListProducts,
    UpdateProduct,
)
from keywright.provisioning.products.model import Feature, Product

_Code = Annotated[str, Meta(min_length=1, max_length=64), Parse(rules.parse_code)]
_RENEW = "Where customers renew; `{license_ref}` in it is replaced by that of the license."
_Url = Annotated[str, Meta(max_length=2000), Parse(rules.parse_url)]


class FeatureBody(Body):
    """A feature of a product."""

    code: Annotated[str, Meta(min_length=1, max_length=64), Parse(rules.parse_feature_code)]
    name: Name | None = None
    description: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None


def _check_features(features: list[FeatureBody]) -> list[FeatureBody]:
    if len({one.code for one in features}) < len(features):
        raise ValueError("must have each code once")
    return features


_Features = Annotated[list[FeatureBody], Meta(max_length=rules.MAX_FEATURES), Parse(_check_features)]


class NewProduct(Body):
    """A product to make."""

    name: Annotated[Name, about("Its name.", "Paint")]
    id: Annotated[OwnId | None, about("The shop's number; without one, Keywright gives one.", 17)] = None
    code: Annotated[_Code | None, about("Unique; without one, it is made from the name.", "paint")] = None
    url: Annotated[_Url | None, about("Where customers read about it.", "https://example.com/paint")] = None
    features: Annotated[_Features, about("The entitlement codes that it knows.")] = field(
        default_factory=list
    )
    external_id: Annotated[ExternalId | None, about("Your own ID; unique.", "erp-7")] = None
    renew_url: Annotated[_Url | None, about(_RENEW, "https://shop.example/renew?ref={license_ref}")] = None
    metadata: Annotated[Metadata | None, about("Anything, as a JSON object.")] = None


class ProductChanges(Body):
    """Changes to a product, as a JSON merge patch."""

    name: Annotated[Name, about("Its name.", "Paint")] | UnsetType = UNSET
    code: Annotated[_Code, about("It is fixed once the product has a license.", "paint")] | UnsetType = UNSET
    url: Annotated[_Url, about("Where customers read about it.")] | UnsetType | None = UNSET
    features: Annotated[_Features, about("All entitlement codes that it knows.")] | UnsetType = UNSET
    external_id: Annotated[ExternalId, about("Your own ID; unique.")] | UnsetType | None = UNSET
    renew_url: Annotated[_Url, about(_RENEW)] | UnsetType | None = UNSET
    metadata: Annotated[Metadata, about("Merged with what is there; null removes.")] | UnsetType | None = (
        UNSET
    )


class ProductQuery(ListQuery):
    """Filters of products."""

    code: Annotated[str | None, about("Only the product with this code.")] = None
    external_id: Annotated[str | None, about("Only the product that you call so.")] = None
    created_after: Annotated[Time | None, about("Only those made after this moment.")] = None
    created_before: Annotated[Time | None, about("Only those made before it.")] = None
    sort: Literal["created_at", "-created_at", "name", "-name"] = "-created_at"


def show(product: Product) -> catalog_schemas.Product:
    """The product as its answer."""
    features = [catalog_schemas.Feature(one.code, one.name, one.description) for one in product.features]
    return catalog_schemas.Product(
        product.id,
        product.code,
        product.name,
        product.url,
        features,
        product.external_id,
        product.renew_url,
        read_metadata(product.metadata),
        product.created_at,
        product.updated_at,
    )


def _etag(product: Product) -> bytes:
    return etag_of(show(product))


def _write(product: Product) -> Answer:
    return ok(show(product), etag=_etag(product))


async def create_product(call: Call, body: NewProduct) -> Answer:
    """Create a product.

    Licenses and policies may name a product by its number before there is a product: giving its `id` here
    makes the product of that number.
    """
    command = CreateProduct(
        context=call.context,
        id=body.id,
        name=body.name,
        code=body.code,
        url=body.url,
        features=_features(body.features),
        external_id=body.external_id,
        renew_url=body.renew_url,
        metadata=parse_metadata(body.metadata),
    )

    def write(product: Product) -> Answer:
        return created(show(product), f"{call.root}/products/{product.id}", etag=_etag(product))

    return await call.change(command, write)


async def list_products(call: Call, query: ProductQuery) -> Answer:
    """List products.

    The newest first. An API key for one product sees that one alone.
    """
    asked = ListProducts(
        paging=lists.read_paging(call),
        code=query.code,
        external_id=query.external_id,
        created_after=query.created_after,
        created_before=query.created_before,
        only_product_id=call.only_product_id,
    )
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show))


async def get_product(call: Call) -> Answer:
    """Get a product.

    One product.
    """
    query = GetProduct(product_id=call.path["product_id"], only_product_id=call.only_product_id)
    return await call.ask(query, _write)


async def update_product(call: Call, body: ProductChanges) -> Answer:
    """Change a product.

    What is not sent stays. The code of a product that has licenses cannot be changed: programs may name the
    product by it.
    """
    changes = list_changes(body)
    if "features" in changes:
        changes["features"] = _features(changes["features"])
    command = UpdateProduct(
        context=call.context,
        product_id=call.path["product_id"],
        changes=changes,
        precondition=call.precondition(_etag),
    )
    return await call.change(command, _write)


async def delete_product(call: Call) -> Answer:
    """Delete a product.

    Only one that no license and no policy names.
    """
    command = DeleteProduct(
        context=call.context, product_id=call.path["product_id"], precondition=call.precondition(_etag)
    )
    return await call.change(command, no_content)


def _features(bodies: list[FeatureBody]) -> tuple[Feature, ...]:
    return tuple(Feature(one.code, one.name, one.description) for one in bodies)


_EXAMPLE: dict[str, Any] = {
    "name": "Paint",
    "code": "paint",
    "url": "https://example.com/paint",
    "features": [{"code": "layers", "name": "Layers"}],
}
_ONE = "/products/{product_id}"

ROUTES = (
    Route(
        "POST",
        "/products",
        "create_product",
        Right.WRITE,
        create_product,
        body=NewProduct,
        gives=catalog_schemas.Product,
        status=201,
        refusals=("already_exists",),
        example=_EXAMPLE,
        needs_all_products=True,
    ),
    Route(
        "GET",
        "/products",
        "list_products",
        Right.READ,
        list_products,
        query=ProductQuery,
        gives=schemas.Page[catalog_schemas.Product],
    ),
    Route("GET", _ONE, "get_product", Right.READ, get_product, gives=catalog_schemas.Product),
    Route(
        "PATCH",
        _ONE,
        "update_product",
        Right.WRITE,
        update_product,
        body=ProductChanges,
        gives=catalog_schemas.Product,
        refusals=("already_exists", "still_in_use", "changed_meanwhile"),
        example={"name": "Paint Pro"},
        needs_all_products=True,
    ),
    Route(
        "DELETE",
        _ONE,
        "delete_product",
        Right.WRITE,
        delete_product,
        status=204,
        refusals=("still_in_use", "changed_meanwhile"),
        needs_all_products=True,
    ),
)
