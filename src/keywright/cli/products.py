"""``keywright product …``"""

from typing import Annotated, Any

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.metadata import Metadata, to_patch
from keywright.cli.options import (
    AsJson,
    Change,
    ExternalId,
    NewExternalId,
    WrongUsage,
    changing,
    command,
    with_installation,
    with_installation_made,
)
from keywright.cli.paging import Limit, print_list
from keywright.core import parsing
from keywright.provisioning.products.commands import (
    CreateProduct,
    DeleteProduct,
    GetProduct,
    ListProducts,
    UpdateProduct,
)
from keywright.provisioning.products.model import Feature, Product
from keywright.provisioning.products.rules import parse_code, parse_feature_code, parse_url

app = typer.Typer(no_args_is_help=True)


def _parse_feature(text: str) -> Feature | None:
    code, _, name = text.partition("=")
    if text.strip().lower() == "none":
        return None
    return Feature(parse_feature_code(code.strip()), parsing.parse_name(name) if name else None)


_RENEW_HELP = "Where customers renew; {license_ref} in it names their license."
_CODE_HELP = "A unique word by which programs may name it; without it, one is made from the name."
Id = Annotated[int, typer.Argument(metavar="ID", parser=parsing.parse_integer, help="The product's number.")]
_Features = Annotated[
    list[Any] | None,
    typer.Option(
        "--feature",
        metavar="CODE[=NAME]",
        parser=_parse_feature,
        help="A feature that its licenses may have. Repeat it for more; none: no features.",
    ),
]


@command(
    app,
    "keywright product create --name Paint --code paint",
    "keywright product create --name Paint --id 17 --feature layers=Layers --feature export",
)
@with_installation_made
def create(
    here: Installation,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", parser=parsing.parse_name, help="The product's name.")],
    product_id: Annotated[
        int | None,
        typer.Option(
            "--id",
            metavar="ID",
            parser=parsing.parse_integer,
            help="Its number in your shop. Without it: one from 1,000,000,000.",
        ),
    ] = None,
    code: Annotated[str | None, typer.Option(metavar="CODE", parser=parse_code, help=_CODE_HELP)] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", parser=parse_url, help="Where customers read about it.")
    ] = None,
    features: _Features = None,
    external_id: ExternalId = None,
    renew_url: Annotated[str | None, typer.Option(metavar="URL", parser=parse_url, help=_RENEW_HELP)] = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Make a product."""
    product: Product = here.change(
        CreateProduct(
            context=here.context,
            name=name,
            id=product_id,
            code=code,
            url=url,
            features=tuple(filter(None, features or ())),
            external_id=external_id,
            renew_url=renew_url,
            metadata=parsing.parse_metadata(to_patch(metadata)),
        )
    )
    _print(product, f"Product {product.id} is made.", as_json=as_json)


@command(app, "keywright product list", name="list")
@with_installation
def list_products(
    here: Installation, *, external_id: ExternalId = None, limit: Limit = None, as_json: AsJson = False
) -> None:
    """List the products, by their numbers."""
    print_list(
        here,
        lambda paging: ListProducts(paging=paging, external_id=external_id),
        limit=limit,
        as_json=as_json,
        columns=("id", "code", "name", "url", "features"),
        to_row=lambda one: (one.id, one.code, one.name, one.url, _codes(one)),
        to_json=output.product_json,
    )


@command(app, "keywright product show 17")
@with_installation
def show(here: Installation, product_id: Id, *, as_json: AsJson = False) -> None:
    """Show a product."""
    _print(here.ask(GetProduct(product_id=product_id)), f"Product {product_id}", as_json=as_json)


@command(app, "keywright product update 17 --url https://example.com/paint")
@with_installation
def update(
    here: Installation,
    product_id: Id,
    *,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", parser=parsing.parse_name, help="The product's name.")
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", parser=parse_code, help="Its code; fixed once the product has a license."
        ),
    ] = None,
    url: Annotated[
        Change | None,
        typer.Option(
            metavar="URL", parser=changing(parse_url), help="Where customers read about it, or none."
        ),
    ] = None,
    features: _Features = None,
    external_id: NewExternalId = None,
    renew_url: Annotated[
        Change | None, typer.Option(metavar="URL", parser=changing(parse_url), help=f"{_RENEW_HELP} Or none.")
    ] = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Change what the options name, and nothing else. --feature replaces all features."""
    changes: dict[str, Any] = {"name": name, "code": code, "features": None}
    if features:
        changes["features"] = tuple(filter(None, features))
    changes = {key: value for key, value in changes.items() if value is not None}
    given = {"url": url, "external_id": external_id, "renew_url": renew_url}
    changes |= {name: one.value for name, one in given.items() if one is not None}
    changes |= {} if metadata is None else {"metadata": to_patch(metadata)}
    if not changes:
        raise WrongUsage("Nothing to change: name at least one option, such as --name")
    change = UpdateProduct(context=here.context, product_id=product_id, changes=changes)
    _print(here.change(change), f"Product {product_id} is changed.", as_json=as_json)


@command(app, "keywright product delete 17")
@with_installation
def delete(here: Installation, product_id: Id) -> None:
    """Delete a product that no license and no policy names."""
    here.change(DeleteProduct(context=here.context, product_id=product_id))
    output.print_line(f"Product {product_id} is deleted.")


def _print(product: Product, heading: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(output.product_json(product))
        return
    output.print_heading(heading)
    output.print_fields(
        [
            ("code", product.code),
            ("name", product.name),
            ("url", product.url),
            ("features", _codes(product)),
            ("external ID", product.external_id),
            ("renew url", product.renew_url),
            ("metadata", product.metadata),
            ("created at", output.format_time(product.created_at)),
            ("updated at", output.format_time(product.updated_at)),
        ]
    )


def _codes(product: Product) -> str | None:
    return ", ".join(one.code for one in product.features) or None
