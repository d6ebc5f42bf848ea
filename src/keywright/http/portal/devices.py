"""What a customer does with a device: free it, or download its license file."""

import re

from starlette.responses import Response

from keywright.core.errors import NotFound, Refusal
from keywright.core.parsing import MAX_ID
from keywright.http.pages.formats import write_moment
from keywright.http.pages.languages import _
from keywright.http.portal.request import PortalRequest
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import find_by_id
from keywright.licensing.licenses.model import License
from keywright.licensing.removals import RemoveByCustomer
from keywright.signing.commands import MakeLicenseFile
from keywright.signing.model import LicenseFile


def free_device(
    request: PortalRequest, license: License, back: str, customer_id: int | None = None
) -> Response:
    """Free the device in the address, as often as the terms allow."""
    device_id = min(request.path_params["device"], MAX_ID)
    command = RemoveByCustomer(
        context=request.context, license=license.id, activation_id=device_id, customer_id=customer_id
    )
    try:
        device: Activation = request.change(command)
    except Refusal as error:
        return request.refuse(back, error)
    freed = _("The device has been freed. You can activate another one now.")
    if device.runs_until is not None and device.runs_until > request.now:
        until = write_moment(device.runs_until)
        freed += " " + _("Without internet, the freed one may run until %(time)s.", time=until)
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
