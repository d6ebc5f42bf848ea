"""The signed-in user's account and second factor."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from keywright.http.admin.texts import ROLE_TEXTS, WRONG_CODE, wrong_code_message
from keywright.http.pages.formats import N_, _, speaking
from keywright.http.pages.forms import Inputs
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import Attempts, check_password, hash_password, read_new_password
from keywright.http.pages.request import PageRequest
from keywright.http.pages.site import Site
from keywright.identity import second_factors, sessions, store
from keywright.identity.model import (
    ChangeUser,
    DisableSecondFactor,
    EnableSecondFactor,
    EndSession,
    RenewRecoveryCodes,
    Right,
    Session,
)
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.provisioning.customers import parse_email

#: The most wrong passwords of a user per minute.
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
        password = read_new_password(request.form, request.user.name, errors)
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
            "/account", _("Your password was changed. You are signed out everywhere else.")
        )

    @page("/email", methods=("POST",))
    def change_email(self, request: PageRequest) -> Response:
        """Change the address for notices and test mails; an empty field removes it."""
        inputs = Inputs(request.form)
        email = inputs.read("email", parse_email)
        if inputs.errors:
            return _render(request, inputs.errors)
        request.change(ChangeUser(context=request.context, user_id=request.user.id, email=email or ""))
        return request.redirect("/account", _("Your e-mail address was saved."))

    @page("/language", methods=("POST",))
    def change_language(self, request: PageRequest) -> Response:
        """Change the language of the pages; an empty field means the browser's."""
        chosen, languages = request.form.get("language", ""), self.site.languages
        if chosen and chosen not in languages:
            return _render(request, {"language": _("Choose one of these.")})
        request.change(ChangeUser(context=request.context, user_id=request.user.id, language=chosen))
        with speaking(languages.choose(chosen, request.accepted_languages)):
            return request.redirect("/account", _("Your language was saved."))

    @page("/sessions/end", methods=("POST",))
    def end_other_sessions(self, request: PageRequest) -> Response:
        """End every other session."""
        for session in _list_sessions(request):
            if session.token_hash != request.session.token_hash:
                request.change(EndSession(context=request.context, token_hash=session.token_hash))
        return request.redirect("/account", _("You are signed out everywhere else."))


def _list_sessions(request: PageRequest) -> list[Session]:
    return request.ask(
        lambda tx: sessions.list_sessions(tx, request.user.id, request.now, request.browser.idle)
    )


def _render(request: PageRequest, errors: dict[str, str]) -> Response:
    return request.render(
        "account.html",
        errors=errors,
        languages=[
            ("", _("The browser's language")),
            *((one.code, one.name) for one in request.site.languages),
        ],
        role_text=ROLE_TEXTS[request.user.role],
        sessions=_list_sessions(request),
        current_session=request.session.token_hash,
        has_factor=request.browser.signed_in is not None and request.browser.signed_in.has_factor,
        min_length=MIN_PASSWORD_LENGTH,
    )


#: The most wrong passwords and codes of a user per minute.
_MAX_CODES = 10
_PATH = "/account/second-factor"


