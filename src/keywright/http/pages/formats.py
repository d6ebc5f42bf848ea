"""Numbers, days and times as the reader's language writes them, and the reader's time zone."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from keywright.core.parsing import format_size
from keywright.http.pages.languages import _, current_language

if TYPE_CHECKING:
    from babel import Locale

#: The cookie with the name of the browser's time zone.
_COOKIE = "keywright_zone"
_MAX_NAME_LENGTH = 64
UTC_NAME = "UTC"
_A_SECOND = timedelta(seconds=1)


def zone_of(cookies: Mapping[str, str], default: str) -> ZoneInfo:
    """The reader's time zone: the one that the browser named, else the one of this name, else UTC."""
    names = (cookies.get(_COOKIE, ""), default, UTC_NAME)
    return next(zone for name in names if (zone := find_zone(name)) is not None)


def last_day(end: datetime, zone: ZoneInfo) -> date:
    """The last day in the time zone of what ends at this moment; the last day of all where the zone has
    none for it.
    """
    try:
        return last_second(end).astimezone(zone).date()
    except OverflowError:
        return end.date()


def last_second(end: datetime) -> datetime:
    """The last second of what ends at this moment."""
    return end if end.replace(tzinfo=None) == datetime.min else end - _A_SECOND


@lru_cache(maxsize=100)
def find_zone(name: str) -> ZoneInfo | None:
    """The time zone of this name in the IANA database; None if it is unknown here."""
    if not 0 < len(name) <= _MAX_NAME_LENGTH:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


#: Babel takes 30 µs for a number or a day, and a page has a hundred, most of them again and again.
_KEPT = 5_000


def write_number(value: Any) -> str:
    """``12,345``; ``0.5``."""
    return _format_number(value, current_language().locale)


@lru_cache(maxsize=_KEPT, typed=True)
def _format_number(value: Any, locale: "Locale") -> str:
    from babel.numbers import format_decimal

    return format_decimal(value, locale=locale)


def write_size(size: int) -> str:
    """``12 kB``, ``3.4 MB``: like ``format_size``."""
    from babel.numbers import format_decimal

    number, unit = format_size(size).split(" ")
    pattern = "#,##0.0" if "." in number else "#,##0"
    return f"{format_decimal(float(number), pattern, locale=current_language().locale)} {unit}"


def write_moment(moment: datetime) -> str:
    """``Nov 23, 2026, 2:12 PM UTC``."""
    from babel.dates import format_datetime

    written = format_datetime(moment, "medium", tzinfo=UTC, locale=current_language().locale)
    return f"{written} UTC"


def write_day(day: date) -> str:
    """``Nov 23, 2026``."""
    return _format_day(day.toordinal(), current_language().locale)


@lru_cache(maxsize=_KEPT)
def _format_day(ordinal: int, locale: "Locale") -> str:
    from babel.dates import format_date

    return format_date(date.fromordinal(ordinal), "medium", locale=locale)


def write_short_day(day: date) -> str:
    """``Nov 23``, for charts."""
    from babel.dates import format_skeleton

    return format_skeleton("MMMd", day, locale=current_language().locale)


def write_month(day: date) -> str:
    """``Nov 2026``."""
    from babel.dates import format_skeleton

    return format_skeleton("yMMM", day, locale=current_language().locale)


def write_ago(moment: datetime, now: datetime) -> str:
    """``3 minutes ago``, ``in 2 days``: the largest unit."""
    from babel.dates import format_timedelta

    if moment == now:
        return _("just now")
    return format_timedelta(moment - now, threshold=1, add_direction=True, locale=current_language().locale)


def is_near(moment: datetime, now: datetime) -> bool:
    """Whether it is less than a day away, so that the time of day matters."""
    return abs(moment - now) < timedelta(days=1)


def write_clock(moment: datetime) -> str:
    """``2:12 PM``, in UTC."""
    from babel.dates import format_time

    return format_time(moment, "short", tzinfo=UTC, locale=current_language().locale)
