"""Sign in and out; create the first administrator; accept an invitation."""

import hmac
import re
from time import sleep
from urllib.parse import urlencode

from starlette.responses import Response

from keywright.core.command import Context
from keywright.core.errors import InvitationOver, SetupOver, UnknownUser
from keywright.core.parsing import MAX_NAME_LENGTH, parse_name
from keywright.db.transaction import ReadTransaction
from keywright.http.admin import company
from keywright.http.admin.texts import is_recovery_code, wrong_code_message
from keywright.http.pages.error_messages import explain
from keywright.http.pages.formats import N_, _, ngettext
from keywright.http.pages.once import KeptForm, parse_kept, write_kept
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import (
    SIGN_IN_LIMITS,
    Attempts,
    check_password,
    hash_password,
    read_new_password,
    sources_of,
)
from keywright.http.pages.render import BASE, save_theme
from keywright.http.pages.request import PageRequest
from keywright.http.pages.site import PUBLIC, Site
from keywright.identity import oidc, second_factors, sessions, users
from keywright.identity.model import (
    AcceptInvitation,
    CreateUser,
    EndSession,
    RefuseSignIn,
    Role,
    StartSession,
    User,
)
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.sessions import hash_session_token
from keywright.identity.store import count_codes, find_user, has_factor, has_users

#: How long the thread for sign-ins pauses after a wrong password, in seconds: unknown browsers must not keep
#: a processor busy.
_PAUSE = 0.1
#: The addresses to which a sign-in may redirect: pages below /admin. Dots in the path could lead elsewhere.
_OWN_PAGE = re.compile(rf"{BASE}(/[A-Za-z0-9_~-]+)*/?(\?[A-Za-z0-9_.~%&=+:,-]*)?")
_WRONG = N_("The name or the password is wrong.")
_TOO_LATE = N_("That took too long, or your password has been changed. Sign in again.")
_SESSION_OVER = N_("Your session has expired, so nothing was changed. Sign in, and send the form again.")
_KEPT = N_("Your session has ended. Sign in; what you have typed is kept.")


def redirect_to_sign_in(request: PageRequest, unsent: KeptForm | None) -> Response:
    """Redirect to the sign-in, which afterwards redirects back, or offers to send the form again."""
    if request.is_from_script:
        return request.text(_("You are no longer signed in."), status=401)
    if unsent is not None:
        return _render_form(request, "", kept=unsent, error=_(_KEPT), status=403)
    if request.is_post:
        return request.redirect("/sign-in", _(_SESSION_OVER), is_error=True)
    address = request.http.url.path
    if request.http.url.query:
        address += f"?{request.http.url.query}"
    can_return = address.rstrip("/") != BASE and _OWN_PAGE.fullmatch(address)
    # The regular check of a company account: a user signed in at the provider returns without a prompt.
    path = "/sign-in/company" if company.is_by_company(request) else "/sign-in"
    return request.redirect(f"{path}?{urlencode({'next': address})}" if can_return else path)


