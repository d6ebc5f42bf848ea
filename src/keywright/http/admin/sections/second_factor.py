"""One's own second factor: setting it up with an app, recovery codes, and turning it off."""

from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from keywright.http.pages.attempts import Attempts
from keywright.http.pages.page import Area, Visit, page
from keywright.http.pages.passwords import is_right
from keywright.identity import second_factors, sessions
from keywright.identity.commands import DisableSecondFactor, EnableSecondFactor, RenewRecoveryCodes
from keywright.identity.model import User
from keywright.identity.rights import Right
from keywright.identity.second_factors import MOST_FAILURES

#: How often a user's own password or code may be wrong in a minute.
_MOST_ATTEMPTS = 10
_PATH = "/account/second-factor"
_WRONG = "This code is wrong, or was used before. Wait for the next one."
_ONLY_RECOVERY = (
    "Too many codes were wrong. Use a recovery code, or ask an administrator to turn your second factor off."
)


class SecondFactors(Area):
    """The second factor of the user who is signed in."""

    menu_label = "My second factor"
    path = _PATH
    add_to_menu = False
    right = Right.LOOK
    is_for_enrolling = True

    def __init__(self) -> None:
        super().__init__()
        self._attempts = Attempts(user=_MOST_ATTEMPTS)

    @page("")
    def show(self, visit: Visit) -> Response:
        """Its state, and what can be done."""
        return _page(visit)

    @page("/enable", methods=("POST",))
    def enable(self, visit: Visit) -> Response:
        """Begin to ask for codes, once the app shows the right one."""
        secret = visit.form.get("secret", "")
        if _has_factor(visit) or not second_factors.is_secret(secret):
            return visit.back(_PATH)
        codes = second_factors.new_recovery_codes()
        command = EnableSecondFactor(
            **self._change(visit),
            secret=secret,
            code_hashes=_hashes(codes),
            **_new_session(visit, token := sessions.new_session_token()),
        )
        if not visit.change(command):
            return _page(visit, {"code": _WRONG}, secret)
        self._is_right(visit)
        _go_on(visit, token)
        return _codes_page(visit, codes, "Your second factor is set up")

    @page("/codes", methods=("POST",))
    def renew_codes(self, visit: Visit) -> Response:
        """Other recovery codes; those there were are good no more."""
        codes = second_factors.new_recovery_codes()
        if not visit.change(RenewRecoveryCodes(**self._change(visit), code_hashes=_hashes(codes))):
            return _page(visit, {"renewing_code": wrong_code(visit, visit.user)})
        self._is_right(visit)
        return _codes_page(visit, codes, "Your new recovery codes")

    @page("/disable", methods=("POST",))
    def disable(self, visit: Visit) -> Response:
        """Ask for no more codes."""
        change = self._change(visit)
        if not is_right(visit, visit.user, visit.form.raw("password")):
            return _page(visit, {"password": "This is not your password."})
        token = sessions.new_session_token()
        if not visit.change(DisableSecondFactor(**change, **_new_session(visit, token))):
            return _page(visit, {"disabling_code": wrong_code(visit, visit.user)})
        self._is_right(visit)
        _go_on(visit, token)
        return visit.back("/account", "Your second factor is turned off. You are signed out everywhere else.")

    def _change(self, visit: Visit) -> dict[str, Any]:
        """The fields that every change has; counts the attempt. Raises ``RateLimited``."""
        self._attempts.begin({"user": str(visit.user.id)})
        return {
            **visit.command_fields(),
            "user_id": visit.user.id,
            "code": visit.form.get("code", ""),
        }

    def _is_right(self, visit: Visit) -> None:
        self._attempts.give_back({"user": str(visit.user.id)})


def enroll_first(visit: Visit) -> Response:
    """Send a user who must have a second factor to the page that sets it up."""
    if visit.is_from_script:
        return visit.text("Set up your second factor first.", status=403)
    return visit.back(_PATH)


def is_recovery_code(code: str) -> bool:
    """Whether the text is longer than the code that an app shows."""
    return len(code) > len("123 456")


def wrong_code(visit: Visit, user: User) -> str:
    """The message about a wrong code."""
    factor = visit.ask(lambda tx: second_factors.find_factor(tx, user.id))
    return _ONLY_RECOVERY if factor is not None and factor.failures >= MOST_FAILURES else _WRONG


def _has_factor(visit: Visit) -> bool:
    return visit.ask(lambda tx: second_factors.has_factor(tx, visit.user.id))


def _hashes(codes: list[str]) -> tuple[bytes, ...]:
    return tuple(map(second_factors.hash_recovery_code, codes))


def _new_session(visit: Visit, token: str) -> dict[str, Any]:
    """That the session goes on with this token."""
    return {"session": visit.session.token_hash, "new_session": sessions.hash_session_token(token)}


def _go_on(visit: Visit, token: str) -> None:
    visit.visitor.take_new_token(token)
    visit.visitor.look_up(visit.frame.door)


def _codes_page(visit: Visit, codes: list[str], title: str) -> Response:
    # In this answer and nowhere else: no redirect, no cookie, no log.
    return visit.page("second_factor/codes.html", title=title, codes=codes)


def _page(visit: Visit, errors: dict[str, str] | None = None, secret: str = "") -> Response:
    status = 422 if errors else 200
    user = visit.user
    factor = visit.ask(lambda tx: second_factors.find_factor(tx, user.id))
    if factor is not None:
        left = visit.ask(lambda tx: second_factors.count_codes(tx, user.id))
        return visit.page(
            "second_factor/show.html", status=status, factor=factor, left=left, errors=errors or {}
        )
    secret = secret or second_factors.new_secret()
    uri = second_factors.provisioning_uri(secret, user.name, _issuer(visit))
    return visit.page(
        "second_factor/enable.html",
        status=status,
        secret=secret,
        uri=uri,
        picture=_picture(uri),
        errors=errors or {},
        is_demanded=visit.visitor.has_to_enroll,
    )


def _issuer(visit: Visit) -> str:
    """The name of this installation in the app."""
    return f"Keywright {visit.request.url.hostname or ''}".strip()


def _picture(text: str) -> Markup:
    """A QR code, dark on light whatever the page's colors are: cameras want it so."""
    import segno

    drawn = segno.make(text, error="m", micro=False).svg_inline(
        border=4, dark="#000", light="#fff", svgclass=None, lineclass=None, omitsize=True
    )
    return Markup(drawn)  # noqa: S704
