"""The customer's account: name and language, keys by mail, personal data."""

from typing import Any

import msgspec
from starlette.responses import Response

from keywright.core.errors import Refusal, TooMuchStored
from keywright.core.parsing import parse_name
from keywright.http.pages.languages import _
from keywright.http.portal.page import Needs, Page
from keywright.http.portal.request import PortalRequest
from keywright.maintenance.personal_data import find_customer_data
from keywright.provisioning.customers import CustomerFields, UpdateCustomer
from keywright.provisioning.portal.model import MailKeys, RequestErasure

_HERE = "/account"


def show_account(request: PortalRequest) -> Response:
    """Name, language and personal data."""
    return _render(request, request.customer.name or "")


def save_account(request: PortalRequest) -> Response:
    """Change name and language."""
    name, language = request.form.get("name", ""), request.form.get("language", "")
    changes: dict[str, Any] = {}
    try:
        changes["name"] = parse_name(name) if name else None
    except ValueError:
        return _render(request, name, has_error=True)
    if language in request.site.languages:
        changes["language"] = language
        request.browser.set_language(language)
    # Every change, and every key that is shown, is an event.
    request.take("change", str(request.customer.id))
    change = UpdateCustomer(context=request.context, id=request.customer.id, fields=CustomerFields(**changes))
    try:
        request.change(change)
    except Refusal as error:
        return request.refuse(_HERE, error)
    return request.redirect(_HERE, _("Saved."))


def mail_keys(request: PortalRequest) -> Response:
    """Mail the license keys to the customer."""
    email = request.customer.email
    if email is None:
        return request.redirect(_HERE, _("We do not have an e-mail address for you."), is_error=True)
    request.take("mail", email)
    command = MailKeys(context=request.context, email=email, language=request.language.code)
    request.change(command)
    return request.redirect(_HERE, _("Your license keys are on their way to %(email)s.", email=email))


def export(request: PortalRequest) -> Response:
    """All that is stored about the customer, as JSON."""
    number = request.customer.id
    request.take("export", str(number))
    try:
        found = request.ask(lambda tx: find_customer_data(tx, number, for_customer=True))
    except TooMuchStored as error:
        return request.refuse(_HERE, error)
    content = msgspec.json.format(msgspec.json.encode(found), indent=2)
    return request.download("my-data.json", content, "application/json")


def ask_for_erasure(request: PortalRequest) -> Response:
    """Ask whether the data are to be erased; note that."""
    if not request.is_post:
        return request.render("erase.html")
    request.take("erase", str(request.customer.id))
    request.change(RequestErasure(context=request.context, customer_id=request.customer.id))
    return request.redirect(
        _HERE, _("Your request has been passed on. You will hear from us within a month.")
    )


def withdraw_erasure(request: PortalRequest) -> Response:
    """Keep the data after all."""
    request.take("erase", str(request.customer.id))
    command = RequestErasure(context=request.context, customer_id=request.customer.id, is_withdrawn=True)
    request.change(command)
    return request.redirect(_HERE, _("Your data will be kept."))


def _render(request: PortalRequest, name: str, *, has_error: bool = False) -> Response:
    chosen = request.language.code
    status = 422 if has_error else 200
    return request.render("account.html", status=status, name=name, chosen=chosen, has_error=has_error)


_POST = ("POST",)
PAGES = (
    Page(_HERE, show_account, Needs.CUSTOMER),
    Page(f"{_HERE}/save", save_account, Needs.CUSTOMER, _POST),
    Page(f"{_HERE}/mail-keys", mail_keys, Needs.CUSTOMER, _POST),
    Page(f"{_HERE}/export", export, Needs.CUSTOMER, _POST),
    Page(f"{_HERE}/erase", ask_for_erasure, Needs.CUSTOMER, ("GET", "POST")),
    Page(f"{_HERE}/keep", withdraw_erasure, Needs.CUSTOMER, _POST),
)
