"""The program: all commands, and the messages about those that fail."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
import typer.main

from keywright.cli import (
    api_keys,
    backup,
    customers,
    doctor,
    exports,
    generators,
    licenses,
    secret,
    server,
    status,
    tables,
    users,
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
status.add_to(app)
for group in (licenses.app, generators.app, tables.app, customers.app, api_keys.app, users.app, secret.app):
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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and end it: status 0, 1 when it could not be done, 2 when it was used wrongly."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show must not stop a command halfway.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return app(arguments, prog_name="keywright", standalone_mode=False) or 0
    except typer.TyperException as problem:
        return _wrong_usage(problem)
    except typer.Abort:
        return _report_failure("nothing was done.")
    except (KeywrightError, OSError) as problem:
        return _report_failure(sentence(problem))
    except Exception as problem:
        return _report_unexpected(problem)


def _wrong_usage(problem: typer.TyperException) -> int:
    # pydantic, which reads the options for typer, puts this before every reason.
    message = " ".join(problem.format_message().replace(": Value error, ", ": ").split())
    context = getattr(problem, "ctx", None)
    if message:
        command = context.command_path if context else _command_of(sys.argv)
        end = "" if message.endswith("?") else "."
        _report_failure(f"{message.rstrip('.')}{end} See `{command} --help`.")
    return problem.exit_code


def _command_of(words: Sequence[str]) -> str:
    """The command that was called, as far as the words before the first option tell."""
    command: Any = typer.main.get_command(app)
    path = ["keywright"]
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path.append(word)
    return " ".join(path)


def _report_unexpected(problem: Exception) -> int:
    from keywright.config.sources import is_debugging

    if is_debugging():
        raise problem
    return _report_failure(
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


def _report_failure(message: str) -> int:
    typer.echo(f"{typer.style('Error:', fg='red', bold=True)} {message}", err=True)
    return 1
