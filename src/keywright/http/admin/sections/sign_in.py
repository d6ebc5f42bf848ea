"""Coming and going: signing in and out, and making the first administrator."""

import hmac
import re
from time import sleep
from urllib.parse import urlencode

from starlette.responses import Response

from keywright.core.errors import SetupOver, UnknownUser
from keywright.core.parsing import MAX_NAME_LENGTH, parse_name
from keywright.db import ReadTransaction
from keywright.http.admin.sections.second_factor import is_recovery_code, wrong_code
from keywright.http.pages import render as parts
from keywright.http.pages.attempts import AT_SIGN_IN, Attempts, sources_of
from keywright.http.pages.error_messages import counted
from keywright.http.pages.page import EVERYBODY, Area, Visit, page
from keywright.http.pages.passwords import hashed, is_right, new_password
from keywright.http.pages.urls import BASE
from keywright.identity import second_factors, sessions
from keywright.identity.commands import CreateUser, EndSession, RefuseSignIn, StartSession
from keywright.identity.model import Role, User
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.rights import Right
from keywright.identity.store import find_user, has_users

#: How long nobody else's password is looked at after a wrong one, in seconds: strangers shall not have a
#: processor all the time.
_REST = 0.1
#: Where one may be sent after signing in: a page of ours. Dots could lead elsewhere.
_PAGE_OF_OURS = re.compile(rf"{BASE}(/[A-Za-z0-9_~-]+)*/?(\?[A-Za-z0-9_.~%&=+:,-]*)?")
_WRONG = "The name or the password is wrong."
_TOO_LATE = "That took too long, or your password was changed meanwhile. Sign in again."
_OVER = "You were signed out, because nothing happened for a while. What you sent was not done."


def sign_in_first(visit: Visit) -> Response:
    """Send whoever is not signed in to where that is done, and back afterwards."""
    if visit.is_from_script:
        return visit.text("You are not signed in any more.", status=401)
    if visit.is_post:
        return visit.back("/sign-in", _OVER, is_bad=True)
    address = visit.request.url.path
    if visit.request.url.query:
        address += f"?{visit.request.url.query}"
    is_wish = address.rstrip("/") != BASE and _PAGE_OF_OURS.fullmatch(address)
    return visit.back(f"/sign-in?{urlencode({'next': address})}" if is_wish else "/sign-in")


class Start(Area):
    """The address everybody types."""

    menu_label = "Start"
    path = "/"
    add_to_menu = False
    right = Right.LOOK

    @page("")
    def start(self, visit: Visit) -> Response:
        """Go to the first area that the visitor may see."""
        first = self.frame.menu(visit.request, None)[0]
        return visit.back(first.href.removeprefix(BASE))


class Entrance(Area):
    """Signing in and out, the first administrator, and the choice between light and dark."""

    menu_label = "Sign in"
    path = ""
    add_to_menu = False
    #: Not the setup: a person who has its link is no stranger.
    looks_at_passwords = frozenset({"sign_in"})

    def __init__(self) -> None:
        super().__init__()
        self._attempts = Attempts(**AT_SIGN_IN)

    def knows(self, visit: Visit) -> bool:
        """Whether the user who is named has signed in with this browser before."""
        return _is_known(visit, visit.ask(lambda tx: _find(tx, _name(visit)))[1])

    @page("/sign-in", methods=("GET", "POST"), right=EVERYBODY)
    def sign_in(self, visit: Visit) -> Response:
        """Ask for name and password."""
        wish = visit.form.get("next", visit.query.get("next", ""))
        if visit.visitor.signed_in is not None:
            return visit.back(_way_to(wish))
        if not visit.is_post:
            return _form(visit, wish)
        name, password = _name(visit), visit.form.raw("password")
        user, mark = visit.ask(lambda tx: _find(tx, name))
        # What strangers do, at the same address too, does not concern a browser that is known.
        sources = {"known": mark} if _is_known(visit, mark) else sources_of(visit.address, name)
        self._attempts.begin(sources)
        is_known = is_right(visit, user, password)
        if is_known and user is not None and visit.ask(lambda tx: second_factors.has_factor(tx, user.id)):
            self._attempts.give_back(sources)
            return _code_form(visit, user, wish)
        if not is_known or not _is_signed_in(visit, user):
            visit.change(RefuseSignIn(now=visit.now, origin=visit.visitor.origin, name=name))
            with visit.aside():
                sleep(_REST)
            return _form(visit, wish, name=name, error=_WRONG, status=403)
        self._attempts.give_back(sources)
        return visit.back(_way_to(wish))

    @page("/sign-in/code", methods=("POST",), right=EVERYBODY)
    def enter_code(self, visit: Visit) -> Response:
        """Take the code of the second factor, for a user whose password was right."""
        wish, code = visit.form.get("next", ""), visit.form.get("code", "")
        ticket, browser = visit.form.get("ticket", ""), visit.visitor.form_token
        user = visit.ask(lambda tx: second_factors.find_ticket_user(tx, ticket, browser, visit.now))
        if user is None:
            return visit.back("/sign-in", _TOO_LATE, is_bad=True)
        # The user here knows the password: what others do at the same address does not concern them.
        sources = {"code": str(user.id)}
        self._attempts.begin(sources)
        if not _is_signed_in(visit, user, code):
            with visit.aside():
                sleep(_REST)
            return _code_form(visit, user, wish, is_wrong=True)
        self._attempts.give_back(sources)
        return visit.back(_way_to(wish), _codes_left(visit, user) if is_recovery_code(code) else "")

    @page("/sign-out", methods=("POST",), right=EVERYBODY)
    def sign_out(self, visit: Visit) -> Response:
        """End the session."""
        if visit.visitor.signed_in is not None:
            visit.change(EndSession(**visit.command_fields(), token_hash=visit.session.token_hash))
        visit.visitor.take_new_token()
        return visit.back("/sign-in", "You are signed out.")

    @page("/setup", methods=("GET", "POST"), right=EVERYBODY)
    def setup(self, visit: Visit) -> Response:
        """Make the first administrator, and sign in as that."""
        token = visit.form.get("token", visit.query.get("token", ""))
        if not visit.ask(lambda tx: sessions.is_setup_token(tx, token, visit.now)):
            return self._no_setup(visit)
        errors: dict[str, str] = {}
        name = visit.form.get("name", "")
        if visit.is_post:
            password = new_password(visit.form, errors)
            try:
                name = parse_name(name)
            except ValueError as reason:
                errors["name"] = f"It {reason}."
            if not errors:
                return _first_user(visit, name, password)
        _have_token(visit)
        return visit.page(
            "setup.html",
            status=422 if errors else 200,
            token=token,
            name=name,
            errors=errors,
            min_length=MIN_PASSWORD_LENGTH,
        )

    @page("/theme", methods=("POST",), right=EVERYBODY)
    def theme(self, visit: Visit) -> Response:
        """Light, dark, or what the system has; without a program in the browser."""
        response = visit.back(_way_to(visit.form.get("next", "")))
        parts.keep_theme(response, visit.form.get("theme", ""), is_secure=visit.visitor.is_secure)
        return response

    def _no_setup(self, visit: Visit) -> Response:
        if visit.ask(has_users):
            return visit.back("/sign-in", "Keywright is set up already. Sign in instead.", is_bad=True)
        return visit.page("no_setup.html", status=403)


