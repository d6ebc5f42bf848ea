"""Products: what licenses are for."""

from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from keywright.core.errors import NoSuchAddress, NotFound
from keywright.http.admin.crud import CrudSection
from keywright.http.admin.noun_pages import read_product, read_release
from keywright.http.admin.signing import list_signing_keys
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import Inputs, parse_positive, require_id
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.licensing.updates.store import RELEASES
from keywright.provisioning.products import PRODUCT
from keywright.provisioning.releases.commands import YankRelease
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

    @page("/releases/{id:number}")
    def show_release(self, request: PageRequest) -> Response:
        """A release: its files, and every rule about it for a license, or for everyone."""
        number, inputs = require_id(request.path_params["id"]), Inputs(request.query)
        license_id = inputs.read("license", parse_positive)
        try:
            values = request.ask(lambda tx: read_release(tx, number, license_id, request.now))
        except NotFound:
            if license_id is None:
                raise NoSuchAddress from None
            inputs.errors["license"] = _("There is no such license.")
            values = request.ask(lambda tx: read_release(tx, number, None, request.now))
        error, license = inputs.errors.get("license"), request.query.raw("license")
        return request.render("products/release.html", **values, error=error, license=license)

    @page("/releases/{id:number}/yank", methods=("GET", "POST"), right=Right.CHANGE)
    def yank_release(self, request: PageRequest) -> Response:
        """Offer a release no more."""
        number = require_id(request.path_params["id"])
        back = f"{self.path}/releases/{number}"
        release = request.ask(lambda tx: RELEASES.find(tx, number))
        if release is None:
            raise NoSuchAddress
        if request.is_post:
            request.change(YankRelease(context=request.context, release_id=number))
            return request.redirect(back, _("The release %(version)s is yanked.", version=release.version))
        sentences = [
            _("It is offered no more, and its downloads end."),
            _("Programs that have it stay as they are: only a higher version heals them."),
        ]
        question = _("Yank release %(version)s?", version=release.version)
        return request.confirm(question, sentences, button=_("Yank"), back=back)
