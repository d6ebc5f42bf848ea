"""Customers: who bought licenses."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import asdict
from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import AlreadyExists, NoSuchAddress, Refusal
from keywright.core.paging import ItemPage, Paging
from keywright.db import ReadTransaction
from keywright.http.admin.customer_page import read_customer
from keywright.http.admin.paging import read_page
from keywright.http.admin.undo_forms import Past, read_past, refuse_undo, say_whether_undone, undo_form
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.inputs import Inputs, parse_number, require_id
from keywright.http.pages.languages import N_, _
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.http.pages.urls import PORTAL
from keywright.identity.rights import Right
from keywright.identity.sessions import new_session_token
from keywright.licensing.activations.commands import Deactivate
from keywright.provisioning.customers import store as customer_store
from keywright.provisioning.customers.commands import (
    CreateCustomer,
    DeleteCustomer,
    ListCustomers,
    UpdateCustomer,
)
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.rules import change_note, parse_email, read_note
from keywright.provisioning.portal.commands import MakePortalLink

_FIELDS = ("name", "email", "external_id")
_MAX_NOTE_LENGTH = 2_000


class _Deleted(msgspec.Struct, frozen=True):
    """The fields of a deleted customer that Undo restores; the address has to be verified again."""

    name: str | None
    email: str | None
    metadata: str | None
    language: str | None
    external_id: str | None
    erasure_requested_at: datetime | None
    unsubscribed_at: datetime | None


class Customers(Section):
    """The customers. Every user may see them; users who may change licenses may change them."""

    label = N_("Customers")
    path = "/customers"
    icon = "tag"
    right = Right.LOOK

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """The customers, by their numbers."""
        return request.render("customers/list.html", shown=read_page(request, _list))

    @page("/new", methods=("GET", "POST"), right=Right.CHANGE)
    def create(self, request: PageRequest) -> Response:
        """Create a customer."""
        inputs = Inputs(request.form)
        if request.is_post:
            number = inputs.read("number", parsing.parse_integer)
            values = _read_values(inputs)
            if not inputs.errors:
                new = CreateCustomer(context=request.context, id=number, **values)
                return _submit(request, new, _("The customer is created."), inputs, None)
        return _render_form(request, inputs, None)

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A customer's licenses and devices, and what happened to them."""
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
        return request.redirect(back, _("The device is free."), undo)

    @page("/{id:number}/edit", methods=("GET", "POST"), right=Right.CHANGE)
    def edit(self, request: PageRequest) -> Response:
        """Change a customer."""
        customer, inputs = _get(request), Inputs(request.form)
        if request.is_post:
            values = _read_values(inputs)
            note = inputs.read("note", _parse_note)
            if not inputs.errors:
                after = values | {"note": note or ""}
                change = UpdateCustomer(
                    context=request.context, customer_id=customer.id, changes=_to_changes(after)
                )
                message = _("The customer %(number)s is saved.", number=customer.id)
                undo = undo_form(request, f"/customers/{customer.id}", _fields_of(customer), after)
                return _submit(request, change, message, inputs, customer, undo=undo)
        return _render_form(request, inputs, customer)

    @page("/{id:number}/portal-link", methods=("POST",), right=Right.CHANGE)
    def make_portal_link(self, request: PageRequest) -> Response:
        """Make a link that signs the customer in to the portal, once."""
        customer, base = _get(request), request.base_of_links()
        link = request.change(
            MakePortalLink(context=request.context, customer_id=customer.id, token=new_session_token())
        )
        return request.render(
            "customers/portal_link.html",
            number=customer.id,
            link=f"{base}{PORTAL}/link/{link.token}",
            expires_at=link.expires_at,
        )

    @page("/{id:number}/delete", methods=("GET", "POST"), right=Right.CHANGE)
    def delete(self, request: PageRequest) -> Response:
        """Delete a customer who has no licenses."""
        customer = _get(request)
        kept = _Deleted(**{name: getattr(customer, name) for name in _Deleted.__struct_fields__})
        undo = undo_form(request, f"/customers/{customer.id}", asdict(kept), None)
        if request.is_post:
            request.change(DeleteCustomer(context=request.context, customer_id=customer.id))
            return request.redirect(
                "/customers", _("The customer %(number)s is deleted.", number=customer.id), undo
            )
        return request.confirm(
            _("Delete the customer %(name)s?", name=customer.name or customer.email or customer.id),
            [
                _("Only a customer without licenses can be deleted."),
                _(
                    "To erase the data of one who has some, use keywright customer erase %(number)s.",
                    number=customer.id,
                ),
                say_whether_undone(undo),
            ],
            button=_("Delete"),
            back="/customers",
        )

    @page("/{id:number}/undo", methods=("POST",), right=Right.CHANGE)
    def undo(self, request: PageRequest) -> Response:
        """Undo the change of a customer, or bring back one who was deleted a moment ago."""
        number = require_id(request.path_params["id"])
        back = f"/customers/{number}"
        try:
            request.change(_to_undo(request, number, read_past(request, back)))
        except Refusal as refusal:
            return refuse_undo(request, back, refusal)
        return request.redirect(back, _("Undone: the customer is as before."))


