"""The account of the user who is signed in."""

from starlette.responses import Response

from keywright.http.admin.texts import ROLE_TEXTS
from keywright.http.pages.attempts import Attempts
from keywright.http.pages.inputs import Inputs
from keywright.http.pages.languages import N_, _, speaking
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import check_password, hash_password, read_new_password
from keywright.http.pages.request import PageRequest
from keywright.http.pages.site import Site
from keywright.identity import sessions
from keywright.identity.commands import ChangeUser, EndSession
from keywright.identity.model import Right, Session
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.provisioning.customers import parse_email

#: How many wrong passwords a user may send in a minute.
_MAX_ATTEMPTS = 10


class Account(Section):
    """The user's name, sessions and password."""

    label = N_("My account")
    path = "/account"
    group = N_("Settings")
    icon = "user"
    right = Right.LOOK

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._attempts = Attempts(user=_MAX_ATTEMPTS)

    @page("")
    def show(self, request: PageRequest) -> Response:
        """The account."""
        return _render(request, {})

    @page("/password", methods=("POST",))
    def change_password(self, request: PageRequest) -> Response:
        """Change the password, and end every other session."""
        errors: dict[str, str] = {}
        source = {"user": str(request.user.id)}
        self._attempts.begin(source)
        if check_password(request, request.user, request.form.raw("password")):
            self._attempts.undo(source)
        else:
            errors["password"] = _("This is not your password.")
        password = read_new_password(request.form, errors)
        if errors:
            return _render(request, errors)
        change = ChangeUser(
            context=request.context,
            user_id=request.user.id,
            password_hash=hash_password(request, password),
            but_session=request.session.token_hash,
        )
        request.change(change)
        return request.redirect(
            "/account", _("Your password is changed. You are signed out everywhere else.")
        )

    @page("/email", methods=("POST",))
    def change_email(self, request: PageRequest) -> Response:
        """Change the address that notices and test mails go to; nothing is none."""
        inputs = Inputs(request.form)
        email = inputs.read("email", parse_email)
        if inputs.errors:
            return _render(request, inputs.errors)
        request.change(ChangeUser(context=request.context, user_id=request.user.id, email=email or ""))
        return request.redirect("/account", _("Your e-mail address is saved."))

    @page("/language", methods=("POST",))
    def change_language(self, request: PageRequest) -> Response:
        """Change the language of the pages; nothing is the browser's."""
        chosen, languages = request.form.get("language", ""), self.site.languages
        if chosen and chosen not in languages:
            return _render(request, {"language": _("Choose one of these.")})
        request.change(ChangeUser(context=request.context, user_id=request.user.id, language=chosen))
        with speaking(languages.choose(chosen, request.accepted_languages)):
            return request.redirect("/account", _("Your language is saved."))

    @page("/sessions/end", methods=("POST",))
    def end_other_sessions(self, request: PageRequest) -> Response:
        """End every other session."""
        for session in _list_sessions(request):
            if session.token_hash != request.session.token_hash:
                request.change(EndSession(context=request.context, token_hash=session.token_hash))
        return request.redirect("/account", _("You are signed out everywhere else."))


def _list_sessions(request: PageRequest) -> list[Session]:
    return request.ask(lambda tx: sessions.list_sessions(tx, request.user.id, request.now))


def _render(request: PageRequest, errors: dict[str, str]) -> Response:
    return request.render(
        "account.html",
        errors=errors,
        languages=[
            ("", _("As the browser asks for")),
            *((one.code, one.name) for one in request.site.languages),
        ],
        role_text=ROLE_TEXTS[request.user.role],
        sessions=_list_sessions(request),
        current_session=request.session.token_hash,
        has_factor=request.browser.signed_in is not None and request.browser.signed_in.has_factor,
        min_length=MIN_PASSWORD_LENGTH,
    )
