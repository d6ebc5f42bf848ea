"""``keywright user …``"""

import sys
from typing import Annotated, Any

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, WrongUsage, command, with_installation, with_installation_made
from keywright.core.errors import UnknownUser
from keywright.core.parsing import parse_name
from keywright.identity.model import ChangeUser, CreateUser, DisableSecondFactor, Role, User

app = typer.Typer(no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", parser=parse_name, help="The name to sign in with.")]
_IsFromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input instead of asking.")
]


@command(
    app,
    "keywright user create ada --role administrator",
    "pass show keywright | keywright user create bob --role support --password-stdin",
)
@with_installation_made
def create(
    here: Installation,
    *,
    name: _Name,
    role: Annotated[Role, typer.Option(metavar="ROLE", help="administrator, support or reader; see above.")],
    is_from_stdin: _IsFromStdin = False,
) -> None:
    """Make a user of the administration pages.

    An administrator may do everything, support may view and change licenses, a reader may only view. You are
    asked for the password twice; it must have at least 12 characters and not be easy to guess.
    """
    password_hash = _new_password_hash(name, is_from_stdin=is_from_stdin)
    here.change(CreateUser(context=here.context, name=name, role=role, password_hash=password_hash))
    output.print_line(f"User {name} ({role.value}) created.")


@command(app, name="list")
@with_installation
def list_users(here: Installation, as_json: AsJson = False) -> None:
    """List the users, disabled ones included, oldest first."""
    from keywright.db import run_read
    from keywright.identity import store as identity_store

    users = run_read(here.storage, identity_store.list_users)
    if as_json:
        output.print_json_array(map(output.user_json, users))
        return
    columns = ("id", "name", "role", "created at", "last signed in at", "disabled at")
    output.print_table(columns, map(_row, users))


@command(app, "keywright user password ada")
@with_installation
def password(here: Installation, *, name: _Name, is_from_stdin: _IsFromStdin = False) -> None:
    """Set a new password for a user, and end their sessions.

    You are asked for the password twice; it must have at least 12 characters and not be easy to guess.
    """
    user = _get_user(here, name)
    _change(here, user, password_hash=_new_password_hash(name, is_from_stdin=is_from_stdin))
    output.print_line(f"User {name} has a new password, and is signed out everywhere.")


@command(app)
@with_installation
def disable(here: Installation, *, name: _Name) -> None:
    """Disable a user, and end their sessions at once.

    Their events stay.
    """
    _change(here, _get_user(here, name), is_disabled=True)
    output.print_line(f"User {name} is disabled, and is signed out everywhere.")


@command(app)
@with_installation
def enable(here: Installation, *, name: _Name) -> None:
    """Let a disabled user sign in again, with their old password."""
    _change(here, _get_user(here, name), is_disabled=False)
    output.print_line(f"User {name} may sign in again.")


@command(app, "keywright user role bob reader", name="role")
@with_installation
def change_role(
    here: Installation,
    *,
    name: _Name,
    role: Annotated[
        Role, typer.Argument(metavar="ROLE", help="administrator, support or reader; see above.")
    ],
) -> None:
    """Change the role of a user, from now on.

    An administrator may do everything, support may view and change licenses, a reader may only view.
    """
    _change(here, _get_user(here, name), role=role)
    output.print_line(f"User {name} now has the role {role.value}.")


@command(app, "keywright user reset-second-factor bob", name="reset-second-factor")
@with_installation
def reset_second_factor(here: Installation, *, name: _Name) -> None:
    """Turn off the second factor of a user who has lost it, and end their sessions at once.

    The password alone is then enough, until the user sets up a new second factor.
    """
    user = _get_user(here, name)
    here.change(DisableSecondFactor(context=here.context, user_id=user.id))
    output.print_line(f"The second factor of {name} is turned off, and {name} is signed out everywhere.")


@command(app)
@with_installation
def link(here: Installation) -> None:
    """Print a link to make the first administrator in a browser.

    It is valid for 30 minutes, and only while there is no user. `keywright serve` prints one when it starts.
    """
    from keywright.config.values import web_address
    from keywright.db import run_read
    from keywright.identity import sessions

    token = run_read(here.storage, lambda tx: sessions.setup_token(tx, here.now))
    settings = here.settings
    admin = settings.admin_host_and_port
    here_url = settings.public_url or web_address(settings.host, settings.port or "PORT")
    output.print_setup_link(here_url if admin is None else web_address(*admin), token)


def _get_user(here: Installation, name: str) -> User:
    from keywright.db import run_read
    from keywright.identity.store import find_user

    user = run_read(here.storage, lambda tx: find_user(tx, name))
    if user is None:
        raise UnknownUser
    return user


def _change(here: Installation, user: User, **changes: Any) -> None:
    here.change(ChangeUser(context=here.context, user_id=user.id, **changes))


def _new_password_hash(name: str, *, is_from_stdin: bool) -> str:
    from keywright.identity import passwords

    password = sys.stdin.readline().rstrip("\r\n") if is_from_stdin else _ask_password()
    if len(password) < passwords.MIN_PASSWORD_LENGTH:
        raise WrongUsage(f"The password must have at least {passwords.MIN_PASSWORD_LENGTH} characters")
    if len(password) > passwords.MAX_PASSWORD_LENGTH:
        raise WrongUsage(f"The password must have at most {passwords.MAX_PASSWORD_LENGTH:,} characters")
    if passwords.is_easy(password, name):
        raise WrongUsage(
            "This password is easy to guess: it is little more than common words, sequences, or the name"
        )
    return passwords.hash_password(password)


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise WrongUsage("There is no terminal to ask for the password: use --password-stdin")
    asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return asked


def _row(one: User) -> tuple[object, ...]:
    times = map(output.format_time, (one.created_at, one.last_signed_in_at, one.disabled_at))
    return (one.id, one.name, one.role.value, *times)
