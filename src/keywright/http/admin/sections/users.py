"""Users who may sign in to these pages."""

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import UnknownUser, UserExists
from keywright.http.admin.texts import ROLE_TEXTS
from keywright.http.pages.error_messages import Message, message_for
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import Inputs, parse_choice, require_id
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import hash_password, read_new_password
from keywright.http.pages.render import BASE
from keywright.http.pages.request import PageRequest
from keywright.identity import model, sessions, store
from keywright.identity.model import (
    ChangeUser,
    CreateUser,
    DisableSecondFactor,
    EndSession,
    InviteUser,
    Right,
    Role,
    User,
)
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.store import find_invitation_end, find_user_by_id, list_users
from keywright.identity.users import INVITATION_TIME


class Users(Section):
    """The users of these pages."""

    label = N_("Users")
    path = "/users"
    group = N_("Settings")
    icon = "users"
    right = Right.ADMINISTER

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """All users; disabled ones come last."""
        users = request.ask(list_users)
        users.sort(key=lambda one: (one.disabled_at is not None, one.name.casefold()))
        with_factor = request.ask(store.list_users_with_factor)
        return request.render("users/list.html", users=users, with_factor=with_factor)

    @page("/new", methods=("GET", "POST"))
    def create(self, request: PageRequest) -> Response:
        """Create a user."""
        inputs = Inputs(request.form)
        if request.is_post:
            # Raises before the user is created, if no link can be made.
            request.base_of_links()
            name = inputs.require("name", parsing.parse_name, "")
            role = inputs.require("role", parse_choice(Role), Role.READER)
            if not inputs.errors and (user := _create(request, inputs, name, role)) is not None:
                return _invite(request, user)
        return request.render("users/new.html", errors=inputs.errors, roles=ROLE_TEXTS)

    @page("/{id:number}/invite", methods=("POST",))
    def invite(self, request: PageRequest) -> Response:
        """Create a new link with which another user sets a password."""
        user = _get(request)
        return _refuse_own_password(request) if user.id == request.user.id else _invite(request, user)

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """One user."""
        return _render(request, _get(request), {})

    @page("/{id:number}/role", methods=("POST",))
    def change_role(self, request: PageRequest) -> Response:
        """Change the role of a user."""
        user, inputs = _get(request), Inputs(request.form)
        role = inputs.require("role", parse_choice(Role), user.role)
        if inputs.errors:
            return _render(request, user, inputs.errors)
        request.change(ChangeUser(context=request.context, user_id=user.id, role=role))
        message = _("%(name)s now has the role %(role)s.", name=user.name, role=_(role.value))
        return _redirect(request, user, message)

    @page("/{id:number}/password", methods=("POST",))
    def set_password(self, request: PageRequest) -> Response:
        """Set the password of another user, and end all of their sessions."""
        user, errors = _get(request), dict[str, str]()
        if user.id == request.user.id:
            return _refuse_own_password(request)
        password = read_new_password(request.form, user.name, errors)
        if errors:
            return _render(request, user, errors)
        request.change(
            ChangeUser(
                context=request.context, user_id=user.id, password_hash=hash_password(request, password)
            )
        )
        message = _("%(name)s has a new password, and was signed out everywhere.", name=user.name)
        return _redirect(request, user, message)

    @page("/{id:number}/second-factor/off", methods=("GET", "POST"))
    def turn_factor_off(self, request: PageRequest) -> Response:
        """Turn off the second factor of a user who has lost the app."""
        user = _get(request)
        if user.id == request.user.id:
            sentence = _("Turn it off under “My account”, with your password and a code.")
            return request.message_page(Message(403, _("This is your own second factor"), sentence))
        if request.is_post:
            request.change(DisableSecondFactor(context=request.context, user_id=user.id))
            message = _("The second factor of %(name)s was turned off.", name=user.name)
            return _redirect(request, user, message)
        sentences = [
            _(
                "After that, the password alone is enough until another second factor is set up. Every "
                "session of this user ends at once."
            ),
            _(
                "Make sure that the request comes from the user: a person who has learned the password "
                "could ask, too."
            ),
        ]
        title = _("Turn off the second factor of %(name)s?", name=user.name)
        return request.confirm(title, sentences, button=_("Turn it off"), back=f"/users/{user.id}")

    @page("/{id:number}/disable", methods=("GET", "POST"))
    def disable(self, request: PageRequest) -> Response:
        """Disable a user."""
        user = _get(request)
        if request.is_post:
            request.change(ChangeUser(context=request.context, user_id=user.id, is_disabled=True))
            message = _("%(name)s was disabled and signed out everywhere.", name=user.name)
            return _redirect(request, user, message)
        sentences = [_("Every session ends at once. The events of this user are kept.")]
        if user.id == request.user.id:
            sentences.append(
                _("This is you: you will be signed out, and only another administrator can enable you again.")
            )
        title = _("Disable %(name)s?", name=user.name)
        return request.confirm(title, sentences, button=_("Disable"), back=f"/users/{user.id}")

    @page("/{id:number}/enable", methods=("POST",))
    def enable(self, request: PageRequest) -> Response:
        """Enable a disabled user, with the same password as before."""
        user = _get(request)
        request.change(ChangeUser(context=request.context, user_id=user.id, is_disabled=False))
        return _redirect(request, user, _("%(name)s may sign in again.", name=user.name))

    @page("/{id:number}/sessions/end", methods=("POST",))
    def end_sessions(self, request: PageRequest) -> Response:
        """End the sessions of a user, but not the current session."""
        user = _get(request)
        for session in request.ask(lambda tx: sessions.list_sessions(tx, user.id, request.now)):
            if session.token_hash != request.session.token_hash:
                request.change(EndSession(context=request.context, token_hash=session.token_hash))
        if user.id == request.user.id:
            message = _("%(name)s was signed out everywhere else.", name=user.name)
        else:
            message = _("%(name)s was signed out everywhere.", name=user.name)
        return _redirect(request, user, message)


