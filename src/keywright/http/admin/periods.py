"""Paged lists, and the periods and conditions by which they are filtered."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from keywright.core.nouns import ItemPage, Paging, Position
from keywright.db import ReadTransaction
from keywright.http.pages.formats import N_, UTC_NAME, find_zone
from keywright.http.pages.forms import parse_number
from keywright.http.pages.render import url
from keywright.http.pages.request import PageRequest

_DAY = timedelta(days=1)
#: The presets: the name in addresses, the label, and the first and last day in days before today.
PRESETS = (
    ("today", N_("Today"), 0, 0),
    ("yesterday", N_("Yesterday"), 1, 1),
    ("7d", N_("Last 7 days"), 6, 0),
    ("30d", N_("Last 30 days"), 29, 0),
    ("90d", N_("Last 90 days"), 89, 0),
)


class Period(NamedTuple):
    """A period of days, including the first and the last; None means no bound."""

    zone: ZoneInfo
    #: The name of the preset; "" if the query has days, or no period.
    preset: str = ""
    first: date | None = None
    last: date | None = None

    @property
    def since(self) -> datetime | None:
        """The beginning of the period."""
        return None if self.first is None else _midnight(self.first, self.zone)

    @property
    def until(self) -> datetime | None:
        """The end of the period (exclusive)."""
        return None if self.last is None else _midnight(self.last + _DAY, self.zone)

    @property
    def query(self) -> dict[str, str | None]:
        """The query parameters of the period."""
        if self.preset:
            return {"period": self.preset, "from": None, "to": None}
        return {"period": None, "from": _write_day(self.first), "to": _write_day(self.last)}


def read_period(query: Mapping[str, str], now: datetime, zone: ZoneInfo) -> Period:
    """The period in a query: ``period=yesterday``, ``from=2026-01-15&to=2026-01-20``, or ``day=2026-01-15``.
    Invalid values are ignored. With ``zone=UTC``, days are UTC days, as in the charts.
    """
    if query.get("zone", "") == UTC_NAME:
        zone = find_zone(UTC_NAME) or zone
    name = query.get("period", "")
    for preset, _, first, last in PRESETS:
        if preset == name:
            today = now.astimezone(zone).date()
            return Period(zone, preset, today - first * _DAY, today - last * _DAY)
    if (day := _parse_day(query.get("day", ""))) is not None:
        return Period(zone, "", day, day)
    return Period(zone, "", _parse_day(query.get("from", "")), _parse_day(query.get("to", "")))


def _write_day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _parse_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    # Days at the ends of the calendar would overflow.
    return day if 1970 <= day.year < 9999 else None


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


class Chip(NamedTuple):
    """A condition of a list's filter, in words, and the address of the list without it."""

    label: str
    value: str
    without: str


def build_chips(
    path: str, query: Mapping[str, str | None], conditions: Iterable[tuple[str, str, str]]
) -> list[Chip]:
    """The conditions of a list, in words. Each of ``conditions`` has the names of its parameters, separated
    by spaces, its label and its value; those without a value are omitted.
    """
    return [
        Chip(label, value, url(path, **{**query, **dict.fromkeys(names.split())}))
        for names, label, value in conditions
        if value
    ]


PAGE_SIZE = 50


class ListPage(NamedTuple):
    """A page of a list. ``previous`` and ``next`` are the IDs after which the previous and next page begin.
    ``previous`` is None for the first page, ``next`` if there is none.
    """

    items: Sequence[Any]
    is_first: bool
    previous: int | None
    next: int | None
    #: Whether the list has items, on this page or on others.
    has_items: bool


def read_page(request: PageRequest, read: Callable[[ReadTransaction, Paging], ItemPage[Any]]) -> ListPage:
    """The page that begins after the ID in the parameter ``after``."""
    after = parse_number(request.query.get("after", ""))
    found = _read(request, read, "id", after)
    items = found[:PAGE_SIZE]
    next_after = items[-1].id if len(found) > PAGE_SIZE else None
    if after is None:
        return ListPage(items, True, None, next_after, bool(items))
    # The items up to that ID, in descending order.
    before = _read(request, read, "-id", after + 1)
    previous = before[PAGE_SIZE].id if len(before) > PAGE_SIZE else None
    return ListPage(items, False, previous, next_after, bool(items or before))


def _read(
    request: PageRequest,
    read: Callable[[ReadTransaction, Paging], ItemPage[Any]],
    sort: str,
    number: int | None,
) -> Sequence[Any]:
    position: Position | None = None if number is None else (number, number)
    paging = Paging(sort=sort, after=position, limit=PAGE_SIZE)
    return request.ask(lambda tx: read(tx, paging)).items
