"""License files for machines without a network."""

from starlette.responses import Response

from keywright.core.errors import Refusal
from keywright.http.admin.sections.licenses.forms import get_license
from keywright.http.pages.error_messages import explain, message_for
from keywright.http.pages.formats import _
from keywright.http.pages.forms import parse_positive
from keywright.http.pages.page import page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.records import list_some_active
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import allows_files, terms_of
from keywright.licensing.terms.model import DeviceRule
from keywright.signing.commands import MakeLicenseFile
from keywright.signing.model import LicenseFile

#: The most devices to choose from.
_MAX_DEVICES = 200


class Files:
    """The page that makes a license file."""

    @page("/{id:number}/file", methods=("GET", "POST"), right=Right.CHANGE)
    def make_file(self, request: PageRequest) -> Response:
        """Make a license file for one device, or for every device."""
        license = get_license(request)
        errors: dict[str, str] = {}
        if request.is_post:
            try:
                return _download(request, license)
            except Refusal as refusal:
                errors["token"] = message_for(refusal).sentence
            except ValueError as reason:
                errors["days"] = explain(reason)
        found = request.ask(lambda tx: list_some_active(tx, [license], _MAX_DEVICES))
        terms = terms_of(license)
        devices = [(one.token, _name(one)) for one in found.get(license.id, ())]
        if terms.device is not DeviceRule.REQUIRED:
            devices.append(("", _("every device")))
        return request.render(
            "licenses/file.html",
            errors=errors,
            license=license,
            terms=terms,
            has_files=allows_files(terms),
            devices=devices,
        )


def _download(request: PageRequest, license: License) -> Response:
    days = request.form.get("days", "")
    made: LicenseFile = request.change(
        MakeLicenseFile(
            context=request.context,
            license=license.id,
            token=request.form.get("token", "") or None,
            alg=request.site.settings.signature_alg,
            days=parse_positive(days) if days else None,
            is_recorded=True,
        )
    )
    name = f"license-{license.id}.txt"
    length = len(made.content)
    return request.download(name, [made.content], media_type="text/plain; charset=utf-8", length=length)


def _name(one: Activation) -> str:
    return one.label or one.fingerprint or one.token[:8]
