"""The page of an invitation: who has its link sets the password."""

from starlette.responses import Response

from keywright.core.command import Context
from keywright.core.errors import InvitationOver
from keywright.http.pages.languages import N_, _
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import hash_password, read_new_password
from keywright.http.pages.request import PageRequest
from keywright.http.pages.rights import PUBLIC
from keywright.identity import users
from keywright.identity.commands import AcceptInvitation
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.sessions import hash_session_token


class Invitation(Section):
    """The page for those who are invited."""

    label = N_("Invitation")
    path = "/invitation"
    in_menu = False

    @page("", methods=("GET", "POST"), right=PUBLIC)
    def accept(self, request: PageRequest) -> Response:
        """Set the password of the user whom the token invites."""
        token = request.form.get("token", request.query.get("token", ""))
        user = request.ask(lambda tx: users.find_invited(tx, token, request.now))
        if user is None:
            raise InvitationOver
        errors: dict[str, str] = {}
        if request.is_post:
            password = read_new_password(request.form, errors)
            if not errors:
                context = Context(request.now, request.browser.origin)
                command = AcceptInvitation(
                    context=context,
                    token_hash=hash_session_token(token),
                    password_hash=hash_password(request, password),
                )
                request.change(command)
                return request.redirect("/sign-in", _("The password is set. Sign in with it."))
        request.browser.ensure_token()
        return request.render(
            "invitation.html", token=token, invited=user, errors=errors, min_length=MIN_PASSWORD_LENGTH
        )
