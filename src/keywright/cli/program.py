"""The ``keywright`` program: its commands, and the error messages of those that fail."""

import gc
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from keywright.cli.helptext import epilog, paragraphs, sentence

if TYPE_CHECKING:
    pass

#: Commands and groups of commands: the module and the name in it, and the line in the program's help.
_COMMANDS = {
    "serve": (
        "server.add_to",
        "Start the server; Ctrl-C or SIGTERM stops it after it has answered all accepted calls.",
    ),
    "init": (
        "server.add_to",
        "Create the data directory, the secret and the database, and list what was created.",
    ),
    "copy": (
        "server.add_to",
        "Copy everything into another database, such as from SQLite to PostgreSQL.",
    ),
    "config": (
        "server.add_to",
        "Show every setting in force and its source; secrets are masked.",
    ),
    "version": ("server.add_to", "Show the version."),
    "backup": (
        "backup.add_to",
        "Back up the database to one file, from which `keywright restore` restores everything. The server "
        "keeps running.",
    ),
    "restore": (
        "backup.add_to",
        "Restore a backup into the installation that the settings name, and check it as `keywright "
        "doctor` does. Stop the server first.",
    ),
    "doctor": (
        "doctor.add_to",
        "Check that the database is consistent. The server may keep running.",
    ),
    "export": (
        "exports.add_to",
        "Export all records of a kind, with whole license keys and tokens, as CSV or JSON Lines.",
    ),
    "events": (
        "events.add_to",
        "List events, oldest first: each exactly once.",
    ),
    "status": ("status.add_to", "Show whether the server runs, and what is in its database."),
    "license": ("license_files.app", "Make, show, change and activate licenses."),
    "activation": ("activations.app", "Show and release the devices of a license."),
    "lease": ("leases.app", "Show and end leases of floating licenses."),
    "transfer": ("transfers.app", "Transfer licenses to other customers; count claimed licenses."),
    "usage": ("leases.usage_app", "Show the usage of a license's meters."),
    "policy": ("policies.app", "Manage policies, the recipes for licenses, and make licenses from them."),
    "product": ("products.app", "Manage products: what licenses are for."),
    "release": (
        "releases.app",
        "Create, publish and yank releases from build scripts, and explain who is offered one.",
    ),
    "notice": (
        "notices.app",
        "Create, publish and withdraw notices to users of certain versions, and mail those affected.",
    ),
    "customer": (
        "customers.app",
        "Manage customers; export or erase their data.",
    ),
    "connection": (
        "shop_events.app",
        "Manage the connections to shops that send their sales here, and the events of those shops.",
    ),
    "import": ("tables.app", "Import licenses from other systems."),
    "apikey": ("api_keys.app", "Create, list and revoke API keys."),
    "user": ("users.app", "Manage who may sign in to the administration pages."),
    "secret": ("secret.app", "Rotate the secret."),
    "signing-key": ("signing_keys.app", "Show, rotate and withdraw the keys that sign answers."),
    "webhook": ("listening.app", "Manage webhooks, which notify your systems of events."),
    "mail": ("mails.app", "Show mails, and test the SMTP server."),
    "generator": ("policies.generator_app", "The old name of `keywright policy`, with the JSON of v2."),
}
#: The number of new objects after which the garbage collector runs. Imports create many objects and no
#: garbage; a server that starts creates fewer.
_OBJECTS_BEFORE_COLLECTION = 500_000


class _Program(TyperGroup):
    """All commands. The module of a command is imported only when that command is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _load(str(command.name)), rest


@cache
def _load(name: str) -> Any:
    """Import a command, or a group of commands."""
    module, _, part = _COMMANDS[name][0].partition(".")
    found = getattr(import_module(f"keywright.cli.{module}"), part)
    app = typer.Typer()
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, help=_COMMANDS[name][1])
    else:
        found(app)
    return typer.main.get_group(app).commands[name]


app = typer.Typer(
    name="keywright",
    cls=_Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=paragraphs(
        """Keywright, a license server: activates, validates and deactivates license keys.

        Settings come from keywright.toml, KEYWRIGHT_… environment variables and options; `keywright config`
        shows those in force.
        """
    ),
    epilog=epilog(
        "keywright serve --demo            try it out",
        "keywright license create --max 3  sell a license",
        "keywright license show KEY        see what became of it",
        "keywright license create --help   learn more about a command",
    ),
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from keywright.cli import server

        server.version()
        raise typer.Exit


@app.callback()
def keywright(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Accept the options of the program itself; its help is in ``app``."""


@cache
def program() -> Any:
    """Return the program; each command is imported when it is called."""
    group: Any = typer.main.get_command(app)
    group.commands = {name: TyperCommand(name, help=text) for name, (_, text) in _COMMANDS.items()}
    return group


@cache
def command_tree() -> Any:
    """Return the program with all commands imported, for callers that walk the whole tree."""
    group: Any = typer.main.get_command(app)
    group.commands = {name: _load(name) for name in _COMMANDS}
    return group


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit: status 0, 1 if the command failed, 2 for wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show must not stop a command halfway.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    sys.exit(_run(arguments))


class _Failure(NamedTuple):
    """Why a command failed. ``code`` is for programs: the error's code in v3, if it has one."""

    sentence: str
    code: str = "error"
    status: int = 1
    members: Mapping[str, Any] = {}


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return program()(arguments, prog_name="keywright", standalone_mode=False) or 0
    except typer.TyperException as problem:
        failure = _wrong_usage(problem)
    except typer.Abort:
        failure = _Failure("nothing was done.", "aborted")
    except Exception as problem:
        failure = _describe(problem)
    _report(failure, as_json="--json" in (sys.argv if arguments is None else arguments))
    return failure.status


def _wrong_usage(problem: typer.TyperException) -> _Failure:
    # pydantic, which parses the options for typer, puts this before every reason.
    message = " ".join(problem.format_message().replace(": Value error, ", ": ").split())
    context = getattr(problem, "ctx", None)
    if message:
        command = context.command_path if context else _command_of(sys.argv)
        end = "" if message.endswith("?") else "."
        message = f"{message.rstrip('.')}{end} See `{command} --help`."
    return _Failure(message, "wrong_usage", problem.exit_code)


def _command_of(words: Sequence[str]) -> str:
    """Return the full name of the command that was called, from the words before its first option."""
    command: Any = command_tree()
    path = ["keywright"]
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path.append(word)
    return " ".join(path)


def _describe(problem: Exception) -> _Failure:
    from keywright.config.sources import is_debugging
    from keywright.core.errors import KeywrightError

    if isinstance(problem, KeywrightError):
        return _Failure(sentence(problem), problem.problem, members=problem.problem_members())
    if isinstance(problem, OSError):
        return _Failure(sentence(problem))
    if is_debugging():
        raise problem
    return _Failure(
        f"unexpected error ({type(problem).__name__}: {problem}). Run with KEYWRIGHT_DEBUG=1 for details."
    )


def _report(failure: _Failure, *, as_json: bool) -> None:
    """Print the failure on standard error; for programs, as one line of JSON."""
    if as_json and failure.sentence:
        typer.echo(
            json.dumps({"code": failure.code, "detail": failure.sentence, **failure.members}), err=True
        )
    elif failure.sentence:
        typer.echo(f"{typer.style('Error:', fg='red', bold=True)} {failure.sentence}", err=True)
