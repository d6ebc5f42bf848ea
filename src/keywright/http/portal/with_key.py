"""With a license key alone: the license's state and devices. Keys leak, so nothing here shows one whole, and
all else needs the customer's e-mail.
"""

from starlette.responses import Response

from keywright.core.errors import InvalidLicenseKey
from keywright.http.portal.devices import free_device, make_file
from keywright.http.portal.page import Needs, Page
from keywright.http.portal.request import PortalRequest
from keywright.http.portal.views import show_licenses
from keywright.licensing.licenses.store import find_licenses

_DEVICES = 100
_HERE = "/license"


def enter_key(request: PortalRequest) -> Response:
    """Ask for a license key; show its license."""
    if request.is_post:
        return _check_key(request)
    request.browser.find_license(request.site.runner)
    license = request.browser.license
    if license is None:
        return request.render("enter_key.html", is_wrong=False)
    [shown] = request.ask(lambda tx: show_licenses(tx, [license], request.now, devices=_DEVICES))
    return request.render("with_key.html", license=shown)


def free_with_key(request: PortalRequest) -> Response:
    """Free a device of the license."""
    return free_device(request, request.license, _HERE)


def make_file_with_key(request: PortalRequest) -> Response:
    """The license file for a device."""
    return make_file(request, request.license, _HERE)


def forget_key(request: PortalRequest) -> Response:
    """Let another key be typed."""
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


_POST = ("POST",)
PAGES = (
    Page(_HERE, enter_key, methods=("GET", "POST")),
    Page(f"{_HERE}/forget", forget_key, methods=_POST),
    Page(f"{_HERE}/devices/{{device:number}}/free", free_with_key, Needs.KEY, ("GET", "POST")),
    Page(f"{_HERE}/devices/{{device:number}}/file", make_file_with_key, Needs.KEY, _POST),
)
