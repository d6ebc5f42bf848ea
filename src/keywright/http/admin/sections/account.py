"""One's own account."""

from starlette.responses import Response

from keywright.http.admin.role_texts import ROLE_TEXTS
from keywright.http.pages.attempts import Attempts
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import hashed, is_right, new_password
from keywright.http.pages.request import PageRequest
from keywright.http.pages.site import Site
from keywright.identity import sessions
from keywright.identity.commands import ChangeUser, EndSession
from keywright.identity.model import Session
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.rights import Right

#: How often one's own password may be wrong in a minute.
_MOST_ATTEMPTS = 10


class Account(Section):
    """Who I am, where I am signed in, and my password."""

    label = "My account"
    path = "/account"
    icon = "user"
    right = Right.LOOK

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._attempts = Attempts(user=_MOST_ATTEMPTS)

    @page("")
    def show(self, request: PageRequest) -> Response:
        """What there is to know."""
        return _page(request, {})

    @page("/password", methods=("POST",))
    def change_password(self, request: PageRequest) -> Response:
        """Another password; whoever knew the old one is signed out everywhere else."""
        errors: dict[str, str] = {}
        source = {"user": str(request.user.id)}
        self._attempts.begin(source)
        if is_right(request, request.user, request.form.raw("password")):
            self._attempts.give_back(source)
        else:
            errors["password"] = "This is not your password."  # noqa: S105
        password = new_password(request.form, errors)
        if errors:
            return _page(request, errors)
        change = ChangeUser(
            context=request.context,
            user_id=request.user.id,
            password_hash=hashed(request, password),
            but_session=request.session.token_hash,
        )
        request.change(change)
        return request.redirect("/account", "Your password is changed. You are signed out everywhere else.")

    @page("/sessions/end", methods=("POST",))
    def end_others(self, request: PageRequest) -> Response:
        """Sign out everywhere else."""
        for session in _sessions(request):
            if session.token_hash != request.session.token_hash:
                request.change(EndSession(context=request.context, token_hash=session.token_hash))
        return request.redirect("/account", "You are signed out everywhere else.")


def _sessions(request: PageRequest) -> list[Session]:
    return request.ask(lambda tx: sessions.list_sessions(tx, request.user.id, request.now))


def _page(request: PageRequest, errors: dict[str, str]) -> Response:
    return request.render(
        "account.html",
        status=422 if errors else 200,
        errors=errors,
        may=ROLE_TEXTS[request.user.role],
        sessions=_sessions(request),
        mine=request.session.token_hash,
        has_factor=request.browser.signed_in is not None and request.browser.signed_in.has_factor,
        min_length=MIN_PASSWORD_LENGTH,
    )
