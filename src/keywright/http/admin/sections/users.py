"""Users: who may sign in to these pages, and what each may do."""

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import UnknownUser, UserExists
from keywright.http.admin.role_texts import ROLE_TEXTS
from keywright.http.pages.error_messages import Message, message_for
from keywright.http.pages.inputs import Inputs, number_of, one_of
from keywright.http.pages.page import Section, page
from keywright.http.pages.passwords import hashed, new_password
from keywright.http.pages.request import PageRequest
from keywright.identity import rights, second_factors, sessions
from keywright.identity.commands import ChangeUser, CreateUser, DisableSecondFactor, EndSession
from keywright.identity.model import Role, User
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.rights import Right
from keywright.identity.store import find_user_by_id, list_users

#: Whoever finds an administrator's browser open must not have the account for good.
_YOUR_OWN = Message(
    403,
    "This is your own password",
    "Change it under “My account”: whoever does has to know the one that it is now.",
)
_YOUR_OWN_FACTOR = Message(
    403,
    "This is your own second factor",
    "Turn it off under “My account”: that takes the password and a code.",
)


class Users(Section):
    """Who may sign in."""

    label = "Users"
    path = "/users"
    icon = "users"
    right = Right.ADMINISTER

    @page("")
    def browse(self, request: PageRequest) -> Response:
        """Every user, disabled ones last."""
        users = request.ask(list_users)
        users.sort(key=lambda one: (one.disabled_at is not None, one.name.casefold()))
        with_factor = request.ask(second_factors.list_users_with_factor)
        return request.render("users/list.html", users=users, with_factor=with_factor)

    @page("/new", methods=("GET", "POST"))
    def create(self, request: PageRequest) -> Response:
        """Let somebody sign in."""
        inputs = Inputs(request.form)
        if request.is_post:
            name = inputs.need("name", parsing.parse_name, "")
            role = inputs.need("role", one_of(Role), Role.READER)
            password = new_password(request.form, inputs.errors)
            if not inputs.errors and (made := _made(request, inputs, name, role, password)) is not None:
                return request.redirect(
                    f"/users/{made.id}", f"The user {name} is made. Tell them the password yourself."
                )
        return request.render(
            "users/new.html",
            status=422 if inputs.errors else 200,
            errors=inputs.errors,
            roles=ROLE_TEXTS,
            min_length=MIN_PASSWORD_LENGTH,
        )

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """One user, and what can be changed."""
        return _page(request, _get(request), {})

    @page("/{id:number}/role", methods=("POST",))
    def change_role(self, request: PageRequest) -> Response:
        """Let a user do more, or less."""
        user, inputs = _get(request), Inputs(request.form)
        role = inputs.need("role", one_of(Role), user.role)
        if inputs.errors:
            return _page(request, user, inputs.errors)
        request.change(ChangeUser(context=request.context, user_id=user.id, role=role))
        return _done(request, user, f"{user.name} has the role {role.value} now.")

    @page("/{id:number}/password", methods=("POST",))
    def set_password(self, request: PageRequest) -> Response:
        """Give another user another password, and end every session that the old one has opened."""
        user, errors = _get(request), dict[str, str]()
        if user.id == request.user.id:
            return request.message_page(_YOUR_OWN)
        password = new_password(request.form, errors)
        if errors:
            return _page(request, user, errors)
        request.change(
            ChangeUser(context=request.context, user_id=user.id, password_hash=hashed(request, password))
        )
        return _done(request, user, f"{user.name} has a new password, and is signed out everywhere.")

    @page("/{id:number}/second-factor/off", methods=("GET", "POST"))
    def turn_factor_off(self, request: PageRequest) -> Response:
        """Let a user who has lost their app sign in with the password alone."""
        user = _get(request)
        if user.id == request.user.id:
            return request.message_page(_YOUR_OWN_FACTOR)
        if request.is_post:
            request.change(DisableSecondFactor(context=request.context, user_id=user.id))
            return _done(request, user, f"The second factor of {user.name} is turned off.")
        sentences = [
            "The password alone is enough then, until another second factor is set up. "
            "Every session of this user ends at once.",
            "Be sure who asks for this: a person who has learned the password may be the one.",
        ]
        title = f"Turn off the second factor of {user.name}?"
        return request.confirm(title, sentences, button="Turn it off", back=f"/users/{user.id}")

    @page("/{id:number}/disable", methods=("GET", "POST"))
    def disable(self, request: PageRequest) -> Response:
        """Let a user sign in no more."""
        user = _get(request)
        if request.is_post:
            request.change(ChangeUser(context=request.context, user_id=user.id, is_disabled=True))
            return _done(request, user, f"{user.name} is disabled, and signed out everywhere.")
        sentences = ["Every session ends at once. What this user did stays known."]
        if user.id == request.user.id:
            sentences.append("This is you: you will be signed out, and cannot come back by yourself.")
        return request.confirm(f"Disable {user.name}?", sentences, button="Disable", back=f"/users/{user.id}")

    @page("/{id:number}/enable", methods=("POST",))
    def enable(self, request: PageRequest) -> Response:
        """Let a disabled user sign in again, with the password they had."""
        user = _get(request)
        request.change(ChangeUser(context=request.context, user_id=user.id, is_disabled=False))
        return _done(request, user, f"{user.name} may sign in again.")

    @page("/{id:number}/sessions/end", methods=("POST",))
    def end_sessions(self, request: PageRequest) -> Response:
        """Sign a user out everywhere; oneself, everywhere else."""
        user = _get(request)
        for session in request.ask(lambda tx: sessions.list_sessions(tx, user.id, request.now)):
            if session.token_hash != request.session.token_hash:
                request.change(EndSession(context=request.context, token_hash=session.token_hash))
        return _done(request, user, f"{user.name} is signed out {_everywhere(request, user)}.")


def _get(request: PageRequest) -> User:
    """The user that the address names. Raises ``UnknownUser``."""
    number = number_of(request.path_params["id"])
    user = request.ask(lambda tx: find_user_by_id(tx, number))
    if user is None:
        raise UnknownUser
    return user


def _everywhere(request: PageRequest, user: User) -> str:
    """Where a session ends; whoever ends their own stays here."""
    return "everywhere else" if user.id == request.user.id else "everywhere"


def _made(request: PageRequest, inputs: Inputs, name: str, role: Role, password: str) -> User | None:
    create = CreateUser(
        context=request.context, name=name, role=role, password_hash=hashed(request, password)
    )
    try:
        user: User = request.change(create)
    except UserExists as error:
        inputs.errors["name"] = message_for(error).sentence
        return None
    return user


def _page(request: PageRequest, user: User, errors: dict[str, str]) -> Response:
    return request.render(
        "users/show.html",
        status=422 if errors else 200,
        person=user,
        sessions=request.ask(lambda tx: sessions.list_sessions(tx, user.id, request.now)),
        mine=request.session.token_hash,
        has_factor=request.ask(lambda tx: second_factors.has_factor(tx, user.id)),
        errors=errors,
        roles=ROLE_TEXTS,
        min_length=MIN_PASSWORD_LENGTH,
    )


def _done(request: PageRequest, user: User, said: str) -> Response:
    # Whoever has taken the right from themselves may not see this page any more.
    is_here = request.ask(lambda tx: find_user_by_id(tx, request.user.id))
    if is_here is None or not rights.may(is_here.role, Right.ADMINISTER):
        return request.redirect("/account", said)
    return request.redirect(f"/users/{user.id}", said)
