"""Products: what licenses are for."""

from functools import partial
from typing import Any

from msgspec import convert, to_builtins
from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import AlreadyExists, NoSuchAddress, Refusal, StillInUse
from keywright.core.paging import ItemPage, Paging
from keywright.db import ReadTransaction
from keywright.http.admin.paging import read_page
from keywright.http.admin.product_page import read_product
from keywright.http.admin.signing import list_signing_keys
from keywright.http.admin.undo_forms import Past, read_past, refuse_undo, say_whether_undone, undo_form
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.inputs import Inputs, require_id
from keywright.http.pages.languages import N_, _
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.provisioning.products import store as product_store
from keywright.provisioning.products.commands import (
    CreateProduct,
    DeleteProduct,
    ListProducts,
    UpdateProduct,
)
from keywright.provisioning.products.model import Feature, Product
from keywright.provisioning.products.rules import MAX_FEATURES, parse_code, parse_feature_code, parse_url
from keywright.signing.snippets import programs_to_paste

#: The fields of the form.
_FIELDS = ("code", "name", "url", "features", "external_id", "renew_url")


class Products(Section):
    """The products. Every user may see them; users who may change licenses may change them."""

    label = N_("Products")
    path = "/products"
    icon = "box"
    right = Right.LOOK

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """The products, by their numbers."""
        shown = read_page(
            request, lambda tx, paging: product_store.list_products(tx, ListProducts(paging=paging))
        )
        return request.render("products/list.html", shown=shown)

    @page("/new", methods=("GET", "POST"), right=Right.CHANGE)
    def create(self, request: PageRequest) -> Response:
        """Create a product."""
        inputs = Inputs(request.form)
        if request.is_post:
            number = inputs.read("number", parsing.parse_integer)
            values = _read_values(inputs, None)
            if not inputs.errors:
                new = CreateProduct(context=request.context, id=number, **values)
                return _submit(
                    request, new, _("The product %(name)s is created.", name=new.name), inputs, None
                )
        return _render_form(request, inputs, None)

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A product's policies and API keys, what happened to its licenses, and code for its programs."""
        values = request.ask(lambda tx: read_product(tx, request))
        code = None if values["product"] is None else values["product"].code
        keys = [one.public_key for one in list_signing_keys(request)[:1]]
        programs = programs_to_paste(request.base_url, code, keys)
        return request.render("products/show.html", **values, programs=programs)

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.CHANGE)
    def edit(self, request: PageRequest) -> Response:
        """Change a product."""
        product, inputs = _get(request), Inputs(request.form)
        if request.is_post:
            values = _read_values(inputs, product)
            if not inputs.errors:
                changes = {name: value for name, value in values.items() if value != getattr(product, name)}
                change = UpdateProduct(context=request.context, product_id=product.id, changes=changes)
                message = _("The product %(name)s is saved.", name=values["name"])
                undo = undo_form(request, f"/products/{product.id}", _fields_of(product), to_builtins(values))
                return _submit(request, change, message, inputs, product, undo=undo)
        return _render_form(request, inputs, product)

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.CHANGE)
    def delete(self, request: PageRequest) -> Response:
        """Delete a product that no license and no policy names."""
        product = _get(request)
        kept = _fields_of(product) | {"metadata": product.metadata}
        undo = undo_form(request, f"/products/{product.id}", kept, None)
        if request.is_post:
            request.change(DeleteProduct(context=request.context, product_id=product.id))
            message = _("The product %(name)s is deleted.", name=product.name)
            return request.redirect("/products", message, undo)
        return request.confirm(
            _("Delete the product %(name)s?", name=product.name),
            [
                _("Only a product that no license and no policy names can be deleted."),
                say_whether_undone(undo),
            ],
            button=_("Delete"),
            back="/products",
        )

    @page("/{id:number}/undo", methods=("POST",), right=Right.CHANGE)
    def undo(self, request: PageRequest) -> Response:
        """Undo the change of a product, or bring back one that was deleted a moment ago."""
        number = require_id(request.path_params["id"])
        back = f"/products/{number}"
        try:
            request.change(_to_undo(request, number, read_past(request, back)))
        except Refusal as refusal:
            return refuse_undo(request, back, refusal)
        return request.redirect(back, _("Undone: the product is as before."))


