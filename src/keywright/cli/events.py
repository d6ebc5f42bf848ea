"""The command ``keywright events``."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Annotated

import msgspec
import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, WrongUsage, command, parse_key, with_installation
from keywright.core import parsing
from keywright.events.feed import Feed, FeedEvent, ListFeed, Reached, Subject

_PIECE = 500
#: The polling interval of --follow, in seconds.
_INTERVAL = 0.5
_AGO = re.compile(r"([0-9]{1,5}) ?([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_TYPE = re.compile(r"[a-z_]+\.(\*|[a-z_]+)")


def parse_moment(text: str) -> datetime:
    """Parse ``yesterday``, ``2h`` (ago) or a time. Raises ``ValueError``."""
    now = datetime.now(UTC).replace(microsecond=0)
    word = text.strip().lower()
    if word in ("today", "yesterday"):
        return now.replace(hour=0, minute=0, second=0) - timedelta(days=word == "yesterday")
    ago = _AGO.fullmatch(word)
    if ago is not None:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    moment = parsing.parse_time(text)
    if moment is None:
        raise ValueError("must be a time, today, yesterday, or an age such as 2h")
    return moment


def parse_past_moment(text: str) -> datetime:
    """Parse like ``parse_moment``. Raises ``ValueError`` for a time in the future."""
    moment = parse_moment(text)
    if moment > datetime.now(UTC):
        raise ValueError("must be in the past")
    return moment


def _parse_type(text: str) -> str:
    if not _TYPE.fullmatch(text):
        raise ValueError("must be a type such as license.activated or license.*")
    return text.removesuffix("*")


_Since = Annotated[
    datetime | None,
    typer.Option(
        metavar="TIME",
        parser=parse_moment,
        help="The first time to list: yesterday, today, 30m, 2h, 7d, or a time (UTC). Default: a day ago.",
    ),
]
_Type = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        parser=_parse_type,
        help="Only events of this type; license.* matches all events of licenses.",
    ),
]
_License = Annotated[
    str | None,
    typer.Option("--license", metavar="KEY", parser=parse_key, help="Only events of this license."),
]
_Limit = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=parsing.MAX_COUNT, help="The highest number of events to show."),
]
_Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Keep printing new events until Ctrl-C."),
]


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    add = command(
        app,
        "keywright events --since yesterday --type 'license.*'",
        "keywright events --follow --json",
    )
    add(with_installation(events))


def events(
    here: Installation,
    *,
    since: _Since = None,
    type_: _Type = None,
    license: _License = None,
    limit: _Limit = None,
    is_following: _Follow = False,
    as_json: AsJson = False,
) -> None:
    """List events, oldest first: each exactly once.

    With --follow, only new events are shown unless you give --since, and --json prints one object per line.
    """
    if is_following and limit is not None:
        raise WrongUsage("Give either --follow or --limit")
    start = here.now if is_following else here.now - timedelta(days=1)
    query = ListFeed(
        now=here.now,
        limit=_PIECE,
        name=type_,
        subject=None if license is None else Subject("license", here.get_license(license).license.id),
        since=since or start,
    )
    if is_following:
        with suppress(KeyboardInterrupt):
            for one in follow(here, query):
                text = json.dumps(output.event_json(one)) if as_json else "  ".join(map(str, _row(one)))
                output.print_line(output.printable(text))
        return
    found = _read(here, query, limit)
    if as_json:
        output.print_json_array(map(output.event_json, found))
        return
    output.print_table(("at", "event", "license", "by", "from", "details"), map(_row, found))


def follow(here: Installation, query: ListFeed) -> Iterator[FeedEvent]:
    """Yield the events that match, then new ones as they come."""
    reached: Reached | None = None
    while True:
        feed = _ask(here, query, reached)
        yield from feed.events
        if reached is not None and feed.reached.id == reached.id:
            sleep(_INTERVAL)
        reached = feed.reached


def _read(here: Installation, query: ListFeed, limit: int | None) -> Iterator[FeedEvent]:
    """Yield the events that match up to now, at most ``limit``."""
    reached: Reached | None = None
    shown = 0
    while True:
        feed = _ask(here, query, reached)
        for one in feed.events:
            if shown == limit:
                return
            yield one
            shown += 1
        if reached is not None and feed.reached.id == reached.id:
            return
        reached = feed.reached


def _ask(here: Installation, query: ListFeed, reached: Reached | None) -> Feed:
    now = datetime.now(UTC).replace(microsecond=0)
    feed: Feed = here.ask(msgspec.structs.replace(query, now=now, after=reached))
    return feed


def _row(one: FeedEvent) -> tuple[object, ...]:
    event = one.event
    details = ", ".join(f"{name}: {value}" for name, value in (event.details or {}).items())
    at = parsing.write_time(event.occurred_at)
    return (at, event.name, event.license_id or None, event.actor, event.ip_address or None, details or None)