def _list(tx: ReadTransaction, paging: Paging) -> ItemPage[Customer]:
    return customer_store.list_customers(tx, ListCustomers(paging=paging))


def _get(request: PageRequest) -> Customer:
    """The customer in the address. Raises ``NoSuchAddress``."""
    number = require_id(request.path_params["id"])
    customer = request.ask(lambda tx: customer_store.find_customer(tx, number))
    if customer is None:
        raise NoSuchAddress
    return customer


def _fields_of(customer: Customer) -> dict[str, Any]:
    """The values of the form."""
    return {name: getattr(customer, name) for name in _FIELDS} | {"note": read_note(customer)}


def _to_changes(fields: dict[str, Any]) -> dict[str, Any]:
    """The changes of a customer that give it these values of the form."""
    changes = {name: value for name, value in fields.items() if name != "note"}
    return changes | ({"metadata": change_note(fields["note"])} if "note" in fields else {})


def _to_undo(request: PageRequest, number: int, past: Past) -> CreateCustomer | UpdateCustomer:
    if past.is_deletion:
        kept = msgspec.convert(past.fields, _Deleted)
        return CreateCustomer(context=request.context, id=number, **asdict(kept))
    return UpdateCustomer(
        context=request.context,
        customer_id=number,
        changes=_to_changes(past.fields),
        precondition=lambda customer: past.require_unchanged(_fields_of(customer)),
    )


def _read_values(inputs: Inputs) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": inputs.read("name", parsing.parse_name),
        "email": inputs.read("email", parse_email),
    }
    if not inputs.errors and not any(values.values()):
        inputs.errors["name"] = _("A customer needs a name or an e-mail address.")
    return values | {"external_id": inputs.read("external_id", parsing.parse_external_id)}


def _parse_note(text: str) -> str:
    if len(text) > _MAX_NOTE_LENGTH:
        raise ValueError(f"must have at most {_MAX_NOTE_LENGTH:,} characters")
    return text


def _submit(
    request: PageRequest,
    command: CreateCustomer | UpdateCustomer,
    message: str,
    inputs: Inputs,
    customer: Customer | None,
    *,
    undo: str = "",
) -> Response:
    """Do the command; where it collides with another customer, show the form again."""
    try:
        return change_once(request, command, lambda one: Redirect(f"/customers/{one.id}", message, undo))
    except AlreadyExists as error:
        inputs.errors["number" if error.field == "id" else error.field] = message_for(error).sentence
    return _render_form(request, inputs, customer)


def _render_form(request: PageRequest, inputs: Inputs, customer: Customer | None) -> Response:
    values: dict[str, Any] = {name: getattr(customer, name, None) for name in _FIELDS}
    values["note"] = "" if customer is None else read_note(customer)
    if request.is_post:
        values = {name: request.form.raw(name) for name in (*_FIELDS, "note")}
    return request.render("customers/edit.html", customer=customer, values=values, errors=inputs.errors)
