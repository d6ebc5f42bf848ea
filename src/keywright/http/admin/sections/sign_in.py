"""Coming and going: signing in and out, and making the first administrator."""

import hmac
import re
from time import sleep
from urllib.parse import urlencode

from starlette.responses import Response

from keywright.core.command import Context
from keywright.core.errors import SetupOver, UnknownUser
from keywright.core.parsing import MAX_NAME_LENGTH, parse_name
from keywright.db import ReadTransaction
from keywright.http.admin.codes import is_recovery_code, wrong_code_message
from keywright.http.pages.attempts import AT_SIGN_IN, Attempts, sources_of
from keywright.http.pages.error_messages import counted
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import hashed, is_right, new_password
from keywright.http.pages.render import save_theme
from keywright.http.pages.request import PageRequest
from keywright.http.pages.rights import EVERYBODY
from keywright.http.pages.site import Site
from keywright.http.pages.urls import BASE
from keywright.identity import second_factors, sessions
from keywright.identity.commands import CreateUser, EndSession, RefuseSignIn, StartSession
from keywright.identity.model import Role, User
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.store import find_user, has_users

#: How long nobody else's password is looked at after a wrong one, in seconds: strangers shall not have a
#: processor all the time.
_REST = 0.1
#: Where one may be sent after signing in: a page of ours. Dots could lead elsewhere.
_PAGE_OF_OURS = re.compile(rf"{BASE}(/[A-Za-z0-9_~-]+)*/?(\?[A-Za-z0-9_.~%&=+:,-]*)?")
_WRONG = "The name or the password is wrong."
_TOO_LATE = "That took too long, or your password was changed meanwhile. Sign in again."
_OVER = "You were signed out, because nothing happened for a while. What you sent was not done."


def redirect_to_sign_in(request: PageRequest) -> Response:
    """Send whoever is not signed in to where that is done, and back afterwards."""
    if request.is_from_script:
        return request.text("You are not signed in any more.", status=401)
    if request.is_post:
        return request.redirect("/sign-in", _OVER, is_error=True)
    address = request.http.url.path
    if request.http.url.query:
        address += f"?{request.http.url.query}"
    is_wish = address.rstrip("/") != BASE and _PAGE_OF_OURS.fullmatch(address)
    return request.redirect(f"/sign-in?{urlencode({'next': address})}" if is_wish else "/sign-in")


class SignIn(Section):
    """Signing in and out, the first administrator, and the choice between light and dark."""

    label = "Sign in"
    path = ""
    in_menu = False

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._attempts = Attempts(**AT_SIGN_IN)

    def is_known_browser(self, request: PageRequest) -> bool:
        """Whether the user named in the form has signed in with this browser before."""
        return _is_known(request, request.ask(lambda tx: _find(tx, _name(request)))[1])

    @page("/sign-in", methods=("GET", "POST"), right=EVERYBODY, checks_passwords=True)
    def sign_in(self, request: PageRequest) -> Response:
        """Ask for name and password."""
        wish = request.form.get("next", request.query.get("next", ""))
        if request.browser.signed_in is not None:
            return request.redirect(_way_to(wish))
        if not request.is_post:
            return _form(request, wish)
        name, password = _name(request), request.form.raw("password")
        user, mark = request.ask(lambda tx: _find(tx, name))
        # What strangers do, at the same address too, does not concern a browser that is known.
        sources = {"known": mark} if _is_known(request, mark) else sources_of(request.browser.address, name)
        self._attempts.begin(sources)
        is_known = is_right(request, user, password)
        if is_known and user is not None and request.ask(lambda tx: second_factors.has_factor(tx, user.id)):
            self._attempts.give_back(sources)
            return _code_form(request, user, wish)
        if not is_known or not _is_signed_in(request, user):
            request.change(RefuseSignIn(context=Context(request.now, request.browser.origin), name=name))
            with request.unlocked():
                sleep(_REST)
            return _form(request, wish, name=name, error=_WRONG, status=403)
        self._attempts.give_back(sources)
        return request.redirect(_way_to(wish))

    @page("/sign-in/code", methods=("POST",), right=EVERYBODY)
    def enter_code(self, request: PageRequest) -> Response:
        """Take the code of the second factor, for a user whose password was right."""
        wish, code = request.form.get("next", ""), request.form.get("code", "")
        ticket, browser = request.form.get("ticket", ""), request.browser.form_token
        user = request.ask(lambda tx: second_factors.find_ticket_user(tx, ticket, browser, request.now))
        if user is None:
            return request.redirect("/sign-in", _TOO_LATE, is_error=True)
        # The user here knows the password: what others do at the same address does not concern them.
        sources = {"code": str(user.id)}
        self._attempts.begin(sources)
        if not _is_signed_in(request, user, code):
            with request.unlocked():
                sleep(_REST)
            return _code_form(request, user, wish, is_wrong=True)
        self._attempts.give_back(sources)
        return request.redirect(_way_to(wish), _codes_left(request, user) if is_recovery_code(code) else "")

    @page("/sign-out", methods=("POST",), right=EVERYBODY)
    def sign_out(self, request: PageRequest) -> Response:
        """End the session."""
        if request.browser.signed_in is not None:
            request.change(EndSession(context=request.context, token_hash=request.session.token_hash))
        request.browser.set_token()
        return request.redirect("/sign-in", "You are signed out.")

    @page("/setup", methods=("GET", "POST"), right=EVERYBODY)
    def setup(self, request: PageRequest) -> Response:
        """Make the first administrator, and sign in as that."""
        token = request.form.get("token", request.query.get("token", ""))
        if not request.ask(lambda tx: sessions.is_setup_token(tx, token, request.now)):
            return self._no_setup(request)
        errors: dict[str, str] = {}
        name = request.form.get("name", "")
        if request.is_post:
            password = new_password(request.form, errors)
            try:
                name = parse_name(name)
            except ValueError as reason:
                errors["name"] = f"It {reason}."
            if not errors:
                return _first_user(request, name, password)
        request.browser.ensure_token()
        return request.render(
            "setup.html",
            status=422 if errors else 200,
            token=token,
            name=name,
            errors=errors,
            min_length=MIN_PASSWORD_LENGTH,
        )

    @page("/theme", methods=("POST",), right=EVERYBODY)
    def theme(self, request: PageRequest) -> Response:
        """Light, dark, or what the system has; without a program in the browser."""
        response = request.redirect(_way_to(request.form.get("next", "")))
        save_theme(response, request.form.get("theme", ""), is_secure=request.browser.is_secure)
        return response

    def _no_setup(self, request: PageRequest) -> Response:
        if request.ask(has_users):
            return request.redirect(
                "/sign-in", "Keywright is set up already. Sign in instead.", is_error=True
            )
        return request.render("no_setup.html", status=403)


