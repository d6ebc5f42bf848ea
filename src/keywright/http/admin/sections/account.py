"""One's own account."""

from starlette.responses import Response

from keywright.http.pages.attempts import Attempts
from keywright.http.pages.page import Area, Visit, page
from keywright.http.pages.passwords import hashed, is_right, new_password
from keywright.identity import sessions
from keywright.identity.commands import ChangeUser, EndSession
from keywright.identity.model import Role, Session
from keywright.identity.passwords import MIN_PASSWORD_LENGTH
from keywright.identity.rights import Right

#: What each role may do, as its owner is told.
MAY: dict[Role, str] = {
    Role.READER: "A reader may look at licenses and events, and change nothing.",
    Role.SUPPORT: "Support may look at everything about licenses, and change licenses and activations.",
    Role.ADMINISTRATOR: "An administrator may do everything.",
}
#: How often one's own password may be wrong in a minute.
_MOST_ATTEMPTS = 10


class Account(Area):
    """Who I am, where I am signed in, and my password."""

    menu_label = "My account"
    path = "/account"
    icon = "user"
    right = Right.LOOK

    def __init__(self) -> None:
        super().__init__()
        self._attempts = Attempts(user=_MOST_ATTEMPTS)

    @page("")
    def show(self, visit: Visit) -> Response:
        """What there is to know."""
        return _page(visit, {})

    @page("/password", methods=("POST",))
    def change_password(self, visit: Visit) -> Response:
        """Another password; whoever knew the old one is signed out everywhere else."""
        errors: dict[str, str] = {}
        source = {"user": str(visit.user.id)}
        self._attempts.begin(source)
        if is_right(visit, visit.user, visit.form.raw("password")):
            self._attempts.give_back(source)
        else:
            errors["password"] = "This is not your password."  # noqa: S105
        password = new_password(visit.form, errors)
        if errors:
            return _page(visit, errors)
        change = ChangeUser(
            **visit.command_fields(),
            user_id=visit.user.id,
            password_hash=hashed(visit, password),
            but_session=visit.session.token_hash,
        )
        visit.change(change)
        return visit.back("/account", "Your password is changed. You are signed out everywhere else.")

    @page("/sessions/end", methods=("POST",))
    def end_others(self, visit: Visit) -> Response:
        """Sign out everywhere else."""
        for session in _sessions(visit):
            if session.token_hash != visit.session.token_hash:
                visit.change(EndSession(**visit.command_fields(), token_hash=session.token_hash))
        return visit.back("/account", "You are signed out everywhere else.")


def _sessions(visit: Visit) -> list[Session]:
    return visit.ask(lambda tx: sessions.list_sessions(tx, visit.user.id, visit.now))


def _page(visit: Visit, errors: dict[str, str]) -> Response:
    return visit.page(
        "account.html",
        status=422 if errors else 200,
        errors=errors,
        may=MAY[visit.user.role],
        sessions=_sessions(visit),
        mine=visit.session.token_hash,
        has_factor=visit.visitor.signed_in is not None and visit.visitor.signed_in.has_factor,
        min_length=MIN_PASSWORD_LENGTH,
    )
