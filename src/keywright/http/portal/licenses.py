"""Pages about a customer's licenses and devices, and about a license whose key was entered."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.core.errors import InvalidLicenseKey, NotFound, Refusal
from keywright.core.parsing import MAX_ID
from keywright.db.transaction import ReadTransaction
from keywright.http.pages.formats import _, write_moment
from keywright.http.pages.forms import parse_number
from keywright.http.portal.downloads import show_downloads
from keywright.http.portal.page import Needs, Page
from keywright.http.portal.request import PortalRequest
from keywright.http.portal.sign_in import render_start
from keywright.http.portal.views import (
    ShownLicense,
    ShownOffer,
    device_name,
    find_own,
    require_own,
    show_leases,
    show_licenses,
    show_offer,
    show_pending,
)
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import find_by_id
from keywright.licensing.licenses.model import License, LicenseFilter, ShowKey
from keywright.licensing.licenses.store import find_licenses, find_licenses_by_id, list_licenses
from keywright.licensing.removals import RemoveByCustomer
from keywright.provisioning.licenses import RotateKey
from keywright.provisioning.ownership.store import list_offered_to
from keywright.signing.commands import MakeLicenseFile
from keywright.signing.model import LicenseFile

#: Licenses per page, devices of each of them, and devices on the page of one license.
_LICENSES, _FEW_DEVICES, _DEVICES = 10, 5, 200


def list_own(request: PortalRequest) -> Response:
    """List the customer's licenses; without a session, show the start page."""
    if request.browser.customer is None:
        return render_start(request)
    found = request.ask(lambda tx: _list(tx, request))
    offers = request.ask(lambda tx: _list_offers(tx, request))
    if found.is_one:
        return _render_one(request, found.shown[0], offers=offers, is_only=True)
    return request.render("licenses.html", licenses=found.shown, after=found.after, offers=offers)


def show_own(request: PortalRequest) -> Response:
    """Show a license with its devices."""
    [one] = request.ask(lambda tx: show_licenses(tx, [find_own(tx, request)], request.now, devices=_DEVICES))
    return _render_one(request, one)


def _render_one(
    request: PortalRequest, one: ShownLicense, *, offers: Sequence[ShownOffer] = (), is_only: bool = False
) -> Response:
    """Render the page of a license, with its leases, its open offer and its newest download."""

    def read(tx: ReadTransaction) -> dict[str, Any]:
        license = find_licenses_by_id(tx, [one.id])[one.id]
        return {
            "leases": show_leases(tx, one.id, request.now),
            "pending": show_pending(tx, license, request.now),
            "newest": show_downloads(tx, license, request, 1)[0],
        }

    return request.render("license.html", license=one, offers=offers, is_only=is_only, **request.ask(read))


def _list_offers(tx: ReadTransaction, request: PortalRequest) -> list[ShownOffer]:
    """Return the licenses offered to the customer; on further pages of the list, none."""
    if request.http.query_params:
        return []
    found = list_offered_to(tx, request.customer.id, request.now)
    return [show_offer(tx, one, request.now) for one in found[:_LICENSES]]


def free_own(request: PortalRequest) -> Response:
    """Remove a device from a license."""
    license = request.ask(lambda tx: find_own(tx, request))
    return free_device(request, license, f"/licenses/{license.id}", request.customer.id)


def make_own_file(request: PortalRequest) -> Response:
    """Make the license file for a device."""
    license = request.ask(lambda tx: find_own(tx, request))
    return make_file(request, license, f"/licenses/{license.id}")


def show_key(request: PortalRequest) -> Response:
    """Show the whole key of a license."""
    license = request.ask(lambda tx: find_own(tx, request))
    request.take("change", str(request.customer.id))
    show = ShowKey(context=request.context, license=license.id, precondition=require_own(request))
    shown = request.change(show)
    return request.render("key.html", license_id=license.id, key=shown.key, is_new=False)


def rotate_key(request: PortalRequest) -> Response:
    """Ask for confirmation (GET), or give a license a new key (POST)."""
    license = request.ask(lambda tx: find_own(tx, request))
    if not request.is_post:
        return request.render("rotate.html", license_id=license.id)
    request.site.limits.take_rotation(license.id)
    try:
        rotate = RotateKey(context=request.context, license=license.id, precondition=require_own(request))
        record = request.change(rotate)
    except Refusal as error:
        return request.refuse(f"/licenses/{license.id}", error)
    return request.render("key.html", license_id=license.id, key=record.license.key, is_new=True)


class _Own(NamedTuple):
    """A page of the customer's licenses, whether there is exactly one, and the last ID if more follow."""

    shown: list[ShownLicense]
    is_one: bool
    after: int | None


def _list(tx: ReadTransaction, request: PortalRequest) -> _Own:
    """Return the licenses after the ID in the URL."""
    after = parse_number(request.http.query_params.get("after", "")) or 0
    own = LicenseFilter(customer_id=request.customer.id)
    found = list_licenses(tx, own, after_id=after, limit=_LICENSES + 1)
    is_one = len(found) == 1 and not request.http.query_params
    devices = _DEVICES if is_one else _FEW_DEVICES
    shown = show_licenses(tx, found[:_LICENSES], request.now, devices=devices)
    return _Own(shown, is_one, found[_LICENSES - 1].id if len(found) > _LICENSES else None)


