"""The options for terms, which several commands share."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from keywright.cli.options import Change, WrongUsage, changing, declare_options
from keywright.core import parsing
from keywright.core.errors import InvalidTerms
from keywright.core.nouns import Member, list_members
from keywright.licensing.terms.model import Allowance, Starts, Terms, parse_allowance, parse_meter

_PANEL = "Terms: what the policy's licenses allow"
_NONE = "none"


def _is_none(text: str) -> bool:
    return text.strip().lower() == _NONE


def _parse_meter(text: str) -> tuple[str, dict[str, Any] | None]:
    name, _, value = text.partition("=")
    if _is_none(name):
        return _NONE, None
    return (name.strip(), None) if _is_none(value) else parse_meter(text)


def _option(*names: str, metavar: str, parse: Callable[[str], Any], help: str) -> Any:
    option = typer.Option(*names, metavar=metavar, parser=changing(parse), help=help, rich_help_panel=_PANEL)
    return Annotated[Change | None, option]


def _plain(*names: str, help: str, metavar: str | None = None, parse: Any = None) -> Any:
    return typer.Option(*names, metavar=metavar, parser=parse, help=help, rich_help_panel=_PANEL)


def _option_of(member: Member) -> Any:
    """Return the option of a term, by the term's type."""
    kind, text, names = member.kind, member.description, member.form.get("option", ())
    if kind is bool:
        return Annotated[bool | None, _plain(*names, help=text)]
    if kind is Allowance:
        example = f"{text} For example 3/30; none resets it."
        return _option(*names, metavar="COUNT/DAYS", parse=parse_allowance, help=example)
    if issubclass(kind, StrEnum):
        return Annotated[kind | None, _plain(metavar="RULE", help=f"{text} One of {', '.join(kind)}.")]
    metavar = "DAYS" if member.name.endswith("_days") else "N"
    # For a term that may be None, 0 means None.
    parse = parsing.parse_limit if member.is_nullable else parsing.parse_integer
    return _option(*names, metavar=metavar, parse=parse, help=text)


_LISTS: Mapping[str, Any] = {
    "entitlements": Annotated[
        list[str] | None,
        _plain("--entitlement", metavar="CODE", help="A feature. Repeatable; none: no features."),
    ],
    "channels": Annotated[
        list[str] | None,
        _plain("--channel", metavar="CHANNEL", help="A channel of updates. Repeatable; none: stable."),
    ],
    "uncounted_hosts": Annotated[
        list[str] | None,
        _plain(
            "--uncounted-host",
            metavar="HOST",
            help="A host whose WordPress sites take no place, such as staging.*. Repeatable; none: every "
            "site takes a place.",
        ),
    ],
    "meters": Annotated[
        list[Any] | None,
        _plain(
            "--meter",
            metavar="NAME=LIMIT/PERIOD",
            parse=_parse_meter,
            help="A usage meter: its limit per day, month, year, license_month or license_year (both "
            "start on the day the license was made) or license. A trailing :allow allows more than "
            "the limit. NAME=none removes the meter. Repeatable.",
        ),
    ],
}
_MORE: dict[str, Any] = {
    "expires_in": _option(
        metavar="DAYS",
        parse=parsing.parse_days,
        help="How many days a license is valid from its first activation: short for --valid-for-days with "
        "--starts first_activation.",
    ),
    "terms_file": Annotated[
        Path | None,
        _plain("--terms", metavar="FILE", help="A file with a JSON object of terms; options override it."),
    ],
}
#: The options by the names of the terms, in the order of the help.
_OPTIONS: Mapping[str, Any] = {
    one.name: _LISTS.get(one.name) or _option_of(one) for one in list_members(Terms)
} | _MORE
#: The names of options that differ from the term's name.
_NAMES = {
    "entitlements": "--entitlement",
    "channels": "--channel",
    "meters": "--meter",
    "uncounted_hosts": "--uncounted-host",
}


class TermsGiven(msgspec.Struct, frozen=True):
    """The terms that were given, as a JSON merge patch; ``from_file`` names those that only the file has."""

    patch: Mapping[str, Any]
    from_file: frozenset[str]

    @contextmanager
    def naming_options(self) -> Iterator[None]:
        """Turn ``InvalidTerms`` into wrong usage that names the option or the file."""
        try:
            yield
        except InvalidTerms as problem:
            faults = (f"{self._place(one.pointer)} {one.detail}" for one in problem.errors)
            raise WrongUsage("; ".join(faults)) from None

    def _place(self, pointer: str) -> str:
        _, _, name, *inner = pointer.split("/")
        if name in self.from_file:
            return f"--terms: {'/'.join([name, *inner])}"
        option = _NAMES.get(name, f"--{name.replace('_', '-')}")
        return " ".join([option, *inner])


def with_terms(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for terms; the terms that they set become its argument ``terms``."""

    @wraps(command)
    def run(*positional: Any, **given: Any) -> None:
        options = {name: given.pop(name) for name in _OPTIONS}
        command(*positional, terms=_read(options), **given)

    own = [one for one in inspect.signature(command).parameters.values() if one.name != "terms"]
    return declare_options(run, own, _OPTIONS)


def _read(options: dict[str, Any]) -> TermsGiven:
    file = options.pop("terms_file")
    stored = {} if file is None else _read_file(file)
    patch: dict[str, Any] = {
        name: _value(value) for name, value in options.items() if value not in (None, [])
    }
    if "expires_in" in patch:
        if {"valid_for_days", "starts"} & patch.keys():
            raise WrongUsage("Give either --expires-in, or --valid-for-days and --starts")
        patch |= {"valid_for_days": patch.pop("expires_in"), "starts": Starts.FIRST_ACTIVATION.value}
    for name in {"entitlements", "channels", "uncounted_hosts"} & patch.keys():
        if any(map(_is_none, patch[name])):
            _require_alone(name, patch[name])
            patch[name] = None
    if "meters" in patch:
        meters = dict(patch["meters"])
        if len(meters) < len(patch["meters"]):
            raise WrongUsage("--meter: give each meter once")
        if _NONE in meters:
            _require_alone("meters", meters)
        patch["meters"] = None if _NONE in meters else meters
    return TermsGiven(stored | patch, frozenset(stored.keys() - patch.keys()))


def _require_alone(name: str, given: Iterable[str]) -> None:
    """Refuse the word none beside other values of the same option."""
    if not all(map(_is_none, given)):
        raise WrongUsage(f"{_NAMES[name]}: give none alone")


def _value(option: Any) -> Any:
    return option.value if isinstance(option, Change) else option


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except msgspec.MsgspecError as problem:
        raise WrongUsage(f"--terms: {file.name} is not a JSON object: {problem}") from None
