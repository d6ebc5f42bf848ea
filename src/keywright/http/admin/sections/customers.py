"""Customers: who bought licenses."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import convert
from msgspec.structs import replace
from starlette.responses import Response

from keywright.core.errors import Refusal
from keywright.core.fields import Fields
from keywright.core.nouns import Create
from keywright.http.admin.crud import CrudSection, FormField
from keywright.http.admin.noun_pages import read_customer
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import Inputs, parse_number
from keywright.http.pages.page import page
from keywright.http.pages.render import PORTAL
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.identity.sessions import new_session_token
from keywright.licensing.activations.model import Deactivate
from keywright.maintenance.personal_data import erase_all
from keywright.maintenance.tasks import EraseCustomer
from keywright.provisioning.customers import CUSTOMER, Customer, change_note, read_note
from keywright.provisioning.portal.model import MakePortalLink
from keywright.provisioning.shops.queries import find_naming_in
from keywright.provisioning.store import CUSTOMERS

_MAX_NOTE_LENGTH = 2_000
#: The columns of a customer, besides its fields, that are restored.
_RESTORED = ("erasure_requested_at", "unsubscribed_at")


class Customers(CrudSection):
    """The customers."""

    label, path, icon = N_("Customers"), "/customers", "tag"
    group = N_("Licensing")
    noun, records = CUSTOMER, CUSTOMERS
    new_title, edit_title = N_("New customer"), N_("Edit customer %(number)s")
    created = N_("The customer was created.")
    saved = N_("Customer %(number)s was saved.")
    deleted = N_("Customer %(number)s was deleted.")
    undone = N_("Undone: the customer is as before.")
    question = N_("Delete the customer %(name)s?")
    warnings = (
        N_("Only a customer without licenses can be deleted."),
        N_("To erase the data of a customer with licenses, press Erase on the customer's page."),
    )

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """The customers, by ID."""
        return request.render("customers/list.html", shown=self.read_page(request))

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A customer's licenses, devices, mails and events."""
        return request.render("customers/show.html", **request.ask(lambda tx: read_customer(tx, request)))

    @page("/{id:number}/free", methods=("POST",), right=Right.CHANGE)
    def free(self, request: PageRequest) -> Response:
        """Free a device of one of the customer's licenses."""
        number, license_id = request.path_params["id"], parse_number(request.form.get("license", ""))
        back = f"/customers/{number}"
        command = Deactivate(
            context=request.context, license=license_id or 0, token=request.form.get("token", "")
        )
        try:
            request.change(command)
        except Refusal as refusal:
            return request.redirect(back, message_for(refusal).sentence, is_error=True)
        undo = f"/licenses/{license_id}/undo/{int(request.now.timestamp())}"
        return request.redirect(back, _("The device was freed."), undo)

    @page("/{id:number}/erase", methods=("GET", "POST"), right=Right.ADMINISTER)
    def erase(self, request: PageRequest) -> Response:
        """Erase the personal data of a customer, after confirmation."""
        one = self.get(request)
        back = f"/customers/{one.id}"
        if not request.is_post:
            sentences = [
                _(
                    "This erases the name, e-mail address and notes, and the addresses and names of the "
                    "devices."
                ),
                _("Licenses, keys and counts remain, and programs keep working. This cannot be undone."),
            ]
            title = _("Erase the data of %(name)s?", name=self.name_of(one))
            return request.confirm(title, sentences, button=_("Erase"), back=back)
        command = EraseCustomer(context=request.context, customer_id=one.id)
        erase_all(
            lambda query: request.ask(lambda tx: find_naming_in(tx, query)),
            request.change,
            command,
        )
        return request.redirect(back, _("All data that identified the customer was erased."))

    @page("/{id:number}/portal-link", methods=("POST",), right=Right.CHANGE)
    def make_portal_link(self, request: PageRequest) -> Response:
        """Create a link that signs the customer in to the portal, once."""
        customer, base = self.get(request), request.base_of_links()
        link = request.change(
            MakePortalLink(context=request.context, customer_id=customer.id, token=new_session_token())
        )
        return request.render(
            "customers/portal_link.html",
            number=customer.id,
            link=f"{base}{PORTAL}/link/{link.token}",
            expires_at=link.expires_at,
        )

    def complete(self, inputs: Inputs, values: dict[str, Any], one: Customer | None) -> None:
        """Require a name or an e-mail address; read the note of an existing customer."""
        if not inputs.errors and not (values["name"] or values["email"]):
            inputs.errors["name"] = _("A customer needs a name or an e-mail address.")
        if one is not None:
            values["note"] = inputs.read("note", _parse_note) or ""

    def shown(self, one: Customer) -> dict[str, Any]:
        """The values that the form shows, by field."""
        return super().shown(one) | {"note": read_note(one)}

    def kept(self, one: Customer) -> dict[str, Any]:
        """The values that are restored after a deletion; the e-mail address must be verified again."""
        names = (*self.noun.fields.__struct_fields__, *_RESTORED)
        return {name: getattr(one, name) for name in names}

    def to_fields(self, values: Mapping[str, Any]) -> Fields:
        """The fields of the update that stores these values; the note is stored in the metadata."""
        own = {name: value for name, value in values.items() if name != "note"}
        return super().to_fields(
            own | ({"metadata": change_note(values["note"])} if "note" in values else {})
        )

    def to_new(self, request: PageRequest, values: Mapping[str, Any]) -> Create:
        """The command that creates or restores a customer."""
        own = {name: value for name, value in values.items() if name not in _RESTORED}
        times = {name: convert(values.get(name), datetime | None) for name in _RESTORED}
        return replace(super().to_new(request, own), **times)

    def more_fields(self, request: PageRequest, one: Customer | None) -> list[FormField]:
        """The note, for an existing customer."""
        if one is None:
            return []
        note = request.form.raw("note") if request.is_post else read_note(one)
        hint = _("For your colleagues; the customer does not see it.")
        return [FormField("note", _("Note"), note, hint, rows=3)]

    def name_of(self, one: Customer) -> str:
        """The name, else the e-mail address or the ID."""
        return str(one.name or one.email or one.id)


def _parse_note(text: str) -> str:
    if len(text) > _MAX_NOTE_LENGTH:
        raise ValueError(f"must have at most {_MAX_NOTE_LENGTH:,} characters")
    return text
