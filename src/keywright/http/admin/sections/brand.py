"""The brand of the portal and of mails, and the customers who ask to be erased."""

from typing import Any

from msgspec import UNSET
from starlette.responses import Response

from keywright.core.parsing import parse_name
from keywright.http.admin.texts import portal_gaps
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import Inputs
from keywright.http.pages.page import Section, page
from keywright.http.pages.render import PORTAL
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.provisioning.brand import MAX_LOGO_BYTES, SaveBrand, find_image_type, parse_color, parse_links
from keywright.provisioning.customers import parse_email
from keywright.provisioning.store import find_brand, list_to_erase


class PortalAndBrand(Section):
    """The look of the portal and of mails."""

    label = N_("Portal & brand")
    path = "/portal"
    group = N_("Settings")
    icon = "globe"
    right = Right.ADMINISTER

    @page("")
    def show(self, request: PageRequest) -> Response:
        """The form with the brand, missing settings, and customers who ask to be erased."""
        return _render(request, Inputs(request.form))

    @page("/save", methods=("POST",), max_upload=MAX_LOGO_BYTES)
    def save(self, request: PageRequest) -> Response:
        """Save the brand."""
        inputs = Inputs(request.form)
        values: dict[str, Any] = {
            "name": inputs.read("name", parse_name),
            "color": inputs.read("color", parse_color),
            "links": inputs.read("links", parse_links) or (),
            "reply_to": inputs.read("reply_to", parse_email),
            "logo": None if inputs.is_checked("no_logo") else UNSET,
        }
        file = request.form.file("logo")
        if file is not None and file.content:
            values["logo"] = file.content
            try:
                find_image_type(file.content)
            except ValueError as reason:
                inputs.errors["logo"] = explain(reason)
        if inputs.errors:
            return _render(request, inputs)
        request.change(SaveBrand(context=request.context, **values))
        return request.redirect(self.path, _("Saved. The portal shows the changes within a few seconds."))


def _render(request: PageRequest, inputs: Inputs) -> Response:
    brand = request.ask(find_brand)
    values: dict[str, Any] = {"name": brand.name, "color": brand.color, "reply_to": brand.reply_to}
    values["links"] = "\n".join(f"{one.text} {one.url}" for one in brand.links)
    if request.is_post:
        values = {name: request.form.raw(name) for name in values}
    return request.render(
        "portal.html",
        errors=inputs.errors,
        values=values,
        color=brand.color,
        logo=brand.logo,
        logo_type=brand.logo_type,
        is_served=request.site.settings.portal,
        gaps=portal_gaps(request.site.settings),
        address=f"{request.base_url}{PORTAL}",
        max_kilobytes=MAX_LOGO_BYTES // 1024,
        to_erase=request.ask(list_to_erase),
    )