class SignIn(Section):
    """The pages that need no signed-in user."""

    label = N_("Sign in")
    path = ""
    in_menu = False

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._attempts = Attempts(**SIGN_IN_LIMITS)
        self._provider = oidc.Client()

    def is_known_browser(self, request: PageRequest) -> bool:
        """Whether the user named in the form has signed in with this browser before."""
        return _is_known(request, request.ask(lambda tx: _find(tx, _name(request)))[1])

    @page("/sign-in", methods=("GET", "POST"), right=PUBLIC, checks_passwords=True)
    def sign_in(self, request: PageRequest) -> Response:
        """Sign in with name and password."""
        target = request.form.get("next", request.query.get("next", ""))
        if request.browser.signed_in is not None:
            return request.redirect(_path_after_sign_in(target))
        if not request.is_post:
            return _render_form(request, target)
        name, password = _name(request), request.form.raw("password")
        user, mark = request.ask(lambda tx: _find(tx, name))
        if user is not None and user.subject is not None:
            # Users of company accounts have no password. This takes as long as for an unknown user.
            user = None
        # A known browser is not limited by the attempts of others, even from the same address.
        sources = {"known": mark} if _is_known(request, mark) else sources_of(request.browser.address, name)
        self._attempts.begin(sources)
        is_right = check_password(request, user, password)
        if is_right and user is not None and request.ask(lambda tx: has_factor(tx, user.id)):
            self._attempts.undo(sources)
            return _render_code_form(request, user, target)
        if not is_right or not _start_session(request, user):
            request.change(RefuseSignIn(context=Context(request.now, request.browser.origin), name=name))
            with request.release_lock():
                sleep(_PAUSE)
            return _render_form(request, target, name=name, error=_(_WRONG), status=403)
        self._attempts.undo(sources)
        return _go_on(request, target)

    @page("/sign-in/code", methods=("POST",), right=PUBLIC)
    def enter_code(self, request: PageRequest) -> Response:
        """Sign in with the code of the second factor, after the correct password."""
        target, code = request.form.get("next", ""), request.form.get("code", "")
        ticket, browser = request.form.get("ticket", ""), request.browser.form_token
        user = request.ask(lambda tx: second_factors.find_ticket_user(tx, ticket, browser, request.now))
        if user is None:
            return request.redirect("/sign-in", _(_TOO_LATE), is_error=True)
        mark = request.ask(lambda tx: sessions.device_mark(tx, user))
        is_known = _is_known(request, mark)
        sources = _sources_of_code(request, user, code, mark if is_known else "")
        self._attempts.begin(sources)
        if not _start_session(request, user, code, is_known=is_known):
            with request.release_lock():
                sleep(_PAUSE)
            return _render_code_form(request, user, target, is_wrong=True)
        self._attempts.undo(sources)
        return _go_on(request, target, _codes_left_message(request, user) if is_recovery_code(code) else "")

    @page("/sign-out", methods=("POST",), right=PUBLIC)
    def sign_out(self, request: PageRequest) -> Response:
        """End the session."""
        if request.browser.signed_in is not None:
            request.change(EndSession(context=request.context, token_hash=request.session.token_hash))
        request.browser.set_token()
        return company.sign_out(request, request.redirect("/sign-in", _("You are signed out.")))

    @page("/sign-in/company", methods=("GET", "POST"), right=PUBLIC, asks_provider=True)
    def go_to_company(self, request: PageRequest) -> Response:
        """Sign in with a company account: redirect to the company's provider."""
        target = request.form.get("next", request.query.get("next", ""))
        provider = request.site.settings.provider
        if request.browser.signed_in is not None:
            return request.redirect(_path_after_sign_in(target))
        if provider is None or not request.ask(has_users):
            return request.redirect("/sign-in")
        kept = write_kept(parse_kept(request.form))
        try:
            return company.send_to_provider(request, self._provider, provider, target, kept)
        except oidc.NotBelieved as problem:
            company.log.warning("the company's provider cannot be used: %s", problem)
            error = _(
                "Your company's sign-in service cannot be reached. Try again, or sign in with a password."
            )
            return _render_form(request, target, error=error, status=503)

    @page(company.CALLBACK, right=PUBLIC, asks_provider=True)
    def come_from_company(self, request: PageRequest) -> Response:
        """Sign in the user whom the company's provider names."""
        if not company.has_begun(request):
            # The browser's Back button was used, or no attempt was begun here: cheap, so not counted.
            if request.browser.signed_in is not None:
                return request.redirect("/")
            return request.redirect("/sign-in", _(_TOO_LATE), is_error=True)
        sources = _sources_of_address(request)
        self._attempts.begin(sources)
        ended = company.end_attempt(request, self._provider)
        if ended.error:
            response = _render_form(request, "", error=ended.error, status=403)
            return company.forget_attempt(request, response, is_signed_in=False)
        self._attempts.undo(sources)
        response = _go_on(request, ended.target, kept_before=ended.kept)
        return company.forget_attempt(request, response, is_signed_in=True)

    @page("/setup", methods=("GET", "POST"), right=PUBLIC)
    def setup(self, request: PageRequest) -> Response:
        """Create the first administrator, and sign them in."""
        token = request.form.get("token", request.query.get("token", ""))
        if not request.ask(lambda tx: sessions.is_setup_token(tx, token, request.now)):
            return self._refuse_setup(request)
        errors: dict[str, str] = {}
        name = request.form.get("name", "")
        if request.is_post:
            password = read_new_password(request.form, name, errors)
            try:
                name = parse_name(name)
            except ValueError as reason:
                errors["name"] = explain(reason)
            if not errors:
                return _create_first_user(request, name, password)
        request.browser.ensure_token()
        return request.render(
            "setup.html",
            token=token,
            name=name,
            errors=errors,
            min_length=MIN_PASSWORD_LENGTH,
        )

    @page("/theme", methods=("POST",), right=PUBLIC)
    def theme(self, request: PageRequest) -> Response:
        """Choose the light, dark, or system theme; works without JavaScript."""
        response = request.redirect(_path_after_sign_in(request.form.get("next", "")))
        save_theme(response, request.form.get("theme", ""), is_secure=request.browser.is_secure)
        return response

    def _refuse_setup(self, request: PageRequest) -> Response:
        if request.ask(has_users):
            return request.redirect(
                "/sign-in", _("Keywright is already set up. Sign in instead."), is_error=True
            )
        return request.render("no_setup.html", status=403)


def _find(tx: ReadTransaction, name: str) -> tuple[User | None, str]:
    """The user of this name, and the mark of browsers in which the user has signed in; "" without a user."""
    user = find_user(tx, name)
    return user, "" if user is None else sessions.device_mark(tx, user)


def _name(request: PageRequest) -> str:
    return request.form.get("name", "")[:MAX_NAME_LENGTH]


