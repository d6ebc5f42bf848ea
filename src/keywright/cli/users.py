"""``keywright user …``"""

import sys
from typing import Annotated

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import WrongUsage, command, parse_name, with_installation_made
from keywright.model import Role

app = typer.Typer(
    name="user",
    no_args_is_help=True,
    help="Make people known who will sign in to the administration pages, which are still to come.",
)

MIN_PASSWORD_LENGTH = 12


@command(
    app,
    "keywright user create ada --role administrator",
    "pass show keywright | keywright user create bob --role support --password-stdin",
)
@with_installation_made
def create(
    here: Installation,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", parser=parse_name, help="The name to sign in with.")],
    role: Annotated[Role, typer.Option(metavar="ROLE", help="administrator, support or reader; see above.")],
    is_from_stdin: Annotated[
        bool,
        typer.Option("--password-stdin", help="Read the password from standard input instead of asking."),
    ] = False,
) -> None:
    """Make a user. The password is asked for twice; it has at least 12 characters.

    administrator: everything. support: look at licenses, and change them. reader: look.
    """
    from keywright import access

    password = _read_password() if is_from_stdin else _ask_password()
    if len(password) < MIN_PASSWORD_LENGTH:
        raise WrongUsage(f"A password has at least {MIN_PASSWORD_LENGTH} characters; this one has fewer")
    access.create_user(here.storage, name, role, password, here.now)
    output.print_line(f"The user {name} ({role.value}) is made.")


def _read_password() -> str:
    return sys.stdin.readline().rstrip("\r\n")


def _ask_password() -> str:
    asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return asked