def _list(tx: ReadTransaction, paging: Paging) -> ItemPage[Product]:
    return product_store.list_products(tx, ListProducts(paging=paging))


def _get(request: PageRequest) -> Product:
    """The product in the address. Raises ``NoSuchAddress``."""
    number = require_id(request.path_params["id"])
    product = request.ask(lambda tx: product_store.find_product(tx, number))
    if product is None:
        raise NoSuchAddress
    return product


def _fields_of(product: Product) -> dict[str, Any]:
    """The values of the form, as they are in JSON."""
    fields: dict[str, Any] = to_builtins({name: getattr(product, name) for name in _FIELDS})
    return fields


def _to_undo(request: PageRequest, number: int, past: Past) -> CreateProduct | UpdateProduct:
    fields = past.fields
    if "features" in fields:
        fields["features"] = convert(fields["features"], tuple[Feature, ...])
    if past.is_deletion:
        return CreateProduct(context=request.context, id=number, **fields)
    return UpdateProduct(
        context=request.context,
        product_id=number,
        changes=fields,
        precondition=lambda product: past.require_unchanged(_fields_of(product)),
    )


def _read_values(inputs: Inputs, product: Product | None) -> dict[str, Any]:
    """The values in the form, by the names of the fields of ``Product``; features keep descriptions."""
    described = {} if product is None else {one.code: one.description for one in product.features}
    return {
        "code": inputs.read("code", parse_code) or (product and product.code),
        "name": inputs.require("name", parsing.parse_name, ""),
        "url": inputs.read("url", parse_url),
        "features": inputs.read("features", partial(_parse_features, described=described)) or (),
        "external_id": inputs.read("external_id", parsing.parse_external_id),
        "renew_url": inputs.read("renew_url", parse_url),
    }


def _parse_features(text: str, *, described: dict[str, str | None]) -> tuple[Feature, ...]:
    """The features of lines such as ``layers = Layers``."""
    features: dict[str, Feature] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        code, _sign, name = (one.strip() for one in line.partition("="))
        parse_feature_code(code)
        if code in features:
            raise ValueError(f"must have each code once; {code} is there twice")
        features[code] = Feature(code, parsing.parse_name(name) if name else None, described.get(code))
    if len(features) > MAX_FEATURES:
        raise ValueError(f"must have at most {MAX_FEATURES} features")
    return tuple(features.values())


def _submit(
    request: PageRequest,
    command: CreateProduct | UpdateProduct,
    message: str,
    inputs: Inputs,
    product: Product | None,
    *,
    undo: str = "",
) -> Response:
    """Do the command; where it collides with another product or a license, show the form again."""
    try:
        return change_once(request, command, lambda one: Redirect(f"/products/{one.id}", message, undo))
    except AlreadyExists as error:
        inputs.errors["number" if error.field == "id" else error.field] = message_for(error).sentence
    except StillInUse as error:
        inputs.errors["code"] = message_for(error).sentence
    return _render_form(request, inputs, product)


def _render_form(request: PageRequest, inputs: Inputs, product: Product | None) -> Response:
    values: dict[str, Any] = dict.fromkeys(_FIELDS)
    if request.is_post:
        values = {name: request.form.raw(name) for name in _FIELDS}
    elif product is not None:
        values = {name: getattr(product, name) for name in _FIELDS}
        values["features"] = "\n".join(
            f"{one.code} = {one.name}" if one.name else one.code for one in product.features
        )
    return request.render("products/edit.html", product=product, values=values, errors=inputs.errors)
