"""Products: what licenses are for."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from keywright.core.errors import InvalidRelease, NoSuchAddress, NotFound, ReleaseNotReady
from keywright.core.parsing import parse_integer
from keywright.http.admin.crud import CrudSection
from keywright.http.admin.noun_pages import read_product, read_release
from keywright.http.admin.site import list_signing_keys
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import Inputs, parse_positive, require_id
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.http.update_formats import list_addresses
from keywright.identity.model import Right
from keywright.licensing.updates.model import Release, Rollout, Updates
from keywright.licensing.updates.store import RELEASES
from keywright.provisioning.products import PRODUCT, Product
from keywright.provisioning.releases.commands import PublishRelease, UpdateRelease, YankRelease
from keywright.provisioning.releases.fields import ReleaseFields
from keywright.provisioning.releases.files import check_files
from keywright.provisioning.releases.handlers import find_with_files
from keywright.provisioning.store import PRODUCTS
from keywright.signing.explanation import programs_to_paste


def _list_addresses(base: str, number: int, product: Product | None) -> Iterator[tuple[str, str]]:
    """The addresses to configure in update frameworks; the vendor's program inserts the token."""
    is_open = product is not None and product.updates is Updates.OPEN
    code = None if product is None else product.code
    return list_addresses(base, code or number, "open" if is_open else "UPDATE_TOKEN")


class Products(CrudSection):
    """The products."""

    label, path, icon = N_("Products"), "/products", "box"
    group = N_("Licensing")
    noun, records = PRODUCT, PRODUCTS
    new_title, edit_title = N_("New product"), N_("Edit %(name)s")
    created = N_("The product %(name)s was created.")
    saved = N_("The product %(name)s was saved.")
    deleted = N_("The product %(name)s was deleted.")
    undone = N_("Undone: the product is as before.")
    question = N_("Delete the product %(name)s?")
    warnings = (N_("Only a product without licenses and policies can be deleted."),)
    fixed = "code"

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """The products, by ID."""
        return request.render("products/list.html", shown=self.read_page(request))

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A product's policies and API keys, the events of its licenses, and code for its programs."""
        values = request.ask(lambda tx: read_product(tx, request))
        code = None if values["product"] is None else values["product"].code
        keys = [one.public_key for one in list_signing_keys(request)[:1]]
        programs = programs_to_paste(request.base_url, code, keys)
        addresses = list(_list_addresses(request.base_url, values["number"], values["product"]))
        return request.render("products/show.html", **values, programs=programs, addresses=addresses)

    def complete(self, inputs: Inputs, values: dict[str, Any], one: Any) -> None:
        """Keep the code if the form has none, and the descriptions of features."""
        if one is not None:
            values["code"] = values["code"] or one.code
            texts = {feature.code: feature.description for feature in one.features}
            values["features"] = [
                replace(feature, description=texts.get(feature.code)) for feature in values["features"]
            ]

    @page("/releases/{id:number}")
    def show_release(self, request: PageRequest) -> Response:
        """A release: its files, and the result of every rule, for a license or without one."""
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

    @page("/releases/{id:number}/rollout", methods=("POST",), right=Right.CHANGE)
    def raise_rollout(self, request: PageRequest) -> Response:
        """Offer a release to more devices."""
        release, back = self._get_release(request)
        try:
            rollout = Rollout(parse_integer(request.form.get("percent", ""), 100) or 0)
            fields = ReleaseFields(rollout=rollout)
            request.change(UpdateRelease(context=request.context, id=release.id, fields=fields))
        except (ValueError, InvalidRelease):
            least = release.rollout.percent if release.rank is not None else 0
            sentence = _("A rollout can only grow: type a number from %(least)s to 100.", least=least)
            return request.redirect(back, sentence, is_error=True)
        return request.redirect(back, _("The rollout is %(percent)s %%.", percent=rollout.percent))

    @page("/releases/{id:number}/publish", methods=("GET", "POST"), right=Right.CHANGE)
    def publish_release(self, request: PageRequest) -> Response:
        """Publish a draft, after verifying the bytes and signatures of its files."""
        release, back = self._get_release(request)
        if request.is_post:
            try:
                found = request.ask(lambda tx: find_with_files(tx, release.id))
                checked = check_files(request.site.settings.files_folder, found)
                request.change(
                    PublishRelease(context=request.context, release_id=release.id, checked=checked)
                )
            except ReleaseNotReady as refusal:
                return request.redirect(back, message_for(refusal).sentence, is_error=True)
            return request.redirect(
                back, _("The release %(version)s was published.", version=release.version)
            )
        sentences = [
            _("From now on, the release is offered to licenses that cover it, within its rollout."),
            _("After that, its files, version and channel cannot be changed."),
        ]
        question = _("Publish release %(version)s?", version=release.version)
        return request.confirm(question, sentences, button=_("Publish"), back=back, is_danger=False)

    def _get_release(self, request: PageRequest) -> tuple[Release, str]:
        """The release in the address, and the path of its page. Raises ``NoSuchAddress``."""
        number = require_id(request.path_params["id"])
        release = request.ask(lambda tx: RELEASES.find(tx, number))
        if release is None:
            raise NoSuchAddress
        return release, f"{self.path}/releases/{number}"

    @page("/releases/{id:number}/yank", methods=("GET", "POST"), right=Right.CHANGE)
    def yank_release(self, request: PageRequest) -> Response:
        """Stop offering a release."""
        release, back = self._get_release(request)
        if request.is_post:
            request.change(YankRelease(context=request.context, release_id=release.id))
            return request.redirect(back, _("The release %(version)s was yanked.", version=release.version))
        sentences = [
            _("The release is no longer offered, and can no longer be downloaded."),
            _("Programs that have it stay as they are: only a higher version can fix them."),
        ]
        question = _("Yank release %(version)s?", version=release.version)
        return request.confirm(question, sentences, button=_("Yank"), back=back)