class SecondFactors(Section):
    """The signed-in user's second factor."""

    label = N_("My second factor")
    path = _PATH
    in_menu = False
    right = Right.LOOK
    is_for_enrolling = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._attempts = Attempts(user=_MAX_CODES)

    @page("")
    def show(self, request: PageRequest) -> Response:
        """The second factor, or how to set it up."""
        return _render_second_factor(request)

    @page("/enable", methods=("POST",))
    def enable(self, request: PageRequest) -> Response:
        """Turn on the second factor, if the app's code is correct."""
        secret = request.form.get("secret", "")
        if _has_factor(request) or not second_factors.is_secret(secret):
            return request.redirect(_PATH)
        codes = second_factors.new_recovery_codes()
        command = EnableSecondFactor(
            **self._begin_change(request),
            secret=secret,
            code_hashes=_hash_codes(codes),
            **_session_fields(request, token := sessions.new_session_token()),
        )
        if not request.change(command):
            return _render_second_factor(request, {"code": _(WRONG_CODE)}, secret)
        self._end_change(request)
        _replace_token(request, token)
        return _render_codes(request, codes, _("Your second factor is set up"))

    @page("/codes", methods=("POST",))
    def renew_codes(self, request: PageRequest) -> Response:
        """Replace the recovery codes."""
        codes = second_factors.new_recovery_codes()
        command = RenewRecoveryCodes(**self._begin_change(request), code_hashes=_hash_codes(codes))
        if not request.change(command):
            return _render_second_factor(
                request, {"renewing_code": wrong_code_message(request, request.user)}
            )
        self._end_change(request)
        return _render_codes(request, codes, _("Your new recovery codes"))

    @page("/disable", methods=("POST",))
    def disable(self, request: PageRequest) -> Response:
        """Turn off the second factor."""
        fields = self._begin_change(request)
        if not check_password(request, request.user, request.form.raw("password")):
            return _render_second_factor(request, {"password": _("This is not your password.")})
        token = sessions.new_session_token()
        if not request.change(DisableSecondFactor(**fields, **_session_fields(request, token))):
            return _render_second_factor(
                request, {"disabling_code": wrong_code_message(request, request.user)}
            )
        self._end_change(request)
        _replace_token(request, token)
        return request.redirect(
            "/account", _("Your second factor was turned off. You are signed out everywhere else.")
        )

    def _begin_change(self, request: PageRequest) -> dict[str, Any]:
        """Count an attempt, and return the fields that every command here has. Raises ``RateLimited``."""
        self._attempts.begin({"user": str(request.user.id)})
        return {
            "context": request.context,
            "user_id": request.user.id,
            "code": request.form.get("code", ""),
        }

    def _end_change(self, request: PageRequest) -> None:
        """Take back the counted attempt, because it succeeded."""
        self._attempts.undo({"user": str(request.user.id)})


def redirect_to_enrollment(request: PageRequest) -> Response:
    """Redirect a user who must have a second factor to the page that sets it up."""
    if request.is_from_script:
        return request.text(_("Set up your second factor first."), status=403)
    return request.redirect(_PATH)


def _has_factor(request: PageRequest) -> bool:
    return request.ask(lambda tx: store.has_factor(tx, request.user.id))


def _hash_codes(codes: list[str]) -> tuple[bytes, ...]:
    return tuple(map(second_factors.hash_recovery_code, codes))


def _session_fields(request: PageRequest, token: str) -> dict[str, Any]:
    """The fields of a command that ends all sessions of the user but continues this one with a new token."""
    return {"session": request.session.token_hash, "new_session": sessions.hash_session_token(token)}


def _replace_token(request: PageRequest, token: str) -> None:
    request.browser.set_token(token)
    request.browser.find_user(request.site.runner)


def _render_codes(request: PageRequest, codes: list[str], title: str) -> Response:
    # Only this response contains the codes: no redirect, cookie or log does.
    return request.render("second_factor/codes.html", title=title, codes=codes)


def _render_second_factor(request: PageRequest, errors: Mapping[str, str] = {}, secret: str = "") -> Response:
    user = request.user
    factor = request.ask(lambda tx: store.find_factor(tx, user.id))
    if factor is not None:
        left = request.ask(lambda tx: store.count_codes(tx, user.id))
        return request.render("second_factor/show.html", factor=factor, left=left, errors=errors)
    secret = secret or second_factors.new_secret()
    uri = second_factors.provisioning_uri(secret, user.name, _issuer(request))
    return request.render(
        "second_factor/enable.html",
        secret=secret,
        uri=uri,
        picture=_draw_qr_code(uri),
        errors=errors,
        is_required=request.browser.must_enroll,
    )


def _issuer(request: PageRequest) -> str:
    """The name of this installation in the app."""
    return f"Keywright {request.http.url.hostname or ''}".strip()


def _draw_qr_code(text: str) -> Markup:
    """A QR code, dark on light in every theme: cameras need that."""
    import segno

    svg = segno.make(text, error="m", micro=False).svg_inline(
        border=4, dark="#000", light="#fff", svgclass=None, lineclass=None, omitsize=True
    )
    return Markup(svg)  # noqa: S704