def _find(tx: ReadTransaction, name: str) -> tuple[User | None, str]:
    """The user of this name, and what a browser shows in which they have signed in."""
    user = find_user(tx, name)
    return user, "" if user is None else sessions.device_mark(tx, user)


def _name(visit: Visit) -> str:
    return visit.form.get("name", "")[:MAX_NAME_LENGTH]


def _is_known(visit: Visit, mark: str) -> bool:
    """Whether the browser shows the mark of a user, which is "" where there is no such user."""
    return bool(mark) and hmac.compare_digest(mark.encode(), visit.visitor.device_mark.encode())


def _form(visit: Visit, wish: str, *, name: str = "", error: str = "", status: int = 200) -> Response:
    _have_token(visit)
    return visit.page(
        "sign_in.html",
        status=status,
        wish=wish,
        name=name,
        error=error,
        has_users=visit.ask(has_users),
    )


def _have_token(visit: Visit) -> None:
    """A form needs a token in the browser, which is no session's yet."""
    if not visit.visitor.token:
        visit.visitor.take_new_token()


def _code_form(visit: Visit, user: User, wish: str, *, is_wrong: bool = False) -> Response:
    """Ask for the code of a user whose password was right."""
    _have_token(visit)
    browser = visit.visitor.form_token
    return visit.page(
        "code.html",
        status=403 if is_wrong else 200,
        wish=wish,
        ticket=visit.ask(lambda tx: second_factors.new_ticket(tx, user, browser, visit.now)),
        error=wrong_code(visit, user) if is_wrong else "",
    )


def _codes_left(visit: Visit, user: User) -> str:
    left = visit.ask(lambda tx: second_factors.count_codes(tx, user.id))
    return f"You have signed in with a recovery code. {counted(left, 'code')} left: see “My account”."


def _is_signed_in(visit: Visit, user: User | None, code: str | None = None) -> bool:
    """Start a session under a new token; False for a wrong code, and when the user was disabled, or got
    another password, at this very moment.
    """
    if user is None:
        return False
    token = sessions.new_session_token()
    start = StartSession(
        now=visit.now,
        origin=visit.visitor.origin_of(user),
        by=user.id,
        user_id=user.id,
        token_hash=sessions.hash_session_token(token),
        password_hash=user.password_hash,
        code=code,
    )
    try:
        if visit.change(start) is None:
            return False
    except UnknownUser:
        return False
    visit.visitor.take_new_token(token)
    visit.visitor.be_known(visit.ask(lambda tx: sessions.device_mark(tx, user)))
    return True


def _first_user(visit: Visit, name: str, password: str) -> Response:
    create = CreateUser(
        now=visit.now,
        origin=visit.visitor.origin,
        name=name,
        role=Role.ADMINISTRATOR,
        password_hash=hashed(visit, password),
        only_first=True,
    )
    try:
        user = visit.change(create)
    except SetupOver:
        return visit.back("/sign-in", "Somebody else has set Keywright up. Sign in instead.", is_bad=True)
    _is_signed_in(visit, user)
    return visit.back("/", f"Welcome, {name}. You are the first administrator.")


def _way_to(wish: str) -> str:
    """Where to go after signing in: where one wanted to, if that is here."""
    if _PAGE_OF_OURS.fullmatch(wish) is None or wish.startswith((f"{BASE}/sign-", f"{BASE}/setup")):
        return "/"
    return wish.removeprefix(BASE) or "/"