def _get(request: PageRequest) -> User:
    """The user in the address. Raises ``UnknownUser``."""
    number = require_id(request.path_params["id"])
    user = request.ask(lambda tx: find_user_by_id(tx, number))
    if user is None:
        raise UnknownUser
    return user


def _refuse_own_password(request: PageRequest) -> Response:
    # A person who finds an administrator's browser open must not be able to take over the account.
    sentence = _("Change it under “My account”, where you must type the current one.")
    return request.message_page(Message(403, _("This is your own password"), sentence))


def _create(request: PageRequest, inputs: Inputs, name: str, role: Role) -> User | None:
    # A random password, which is discarded.
    password_hash = hash_password(request, sessions.new_session_token())
    create = CreateUser(context=request.context, name=name, role=role, password_hash=password_hash)
    try:
        user: User = request.change(create)
    except UserExists as error:
        inputs.errors["name"] = message_for(error).sentence
        return None
    return user


def _invite(request: PageRequest, user: User) -> Response:
    """Create and show a new link; only this response contains it."""
    base, token = request.base_of_links(), sessions.new_session_token()
    hash_ = sessions.hash_session_token(token)
    request.change(InviteUser(context=request.context, user_id=user.id, token_hash=hash_))
    return request.render(
        "users/invited.html",
        invited=user,
        link=f"{base}{BASE}/invitation?token={token}",
        expires_at=request.now + INVITATION_TIME,
    )


def _render(request: PageRequest, user: User, errors: dict[str, str]) -> Response:
    return request.render(
        "users/show.html",
        shown_user=user,
        sessions=request.ask(
            lambda tx: sessions.list_sessions(tx, user.id, request.now, request.browser.idle)
        ),
        current_session=request.session.token_hash,
        has_factor=request.ask(lambda tx: store.has_factor(tx, user.id)),
        invited_until=request.ask(lambda tx: find_invitation_end(tx, user.id)),
        errors=errors,
        roles=ROLE_TEXTS,
        min_length=MIN_PASSWORD_LENGTH,
    )


def _redirect(request: PageRequest, user: User, message: str) -> Response:
    # Users who have removed their own right can no longer open this page.
    current = request.ask(lambda tx: find_user_by_id(tx, request.user.id))
    if current is None or not model.may(current.role, Right.ADMINISTER):
        return request.redirect("/account", message)
    return request.redirect(f"/users/{user.id}", message)
