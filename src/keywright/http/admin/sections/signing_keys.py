"""The keys that sign answers: public keys for programs, rotation, and license files for all licenses."""

from functools import partial

from starlette.responses import Response

from keywright.core.errors import UnknownSigningKey
from keywright.core.parsing import parse_last_day
from keywright.http.admin.event_views import reader_zone
from keywright.http.admin.name_suggestions import number_parser, suggest_names
from keywright.http.admin.site import list_signing_keys
from keywright.http.pages.formats import N_, _, ngettext
from keywright.http.pages.forms import Inputs
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.jobs.mailings_store import preview
from keywright.jobs.orders import MakeFiles, start_command
from keywright.provisioning.products import NameKind
from keywright.search.filters import Search
from keywright.signing import rules
from keywright.signing.commands import RotateSigningKey, WithdrawSigningKey
from keywright.signing.explanation import lines_to_paste


class SigningKeys(Section):
    """The signing keys; the system page links to them."""

    label = N_("Signing keys")
    path = "/signing-keys"
    in_menu = False
    right = Right.ADMINISTER

    @page("")
    def show(self, request: PageRequest) -> Response:
        """The public key, the lines that pin it in programs of several languages, and all keys."""
        keys = list_signing_keys(request)
        return request.render(
            "signing_keys/show.html",
            newest=keys[0],
            issuer=rules.issuer_of(keys[-1].kid),
            keys=keys,
            published=rules.published(keys, request.now),
            lines=lines_to_paste([keys[0].public_key]),
        )

    @page("/rotate", methods=("GET", "POST"))
    def rotate(self, request: PageRequest) -> Response:
        """Create a new key, which signs from now on."""
        if request.is_post:
            request.change(RotateSigningKey(context=request.context))
            return request.redirect(self.path, _("The new key signs from now on."))
        return request.confirm(
            _("Make a new signing key?"),
            [
                _(
                    "The new key signs all answers from now on. What older keys have signed stays valid "
                    "until it expires."
                ),
                _("Programs that know an older key find the new one automatically."),
            ],
            button=_("Make a new key"),
            back=self.path,
            is_danger=False,
        )

    @page("/license-files", methods=("GET", "POST"))
    def make_files(self, request: PageRequest) -> Response:
        """Make license files for all licenses: choose, confirm, and start the job."""
        inputs, zone = Inputs(request.form), reader_zone(request)
        if request.is_post:
            product_id = inputs.read("product_id", number_parser(request, NameKind.PRODUCT))
            ends_at = inputs.read("ends_at", partial(parse_last_day, zone=zone))
            if ends_at is not None and ends_at <= request.now:
                inputs.errors["ends_at"] = _("This day is in the past.")
            if not inputs.errors:
                order = MakeFiles(
                    alg=request.site.settings.signature_alg,
                    ends_at=ends_at,
                    is_mailed=request.form.get("mail", "") != "no",
                    search=Search(product_id=product_id),
                )
                return _start_files(request, order)
        return request.render(
            "signing_keys/files.html",
            errors=inputs.errors,
            zone=zone,
            suggestions=request.ask(suggest_names),
        )

    @page("/{id:number}/withdraw", methods=("GET", "POST"))
    def withdraw(self, request: PageRequest) -> Response:
        """Withdraw an older key permanently."""
        number = request.path_params["id"]
        kid = next((one.kid for one in list_signing_keys(request) if one.id == number), None)
        if kid is None:
            raise UnknownSigningKey(str(number))
        if request.is_post:
            request.change(WithdrawSigningKey(context=request.context, kid=kid))
            return request.redirect(self.path, _("The key was withdrawn."))
        return request.confirm(
            _("Withdraw the key %(kid)s?", kid=f"{kid[:12]}…"),
            [
                _("Programs that know only this key will refuse every answer and every license file."),
                _("Do this when the key was stolen. It cannot be undone."),
            ],
            button=_("Withdraw it"),
            back=self.path,
        )


def _start_files(request: PageRequest, order: MakeFiles) -> Response:
    """Ask for confirmation; start the job if the form has it."""
    product_id = order.search.product_id
    found = request.ask(lambda tx: preview(tx, product_id, request.now))
    if request.form.get("is_sure", "") == "yes":
        command = start_command(order, total=found.total, context=request.context)
        return change_once(request, command, lambda job: Redirect(f"/jobs/{job.id}"))
    sentences = [
        ngettext("%(num)s license is in force.", "%(num)s licenses are in force.", found.licenses),
        ngettext("%(num)s device holds a place.", "%(num)s devices hold a place.", found.devices),
        ngettext(
            "%(num)s customer has an e-mail address.",
            "%(num)s customers have an e-mail address.",
            found.customers_with_address,
        ),
        _("Licenses whose terms allow no license file get none; the job counts them."),
        _("The files cannot be revoked: they stay valid even if you disable their license later."),
    ]
    if found.without_customer:
        sentences.insert(3, _("Licenses without a customer: %(num)s.", num=found.without_customer))
    names = ("product_id", "ends_at", "mail")
    return request.confirm(
        _("Make and mail the license files?") if order.is_mailed else _("Make the license files?"),
        sentences,
        button=_("Make and mail them") if order.is_mailed else _("Make them"),
        back="/signing-keys/license-files",
        hidden=[("is_sure", "yes"), *((name, request.form.get(name, "")) for name in names)],
    )
