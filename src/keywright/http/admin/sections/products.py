"""Products: what licenses are for."""

from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from keywright.http.admin.crud import CrudSection
from keywright.http.admin.product_page import read_product
from keywright.http.admin.signing import list_signing_keys
from keywright.http.pages.inputs import Inputs
from keywright.http.pages.languages import N_
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.provisioning.products import PRODUCT
from keywright.provisioning.store import PRODUCTS
from keywright.signing.explanation import programs_to_paste


class Products(CrudSection):
    """The products."""

    label, path, icon = N_("Products"), "/products", "box"
    group = N_("Licensing")
    noun, records = PRODUCT, PRODUCTS
    new_title, edit_title = N_("New product"), N_("Edit %(name)s")
    created = N_("The product %(name)s is created.")
    saved = N_("The product %(name)s is saved.")
    deleted = N_("The product %(name)s is deleted.")
    undone = N_("Undone: the product is as before.")
    question = N_("Delete the product %(name)s?")
    warnings = (N_("Only a product that no license and no policy names can be deleted."),)
    fixed = "code"

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """The products, by their numbers."""
        return request.render("products/list.html", shown=self.read_page(request))

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A product's policies and API keys, what happened to its licenses, and code for its programs."""
        values = request.ask(lambda tx: read_product(tx, request))
        code = None if values["product"] is None else values["product"].code
        keys = [one.public_key for one in list_signing_keys(request)[:1]]
        programs = programs_to_paste(request.base_url, code, keys)
        return request.render("products/show.html", **values, programs=programs)

    def complete(self, inputs: Inputs, values: dict[str, Any], one: Any) -> None:
        """The code stays where the form has none; features keep their descriptions."""
        if one is not None:
            values["code"] = values["code"] or one.code
            texts = {feature.code: feature.description for feature in one.features}
            values["features"] = [
                replace(feature, description=texts.get(feature.code)) for feature in values["features"]
            ]
