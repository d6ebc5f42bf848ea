"""Users: who may sign in to these pages, and what each may do."""

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import UnknownUser, UserExists
from keywright.http.admin.sections.account import MAY
from keywright.http.pages.error_messages import Said, say
from keywright.http.pages.inputs import Inputs, number_of, one_of
from keywright.http.pages.page import Area, Visit, page
from keywright.http.pages.passwords import hashed, new_password
from keywright.identity import rights, second_factors, sessions
from keywright.identity.commands import ChangeUser, CreateUser, DisableSecondFactor, EndSession
from keywright.identity.model import Role, User
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.rights import Right
from keywright.identity.store import find_user_by_id, list_users

#: Whoever finds an administrator's browser open must not have the account for good.
_YOUR_OWN = Said(
    403,
    "This is your own password",
    "Change it under “My account”: whoever does has to know the one that it is now.",
)
_YOUR_OWN_FACTOR = Said(
    403,
    "This is your own second factor",
    "Turn it off under “My account”: that takes the password and a code.",
)


class Users(Area):
    """Who may sign in."""

    menu_label = "Users"
    path = "/users"
    icon = "users"
    right = Right.ADMINISTER

    @page("")
    def browse(self, visit: Visit) -> Response:
        """Every user, disabled ones last."""
        users = visit.ask(list_users)
        users.sort(key=lambda one: (one.disabled_at is not None, one.name.casefold()))
        with_factor = visit.ask(second_factors.list_users_with_factor)
        return visit.page("users/list.html", users=users, with_factor=with_factor)

    @page("/new", methods=("GET", "POST"))
    def create(self, visit: Visit) -> Response:
        """Let somebody sign in."""
        inputs = Inputs(visit.form)
        if visit.is_post:
            name = inputs.need("name", parsing.parse_name, "")
            role = inputs.need("role", one_of(Role), Role.READER)
            password = new_password(visit.form, inputs.errors)
            if not inputs.errors and (made := _made(visit, inputs, name, role, password)) is not None:
                return visit.back(
                    f"/users/{made.id}", f"The user {name} is made. Tell them the password yourself."
                )
        return visit.page(
            "users/new.html",
            status=422 if inputs.errors else 200,
            form=visit.form,
            errors=inputs.errors,
            roles=MAY,
            min_length=MIN_PASSWORD_LENGTH,
        )

    @page("/{id:number}")
    def show(self, visit: Visit) -> Response:
        """One user, and what can be changed."""
        return _page(visit, _get(visit), {})

    @page("/{id:number}/role", methods=("POST",))
    def change_role(self, visit: Visit) -> Response:
        """Let a user do more, or less."""
        user, inputs = _get(visit), Inputs(visit.form)
        role = inputs.need("role", one_of(Role), user.role)
        if inputs.errors:
            return _page(visit, user, inputs.errors)
        visit.change(ChangeUser(**visit.command_fields(), user_id=user.id, role=role))
        return _done(visit, user, f"{user.name} has the role {role.value} now.")

    @page("/{id:number}/password", methods=("POST",))
    def set_password(self, visit: Visit) -> Response:
        """Give another user another password, and end every session that the old one has opened."""
        user, errors = _get(visit), dict[str, str]()
        if user.id == visit.user.id:
            return visit.say(_YOUR_OWN)
        password = new_password(visit.form, errors)
        if errors:
            return _page(visit, user, errors)
        visit.change(
            ChangeUser(**visit.command_fields(), user_id=user.id, password_hash=hashed(visit, password))
        )
        return _done(visit, user, f"{user.name} has a new password, and is signed out everywhere.")

    @page("/{id:number}/second-factor/off", methods=("GET", "POST"))
    def turn_factor_off(self, visit: Visit) -> Response:
        """Let a user who has lost their app sign in with the password alone."""
        user = _get(visit)
        if user.id == visit.user.id:
            return visit.say(_YOUR_OWN_FACTOR)
        if visit.is_post:
            visit.change(DisableSecondFactor(**visit.command_fields(), user_id=user.id))
            return _done(visit, user, f"The second factor of {user.name} is turned off.")
        sentences = [
            "The password alone is enough then, until another second factor is set up. "
            "Every session of this user ends at once.",
            "Be sure who asks for this: a person who has learned the password may be the one.",
        ]
        title = f"Turn off the second factor of {user.name}?"
        return visit.confirm(title, sentences, button="Turn it off", back=f"/users/{user.id}")

    @page("/{id:number}/disable", methods=("GET", "POST"))
    def disable(self, visit: Visit) -> Response:
        """Let a user sign in no more."""
        user = _get(visit)
        if visit.is_post:
            visit.change(ChangeUser(**visit.command_fields(), user_id=user.id, is_disabled=True))
            return _done(visit, user, f"{user.name} is disabled, and signed out everywhere.")
        sentences = ["Every session ends at once. What this user did stays known."]
        if user.id == visit.user.id:
            sentences.append("This is you: you will be signed out, and cannot come back by yourself.")
        return visit.confirm(f"Disable {user.name}?", sentences, button="Disable", back=f"/users/{user.id}")

    @page("/{id:number}/enable", methods=("POST",))
    def enable(self, visit: Visit) -> Response:
        """Let a disabled user sign in again, with the password they had."""
        user = _get(visit)
        visit.change(ChangeUser(**visit.command_fields(), user_id=user.id, is_disabled=False))
        return _done(visit, user, f"{user.name} may sign in again.")

    @page("/{id:number}/sessions/end", methods=("POST",))
    def end_sessions(self, visit: Visit) -> Response:
        """Sign a user out everywhere; oneself, everywhere else."""
        user = _get(visit)
        for session in visit.ask(lambda tx: sessions.list_sessions(tx, user.id, visit.now)):
            if session.token_hash != visit.session.token_hash:
                visit.change(EndSession(**visit.command_fields(), token_hash=session.token_hash))
        return _done(visit, user, f"{user.name} is signed out {_everywhere(visit, user)}.")


def _get(visit: Visit) -> User:
    """The user that the address names. Raises ``UnknownUser``."""
    number = number_of(visit.path["id"])
    user = visit.ask(lambda tx: find_user_by_id(tx, number))
    if user is None:
        raise UnknownUser
    return user


def _everywhere(visit: Visit, user: User) -> str:
    """Where a session ends; whoever ends their own stays here."""
    return "everywhere else" if user.id == visit.user.id else "everywhere"


def _made(visit: Visit, inputs: Inputs, name: str, role: Role, password: str) -> User | None:
    create = CreateUser(**visit.command_fields(), name=name, role=role, password_hash=hashed(visit, password))
    try:
        user: User = visit.change(create)
    except UserExists as error:
        inputs.errors["name"] = say(error).sentence
        return None
    return user


def _page(visit: Visit, user: User, errors: dict[str, str]) -> Response:
    return visit.page(
        "users/show.html",
        status=422 if errors else 200,
        person=user,
        sessions=visit.ask(lambda tx: sessions.list_sessions(tx, user.id, visit.now)),
        mine=visit.session.token_hash,
        has_factor=visit.ask(lambda tx: second_factors.has_factor(tx, user.id)),
        errors=errors,
        roles=MAY,
        min_length=MIN_PASSWORD_LENGTH,
    )


def _done(visit: Visit, user: User, said: str) -> Response:
    # Whoever has taken the right from themselves may not see this page any more.
    is_here = visit.ask(lambda tx: find_user_by_id(tx, visit.user.id))
    if is_here is None or not rights.may(is_here.role, Right.ADMINISTER):
        return visit.back("/account", said)
    return visit.back(f"/users/{user.id}", said)
