"""The program: all commands, and the messages about those that fail."""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
import typer.main

from keywright.cli import (
    activations,
    api_keys,
    backup,
    connections,
    customers,
    doctor,
    events,
    exports,
    leases,
    license_files,
    license_lists,
    listening,
    mails,
    policies,
    products,
    secret,
    server,
    signing_keys,
    status,
    tables,
    users,
    webhooks,
)
from keywright.cli.options import epilog, paragraphs
from keywright.core.errors import KeywrightError

app = typer.Typer(
    name="keywright",
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
server.add_to(app)
backup.add_to(app)
doctor.add_to(app)
exports.add_to(app)
events.add_to(app)
status.add_to(app)
license_files.add_to(license_lists.app)
listening.add_to(webhooks.app)
for group in (
    *(
        license_lists.app,
        activations.app,
        leases.app,
        leases.usage_app,
        policies.app,
        products.app,
        customers.app,
        connections.app,
    ),
    *(tables.app, api_keys.app, users.app, secret.app, signing_keys.app, webhooks.app, mails.app),
    policies.generator_app,
):
    app.add_typer(group)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        server.version()
        raise typer.Exit


@app.callback()
def keywright(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take the options of the program itself; ``app`` has its help."""


@cache
def command_tree() -> Any:
    """The tree of all commands, made once per process: that takes longer than many a command."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and end it: status 0, 1 when it could not be done, 2 when it was used wrongly."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show must not stop a command halfway.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    sys.exit(_run(arguments))


class _Failure(NamedTuple):
    """The end of a command that could not be done; ``code`` is for programs, that of v3 where it has one."""

    sentence: str
    code: str = "error"
    status: int = 1
    members: Mapping[str, Any] = {}


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return command_tree()(arguments, prog_name="keywright", standalone_mode=False) or 0
    except typer.TyperException as problem:
        failure = _wrong_usage(problem)
    except typer.Abort:
        failure = _Failure("nothing was done.", "aborted")
    except KeywrightError as problem:
        failure = _Failure(sentence(problem), problem.problem, members=problem.problem_members())
    except OSError as problem:
        failure = _Failure(sentence(problem))
    except Exception as problem:
        failure = _unexpected(problem)
    _report(failure, as_json="--json" in (sys.argv if arguments is None else arguments))
    return failure.status


def _wrong_usage(problem: typer.TyperException) -> _Failure:
    # pydantic, which reads the options for typer, puts this before every reason.
    message = " ".join(problem.format_message().replace(": Value error, ", ": ").split())
    context = getattr(problem, "ctx", None)
    if message:
        command = context.command_path if context else _command_of(sys.argv)
        end = "" if message.endswith("?") else "."
        message = f"{message.rstrip('.')}{end} See `{command} --help`."
    return _Failure(message, "wrong_usage", problem.exit_code)


def _command_of(words: Sequence[str]) -> str:
    """The command that was called, as far as the words before the first option tell."""
    command: Any = command_tree()
    path = ["keywright"]
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path.append(word)
    return " ".join(path)


def _unexpected(problem: Exception) -> _Failure:
    from keywright.config.sources import is_debugging

    if is_debugging():
        raise problem
    return _Failure(
        f"something unexpected happened ({type(problem).__name__}: {problem}); "
        "run with KEYWRIGHT_DEBUG=1 for the details."
    )


def sentence(problem: KeywrightError | OSError) -> str:
    """The sentence about this problem: what is wrong, and what to do."""
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        return f"{where}{problem.strerror or problem}."
    text = problem.say(problem.hint or problem.sentence)
    return text if problem.hint else text[:1].lower() + text[1:]


def _report(failure: _Failure, *, as_json: bool) -> None:
    """Print the failure on standard error; for programs, as one line of JSON."""
    if as_json and failure.sentence:
        typer.echo(
            json.dumps({"code": failure.code, "detail": failure.sentence, **failure.members}), err=True
        )
    elif failure.sentence:
        typer.echo(f"{typer.style('Error:', fg='red', bold=True)} {failure.sentence}", err=True)
