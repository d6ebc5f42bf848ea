"""One's own second factor: setting it up with an app, recovery codes, and turning it off."""

from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from keywright.http.admin.codes import WRONG_CODE, wrong_code_message
from keywright.http.pages.attempts import Attempts
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import is_right
from keywright.http.pages.request import PageRequest
from keywright.http.pages.site import Site
from keywright.identity import second_factors, sessions
from keywright.identity.commands import DisableSecondFactor, EnableSecondFactor, RenewRecoveryCodes
from keywright.identity.rights import Right

#: How often a user's own password or code may be wrong in a minute.
_MOST_ATTEMPTS = 10
_PATH = "/account/second-factor"


class SecondFactors(Section):
    """The second factor of the user who is signed in."""

    label = "My second factor"
    path = _PATH
    in_menu = False
    right = Right.LOOK
    is_for_enrolling = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._attempts = Attempts(user=_MOST_ATTEMPTS)

    @page("")
    def show(self, request: PageRequest) -> Response:
        """Its state, and what can be done."""
        return _page(request)

    @page("/enable", methods=("POST",))
    def enable(self, request: PageRequest) -> Response:
        """Begin to ask for codes, once the app shows the right one."""
        secret = request.form.get("secret", "")
        if _has_factor(request) or not second_factors.is_secret(secret):
            return request.redirect(_PATH)
        codes = second_factors.new_recovery_codes()
        command = EnableSecondFactor(
            **self._change(request),
            secret=secret,
            code_hashes=_hashes(codes),
            **_new_session(request, token := sessions.new_session_token()),
        )
        if not request.change(command):
            return _page(request, {"code": WRONG_CODE}, secret)
        self._is_right(request)
        _go_on(request, token)
        return _codes_page(request, codes, "Your second factor is set up")

    @page("/codes", methods=("POST",))
    def renew_codes(self, request: PageRequest) -> Response:
        """Other recovery codes; those there were are good no more."""
        codes = second_factors.new_recovery_codes()
        if not request.change(RenewRecoveryCodes(**self._change(request), code_hashes=_hashes(codes))):
            return _page(request, {"renewing_code": wrong_code_message(request, request.user)})
        self._is_right(request)
        return _codes_page(request, codes, "Your new recovery codes")

    @page("/disable", methods=("POST",))
    def disable(self, request: PageRequest) -> Response:
        """Ask for no more codes."""
        change = self._change(request)
        if not is_right(request, request.user, request.form.raw("password")):
            return _page(request, {"password": "This is not your password."})
        token = sessions.new_session_token()
        if not request.change(DisableSecondFactor(**change, **_new_session(request, token))):
            return _page(request, {"disabling_code": wrong_code_message(request, request.user)})
        self._is_right(request)
        _go_on(request, token)
        return request.redirect(
            "/account", "Your second factor is turned off. You are signed out everywhere else."
        )

    def _change(self, request: PageRequest) -> dict[str, Any]:
        """The fields that every change has; counts the attempt. Raises ``RateLimited``."""
        self._attempts.begin({"user": str(request.user.id)})
        return {
            "context": request.context,
            "user_id": request.user.id,
            "code": request.form.get("code", ""),
        }

    def _is_right(self, request: PageRequest) -> None:
        self._attempts.give_back({"user": str(request.user.id)})


def redirect_to_enrollment(request: PageRequest) -> Response:
    """Send a user who must have a second factor to the page that sets it up."""
    if request.is_from_script:
        return request.text("Set up your second factor first.", status=403)
    return request.redirect(_PATH)


def _has_factor(request: PageRequest) -> bool:
    return request.ask(lambda tx: second_factors.has_factor(tx, request.user.id))


def _hashes(codes: list[str]) -> tuple[bytes, ...]:
    return tuple(map(second_factors.hash_recovery_code, codes))


def _new_session(request: PageRequest, token: str) -> dict[str, Any]:
    """That the session goes on with this token."""
    return {"session": request.session.token_hash, "new_session": sessions.hash_session_token(token)}


def _go_on(request: PageRequest, token: str) -> None:
    request.browser.set_token(token)
    request.browser.find_user(request.site.runner)


def _codes_page(request: PageRequest, codes: list[str], title: str) -> Response:
    # In this answer and nowhere else: no redirect, no cookie, no log.
    return request.render("second_factor/codes.html", title=title, codes=codes)


def _page(request: PageRequest, errors: dict[str, str] | None = None, secret: str = "") -> Response:
    status = 422 if errors else 200
    user = request.user
    factor = request.ask(lambda tx: second_factors.find_factor(tx, user.id))
    if factor is not None:
        left = request.ask(lambda tx: second_factors.count_codes(tx, user.id))
        return request.render(
            "second_factor/show.html", status=status, factor=factor, left=left, errors=errors or {}
        )
    secret = secret or second_factors.new_secret()
    uri = second_factors.provisioning_uri(secret, user.name, _issuer(request))
    return request.render(
        "second_factor/enable.html",
        status=status,
        secret=secret,
        uri=uri,
        picture=_picture(uri),
        errors=errors or {},
        is_demanded=request.browser.must_enroll,
    )


def _issuer(request: PageRequest) -> str:
    """The name of this installation in the app."""
    return f"Keywright {request.http.url.hostname or ''}".strip()


def _picture(text: str) -> Markup:
    """A QR code, dark on light whatever the page's colors are: cameras want it so."""
    import segno

    drawn = segno.make(text, error="m", micro=False).svg_inline(
        border=4, dark="#000", light="#fff", svgclass=None, lineclass=None, omitsize=True
    )
    return Markup(drawn)  # noqa: S704
