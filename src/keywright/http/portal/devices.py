"""What a customer does with a device: remove it, or download its license file."""

import re

from starlette.responses import Response

from keywright.core.errors import NotFound, Refusal
from keywright.core.parsing import MAX_ID
from keywright.http.pages.formats import write_moment
from keywright.http.pages.languages import _
from keywright.http.portal.request import PortalRequest
from keywright.http.portal.views import device_name
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import find_by_id
from keywright.licensing.licenses.model import License
from keywright.licensing.removals import RemoveByCustomer
from keywright.signing.commands import MakeLicenseFile
from keywright.signing.model import LicenseFile


def free_device(
    request: PortalRequest, license: License, back: str, customer_id: int | None = None
) -> Response:
    """Ask whether the device in the address is to be removed; remove it, as often as the terms allow."""
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
    freed = _("“%(device)s” is removed. You can activate another device now.", device=device_name(device))
    if device.runs_until is not None and device.runs_until > request.now:
        until = write_moment(device.runs_until)
        freed += " " + _("Without internet, the program may still run there until %(time)s.", time=until)
    return request.redirect(back, freed)


def make_file(request: PortalRequest, license: License, back: str) -> Response:
    """The license file for the device in the address; for that device alone."""
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
    """The device in the address. Raises ``NotFound``."""
    place = (license.id, min(request.path_params["device"], MAX_ID))
    found = request.ask(lambda tx: find_by_id(tx, [place]))
    if not found or found[0].deactivated_at is not None:
        raise NotFound(f"activation {place[1]}")
    return found[0]
