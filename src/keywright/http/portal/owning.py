"""Pages on which customers add a license by its key, offer or accept a license, and end leases."""

import re

from starlette.responses import Response

from keywright.core.errors import InvalidLicenseKey, NoSuchAddress, NotClaimable, NotFound, Refusal
from keywright.core.parsing import MAX_ID
from keywright.http.pages.formats import _
from keywright.http.portal.page import Needs, Page
from keywright.http.portal.request import PortalRequest
from keywright.http.portal.views import find_own, show_offer
from keywright.licensing.leases.model import EndLeaseByCustomer
from keywright.licensing.licenses.model import License
from keywright.provisioning.customers import parse_email
from keywright.provisioning.ownership.model import (
    AcceptTransfer,
    CancelTransfer,
    ClaimLicense,
    OfferLicense,
    TransferCommand,
)
from keywright.provisioning.ownership.store import list_offered_to

_ADD = "/add"
_LEASE_ID = re.compile("[0-9a-f]{32}")


def add_license(request: PortalRequest) -> Response:
    """Ask for a license key (GET), or give its license to the customer if it can be claimed (POST)."""
    if not request.is_post:
        return request.render("add_license.html", is_wrong=False)
    taken = request.take("key", request.form.get("key", ""))
    try:
        key = request.read_key()
        command = ClaimLicense(context=request.context, license=key, customer_id=request.customer.id)
        license: License = request.change(command)
    except (InvalidLicenseKey, NotClaimable):
        return request.render("add_license.html", status=403, is_wrong=True)
    request.site.limits.give_back(taken)
    return request.redirect(f"/licenses/{license.id}", _("The license is yours now."))


def hand_on(request: PortalRequest) -> Response:
    """Ask for the new owner's e-mail address (GET), or offer the license (POST)."""
    license = request.ask(lambda tx: find_own(tx, request))
    if not request.is_post:
        return request.render("hand_on.html", license_id=license.id, has_error=False, email="")
    text, own = request.form.get("email", ""), request.customer.email or ""
    try:
        email = parse_email(text)
    except ValueError:
        email = ""
    if not email or email.lower() == own.lower():
        return request.render("hand_on.html", status=422, license_id=license.id, has_error=True, email=text)
    request.take("mail", email)
    command = OfferLicense(
        context=request.context,
        license=license.id,
        email=email,
        owner_id=request.customer.id,
        language=request.language.code,
    )
    here = f"/licenses/{license.id}"
    try:
        request.change(command)
    except Refusal as error:
        return request.refuse(here, error)
    return request.redirect(
        here, _("The license was offered to %(email)s, who will get a mail.", email=email)
    )


def cancel_offer(request: PortalRequest) -> Response:
    """Cancel an offer."""
    license = request.ask(lambda tx: find_own(tx, request))
    here = f"/licenses/{license.id}"
    return _decide(request, CancelTransfer, here, _("The offer was canceled. The license stays yours."))


def show_offered(request: PortalRequest) -> Response:
    """Show a license that is offered to the customer."""
    number = request.path_params["transfer"]
    offered = request.ask(
        lambda tx: [
            show_offer(tx, one, request.now)
            for one in list_offered_to(tx, request.customer.id, request.now)
            if one.id == number
        ]
    )
    if not offered:
        return request.redirect("", _("This offer has ended."), is_error=True)
    is_proved = request.customer.email_verified_at is not None
    return request.render("offer.html", offer=offered[0], is_proved=is_proved)


def accept_offer(request: PortalRequest) -> Response:
    """Accept an offered license."""
    here = f"/licenses/{request.path_params['id']}"
    return _decide(request, AcceptTransfer, here, _("The license is yours now. It has a new key."))


def decline_offer(request: PortalRequest) -> Response:
    """Decline an offer."""
    return _decide(request, CancelTransfer, "", _("You have declined the offer."))


def end_lease(request: PortalRequest) -> Response:
    """End a lease of the license."""
    license = request.ask(lambda tx: find_own(tx, request))
    here = f"/licenses/{license.id}"
    if not _LEASE_ID.fullmatch(request.path_params["lease"]):
        raise NoSuchAddress
    command = EndLeaseByCustomer(
        context=request.context,
        license=license.id,
        lease_id=request.path_params["lease"],
        customer_id=request.customer.id,
    )
    try:
        request.change(command)
    except Refusal as error:
        return request.refuse(here, error)
    return request.redirect(here, _("The use was ended. Somebody else can take the place now."))


def _decide(request: PortalRequest, kind: type[TransferCommand], then: str, message: str) -> Response:
    command = kind(
        context=request.context,
        license=min(request.path_params["id"], MAX_ID),
        transfer_id=min(request.path_params["transfer"], MAX_ID),
        customer_id=request.customer.id,
    )
    request.take("change", str(request.customer.id))
    try:
        request.change(command)
    except NotFound:
        return request.redirect("", _("This offer has ended."), is_error=True)
    except Refusal as error:
        return request.refuse("", error)
    return request.redirect(then, message)


_ONE, _POST, _BOTH = "/licenses/{id:number}", ("POST",), ("GET", "POST")
_OFFER = "/offers/{id:number}/{transfer:number}"
PAGES = (
    Page(_ADD, add_license, Needs.CUSTOMER, _BOTH),
    Page(f"{_ONE}/hand-on", hand_on, Needs.CUSTOMER, _BOTH),
    Page(f"{_ONE}/offers/{{transfer:number}}/cancel", cancel_offer, Needs.CUSTOMER, _POST),
    Page(f"{_ONE}/leases/{{lease}}/end", end_lease, Needs.CUSTOMER, _POST),
    Page(_OFFER, show_offered, Needs.CUSTOMER),
    Page(f"{_OFFER}/accept", accept_offer, Needs.CUSTOMER, _POST),
    Page(f"{_OFFER}/decline", decline_offer, Needs.CUSTOMER, _POST),
)