def _find(tx: ReadTransaction, name: str) -> tuple[User | None, str]:
    """The user of this name, and what a browser shows in which they have signed in."""
    user = find_user(tx, name)
    return user, "" if user is None else sessions.device_mark(tx, user)


def _name(request: PageRequest) -> str:
    return request.form.get("name", "")[:MAX_NAME_LENGTH]


def _is_known(request: PageRequest, mark: str) -> bool:
    """Whether the browser shows the mark of a user, which is "" where there is no such user."""
    return bool(mark) and hmac.compare_digest(mark.encode(), request.browser.device_mark.encode())


def _form(request: PageRequest, wish: str, *, name: str = "", error: str = "", status: int = 200) -> Response:
    request.browser.ensure_token()
    return request.render(
        "sign_in.html",
        status=status,
        wish=wish,
        name=name,
        error=error,
        has_users=request.ask(has_users),
    )


def _code_form(request: PageRequest, user: User, wish: str, *, is_wrong: bool = False) -> Response:
    """Ask for the code of a user whose password was right."""
    request.browser.ensure_token()
    browser = request.browser.form_token
    return request.render(
        "code.html",
        status=403 if is_wrong else 200,
        wish=wish,
        ticket=request.ask(lambda tx: second_factors.new_ticket(tx, user, browser, request.now)),
        error=wrong_code_message(request, user) if is_wrong else "",
    )


def _codes_left(request: PageRequest, user: User) -> str:
    left = request.ask(lambda tx: second_factors.count_codes(tx, user.id))
    return f"You have signed in with a recovery code. {counted(left, 'code')} left: see “My account”."


def _is_signed_in(request: PageRequest, user: User | None, code: str | None = None) -> bool:
    """Start a session under a new token; False for a wrong code, and when the user was disabled, or got
    another password, at this very moment.
    """
    if user is None:
        return False
    token = sessions.new_session_token()
    start = StartSession(
        context=Context(request.now, request.browser.origin_of(user), user.id),
        user_id=user.id,
        token_hash=sessions.hash_session_token(token),
        password_hash=user.password_hash,
        code=code,
    )
    try:
        if request.change(start) is None:
            return False
    except UnknownUser:
        return False
    request.browser.set_token(token)
    request.browser.set_device_mark(request.ask(lambda tx: sessions.device_mark(tx, user)))
    return True


def _first_user(request: PageRequest, name: str, password: str) -> Response:
    create = CreateUser(
        context=Context(request.now, request.browser.origin),
        name=name,
        role=Role.ADMINISTRATOR,
        password_hash=hashed(request, password),
        only_first=True,
    )
    try:
        user = request.change(create)
    except SetupOver:
        return request.redirect(
            "/sign-in", "Somebody else has set Keywright up. Sign in instead.", is_error=True
        )
    _is_signed_in(request, user)
    return request.redirect("/", f"Welcome, {name}. You are the first administrator.")


def _way_to(wish: str) -> str:
    """Where to go after signing in: where one wanted to, if that is here."""
    if _PAGE_OF_OURS.fullmatch(wish) is None or wish.startswith((f"{BASE}/sign-", f"{BASE}/setup")):
        return "/"
    return wish.removeprefix(BASE) or "/"
