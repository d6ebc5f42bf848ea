"""The keys that sign answers: the public one to paste into programs, and rotation."""

from starlette.responses import Response

from keywright.core.errors import UnknownSigningKey
from keywright.http.admin.signing import list_signing_keys
from keywright.http.pages.formats import N_, _
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.signing import rules
from keywright.signing.commands import RotateSigningKey, WithdrawSigningKey
from keywright.signing.explanation import lines_to_paste


class SigningKeys(Section):
    """The keys; the page of the system leads here."""

    label = N_("Signing keys")
    path = "/signing-keys"
    in_menu = False
    right = Right.ADMINISTER

    @page("")
    def show(self, request: PageRequest) -> Response:
        """The public key, the line that pins it in six languages, and every key."""
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
        """Make a new key."""
        if request.is_post:
            request.change(RotateSigningKey(context=request.context))
            return request.redirect(self.path, _("The new key signs from now on."))
        return request.confirm(
            _("Make a new signing key?"),
            [
                _("It signs from the next answer on. What older keys have signed stays good until it ends."),
                _("Programs that know an older key find the new one by themselves."),
            ],
            button=_("Make a new key"),
            back=self.path,
            is_danger=False,
        )

    @page("/{id:number}/withdraw", methods=("GET", "POST"))
    def withdraw(self, request: PageRequest) -> Response:
        """Withdraw an older key for good."""
        number = request.path_params["id"]
        kid = next((one.kid for one in list_signing_keys(request) if one.id == number), None)
        if kid is None:
            raise UnknownSigningKey(str(number))
        if request.is_post:
            request.change(WithdrawSigningKey(context=request.context, kid=kid))
            return request.redirect(self.path, _("The key is withdrawn."))
        return request.confirm(
            _("Withdraw the key %(kid)s?", kid=f"{kid[:12]}…"),
            [
                _("Programs that know only this key will refuse every answer and every license file."),
                _("Do this when the key was stolen. It cannot be undone."),
            ],
            button=_("Withdraw it"),
            back=self.path,
        )