def _is_known(request: PageRequest, mark: str) -> bool:
    """Whether the browser has this mark of a user; False for "", which stands for no user."""
    return bool(mark) and hmac.compare_digest(mark.encode(), request.browser.device_mark.encode())


def _sources_of_code(request: PageRequest, user: User, code: str, mark: str) -> dict[str, str]:
    """The sources against which a code is counted. An attacker who guesses codes knows the password; the user
    can still sign in with a known browser, which has a ``mark``, or with a recovery code, which cannot be
    guessed.
    """
    if mark:
        return {"known_code": mark}
    if is_recovery_code(code):
        return _sources_of_address(request)
    return {"code": str(user.id)}


def _sources_of_address(request: PageRequest) -> dict[str, str]:
    return {name: one for name, one in sources_of(request.browser.address, "").items() if name != "name"}


def _render_form(
    request: PageRequest,
    target: str,
    *,
    name: str = "",
    error: str = "",
    kept: KeptForm | None = None,
    status: int = 200,
) -> Response:
    request.browser.ensure_token()
    return request.render(
        "sign_in.html",
        status=status,
        target=target,
        kept=write_kept(kept or parse_kept(request.form)),
        name=name,
        error=error,
        has_users=request.ask(has_users),
        has_company=request.site.settings.provider is not None,
    )


def _render_code_form(request: PageRequest, user: User, target: str, *, is_wrong: bool = False) -> Response:
    """Ask a user whose password was correct for the code of the second factor."""
    request.browser.ensure_token()
    browser = request.browser.form_token
    return request.render(
        "code.html",
        status=403 if is_wrong else 200,
        target=target,
        kept=write_kept(parse_kept(request.form)),
        ticket=request.ask(lambda tx: second_factors.new_ticket(tx, user, browser, request.now)),
        error=wrong_code_message(request, user) if is_wrong else "",
    )


def _codes_left_message(request: PageRequest, user: User) -> str:
    count = request.ask(lambda tx: count_codes(tx, user.id))
    return ngettext(
        "You have signed in with a recovery code. %(num)s code left: see “My account”.",
        "You have signed in with a recovery code. %(num)s codes left: see “My account”.",
        count,
    )


def _start_session(
    request: PageRequest, user: User | None, code: str | None = None, *, is_known: bool = False
) -> bool:
    """Start a session with a new token. False if there is no user, if the code is wrong, or if the user was
    just disabled or has a new password.
    """
    if user is None:
        return False
    token = sessions.new_session_token()
    start = StartSession(
        context=Context(request.now, request.browser.origin_of(user), user.id),
        user_id=user.id,
        token_hash=sessions.hash_session_token(token),
        hours=request.site.settings.session_hours,
        password_hash=user.password_hash,
        code=code,
        is_known=is_known,
    )
    try:
        if request.change(start) is None:
            return False
    except UnknownUser:
        return False
    request.browser.set_token(token)
    request.browser.set_device_mark(request.ask(lambda tx: sessions.device_mark(tx, user)))
    return True


def _create_first_user(request: PageRequest, name: str, password: str) -> Response:
    create = CreateUser(
        context=Context(request.now, request.browser.origin),
        name=name,
        role=Role.ADMINISTRATOR,
        password_hash=hash_password(request, password),
        only_first=True,
    )
    try:
        user = request.change(create)
    except SetupOver:
        return request.redirect(
            "/sign-in", _("Another user has just set Keywright up. Sign in instead."), is_error=True
        )
    _start_session(request, user)
    return request.redirect("/", _("Welcome, %(name)s. You are the first administrator.", name=name))


def _go_on(
    request: PageRequest, target: str, message: str = "", kept_before: KeptForm | None = None
) -> Response:
    """Continue after the sign-in: offer to send the kept form again, or open the target."""
    kept = kept_before or parse_kept(request.form)
    if kept is None:
        return request.redirect(_path_after_sign_in(target), message)
    return request.render("send_again.html", kept=kept)


def _path_after_sign_in(target: str) -> str:
    """The page to open after the sign-in: the target, if it is one of these pages."""
    if _OWN_PAGE.fullmatch(target) is None or target.startswith((f"{BASE}/sign-", f"{BASE}/setup")):
        return "/"
    return target.removeprefix(BASE) or "/"


class Invitation(Section):
    """The page for invited users."""

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
            password = read_new_password(request.form, user.name, errors)
            if not errors:
                context = Context(request.now, request.browser.origin)
                command = AcceptInvitation(
                    context=context,
                    token_hash=hash_session_token(token),
                    password_hash=hash_password(request, password),
                )
                request.change(command)
                return request.redirect("/sign-in", _("The password was set. Sign in with it."))
        request.browser.ensure_token()
        return request.render(
            "invitation.html", token=token, invited=user, errors=errors, min_length=MIN_PASSWORD_LENGTH
        )
