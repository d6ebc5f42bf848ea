"""Options that several commands share, and parsers of options."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from typer.core import TyperCommand

from keywright.cli.helptext import epilog, paragraphs
from keywright.cli.installation import InstallationOptions, open_here
from keywright.core import parsing
from keywright.core.errors import InvalidLicenseKey, InvalidStatus
from keywright.licensing.licenses import model as licenses_model
from keywright.licensing.licenses.keys import normalize_key
from keywright.licensing.licenses.model import Status

_PANEL = "Installation"

STATUS_HELP = "sold, delivered, active, inactive or disabled; the last two refuse activations."

DataDir = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="The folder of the database and its secret. Default: the setting data_dir, or keywright-data.",
        rich_help_panel=_PANEL,
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The database, if not in the data directory: sqlite:////srv/keywright.db, "
        "postgresql://user@host/keywright.",
        rich_help_panel=_PANEL,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The settings file. Default: ./keywright.toml, else /etc/keywright/keywright.toml.",
        rich_help_panel=_PANEL,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def command(
    app: typer.Typer, *examples: str, name: str | None = None, cls: type[TyperCommand] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to the program; the command's help is its docstring, followed by the examples."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        add_as = app.command(name, cls=cls, help=paragraphs(function.__doc__ or ""), epilog=epilog(*examples))
        return add_as(function)

    return add


class DemoKind(StrEnum):
    """The data that ``serve --demo`` adds to an empty database."""

    FULL = "full"
    ONE = "one"


class WrongUsage(typer.TyperException):
    """Options or arguments that cannot be used, or not together."""

    exit_code = 2


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name an installation; their values become its first argument."""
    shared = {"data_dir": DataDir, "database_url": DatabaseUrl, "config": ConfigFile}

    @wraps(command)
    def run(*, data_dir: str | None, database_url: str | None, config: Path | None, **given: Any) -> None:
        _require_unicode(given.values())
        command(InstallationOptions(data_dir, database_url, config), **given)

    return declare_options(run, list(inspect.signature(command).parameters.values())[1:], shared)


def _require_unicode(values: Iterable[Any]) -> None:
    """Refuse texts with bytes that are not valid in the terminal's encoding; names of files may have them."""
    for value in values:
        if isinstance(value, str) and not parsing.is_storable(value):
            raise WrongUsage("An argument is not valid text: it has bytes that are no characters")
        if isinstance(value, Change | list):
            _require_unicode([value.value] if isinstance(value, Change) else value)


def declare_options(
    run: Callable[..., None], own: Sequence[inspect.Parameter], added: Mapping[str, Any]
) -> Callable[..., None]:
    """Set the parameters of a function that typer reads: its ``own``, and an option for each of ``added``,
    which maps names to annotations.
    """
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in added.items()
    ]
    # typer reads these two.
    run.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in [*own, *options]}
    return run


def with_installation(command: Callable[..., None], *, is_made: bool = False) -> Callable[..., None]:
    """Give a command the options that name an installation; the open installation becomes its first argument.
    With ``is_made``, a missing installation is made.
    """

    @wraps(command)
    def run(options: InstallationOptions, **given: Any) -> None:
        with open_here(options, is_made=is_made) as here:
            command(here, **given)

    return with_options(run)


def with_installation_made(command: Callable[..., None]) -> Callable[..., None]:
    """Like ``with_installation``, for commands that may be the first on a new installation."""
    return with_installation(command, is_made=True)


class Change(msgspec.Struct, frozen=True):
    """A value to set, which may be None."""

    value: Any


def changing(parse: Callable[[str], Any]) -> Callable[[str], Change]:
    """Return a parser of the value to set; the word none and an empty text clear the field."""
    return lambda text: Change(None if text.strip().lower() in ("", "none") else parse(text))


def parse_key(text: str) -> str:
    """Parse and normalize a license key."""
    try:
        return normalize_key(text)
    except InvalidLicenseKey:
        raise ValueError("a license key has 1 to 255 characters, and no control characters") from None


def parse_status(text: str) -> Status:
    """Parse a status by its name or number."""
    try:
        return licenses_model.parse_status(text)
    except InvalidStatus:
        names = ", ".join(status.name.lower() for status in Status)
        raise ValueError(f"must be one of {names}") from None


def parse_label(text: str) -> str | None:
    """Parse the label of an activation."""
    return parsing.parse_text(text, parsing.MAX_LABEL_LENGTH)


Key = Annotated[str, typer.Argument(metavar="KEY", parser=parse_key, help="The license key.")]
_STATUS = typer.Option(
    "--status", metavar="STATUS", parser=parse_status, help=STATUS_HELP, show_default=False
)
NewStatus = Annotated[Status, _STATUS]
StatusOption = Annotated[Status | None, _STATUS]
IsSure = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
OrderId = Annotated[
    int | None,
    typer.Option(metavar="ID", parser=parsing.parse_integer, help="The order's ID in your shop."),
]
ProductId = Annotated[
    int | None,
    typer.Option(metavar="ID", parser=parsing.parse_integer, help="The product's ID in your shop."),
]
CustomerId = Annotated[
    int | None,
    typer.Option(metavar="ID", parser=parsing.parse_integer, help="The customer's ID in your shop."),
]


def _parse_metadata(text: str) -> dict[str, Any]:
    parsed = parsing.parse_metadata(text)
    return {} if parsed is None else msgspec.json.decode(text, type=dict[str, Any])


Metadata = Annotated[
    Change | None,
    typer.Option(
        metavar="JSON",
        parser=changing(_parse_metadata),
        help="A JSON object with other data. An update changes the given members; null removes a member, "
        "none removes all.",
    ),
]