_ONE, _POST = "/licenses/{id:number}", ("POST",)
_DEVICE = f"{_ONE}/devices/{{device:number}}"
PAGES = (
    Page("", list_own),
    Page("/", list_own),
    Page(_ONE, show_own, Needs.CUSTOMER),
    Page(f"{_DEVICE}/free", free_own, Needs.CUSTOMER, ("GET", "POST")),
    Page(f"{_DEVICE}/file", make_own_file, Needs.CUSTOMER, _POST),
    Page(f"{_ONE}/key", show_key, Needs.CUSTOMER, _POST),
    Page(f"{_ONE}/new-key", rotate_key, Needs.CUSTOMER, ("GET", "POST")),
)


def free_device(
    request: PortalRequest, license: License, back: str, customer_id: int | None = None
) -> Response:
    """Ask for confirmation (GET), or remove the device in the URL (POST), as often as the terms allow."""
    if not request.is_post:
        try:
            device = _find_device(request, license)
        except NotFound as error:
            return request.refuse(back, error)
        return request.render("remove.html", name=device_name(device), until=device.runs_until, back=back)
    device_id = min(request.path_params["device"], MAX_ID)
    command = RemoveByCustomer(
        context=request.context, license=license.id, activation_id=device_id, customer_id=customer_id
    )
    try:
        device = request.change(command)
    except Refusal as error:
        return request.refuse(back, error)
    freed = _("“%(device)s” was removed. You can now activate another device.", device=device_name(device))
    if device.runs_until is not None and device.runs_until > request.now:
        until = write_moment(device.runs_until)
        freed += " " + _("Without internet, the program may still run there until %(time)s.", time=until)
    return request.redirect(back, freed)


def make_file(request: PortalRequest, license: License, back: str) -> Response:
    """Return a download of the license file for the device in the URL, valid for that device only."""
    request.take("file", str(license.id))
    try:
        device = _find_device(request, license)
        file: LicenseFile = request.change(
            MakeLicenseFile(
                context=request.context,
                license=license.id,
                token=device.token,
                alg=request.site.settings.signature_alg,
                is_recorded=True,
            )
        )
    except Refusal as error:
        return request.refuse(back, error)
    name = re.sub(r"[^A-Za-z0-9]+", "-", device.label or "").strip("-").lower()
    return request.download(f"license-{name or device.id}.txt", file.content, "text/plain")


def _find_device(request: PortalRequest, license: License) -> Activation:
    """Return the device in the URL. Raises ``NotFound`` if it has no place."""
    place = (license.id, min(request.path_params["device"], MAX_ID))
    found = request.ask(lambda tx: find_by_id(tx, [place]))
    if not found or found[0].deactivated_at is not None:
        raise NotFound(f"activation {place[1]}")
    return found[0]


_DEVICES_OF_KEY = 100
_HERE = "/license"


def enter_key(request: PortalRequest) -> Response:
    """Ask for a license key, check it (POST), or show the license whose key was entered."""
    if request.is_post:
        return _check_key(request)
    request.browser.find_license(request.site.runner)
    license = request.browser.license
    if license is None:
        return request.render("enter_key.html", is_wrong=False)
    [shown] = request.ask(lambda tx: show_licenses(tx, [license], request.now, devices=_DEVICES_OF_KEY))
    newest = request.ask(lambda tx: show_downloads(tx, license, request, 1)[0])
    return request.render("with_key.html", license=shown, newest=newest)


def free_with_key(request: PortalRequest) -> Response:
    """Remove a device from the license whose key was entered."""
    return free_device(request, request.license, _HERE)


def make_file_with_key(request: PortalRequest) -> Response:
    """Make the license file for a device of the license whose key was entered."""
    return make_file(request, request.license, _HERE)


def forget_key(request: PortalRequest) -> Response:
    """Forget the license, so that another key can be entered."""
    request.browser.forget_license()
    return request.redirect(_HERE)


def _check_key(request: PortalRequest) -> Response:
    try:
        taken = request.take("key", request.form.get("key", ""))
        key = request.read_key()
    except InvalidLicenseKey:
        return _refuse_key(request)
    license = request.ask(lambda tx: find_licenses(tx, [key]).get(key))
    if license is None:
        return _refuse_key(request)
    request.site.limits.give_back(taken)
    request.browser.ensure_token()
    request.ask(lambda tx: request.browser.set_license(tx, license))
    return request.redirect(_HERE)


def _refuse_key(request: PortalRequest) -> Response:
    return request.render("enter_key.html", status=403, is_wrong=True)


_POST_KEY = ("POST",)
PAGES_WITH_KEY = (
    Page(_HERE, enter_key, methods=("GET", "POST")),
    Page(f"{_HERE}/forget", forget_key, methods=_POST_KEY),
    Page(f"{_HERE}/devices/{{device:number}}/free", free_with_key, Needs.KEY, ("GET", "POST")),
    Page(f"{_HERE}/devices/{{device:number}}/file", make_file_with_key, Needs.KEY, _POST_KEY),
)
