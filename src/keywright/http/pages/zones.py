"""The time zone in which a reader counts days: the browser's, which admin.js keeps in a cookie, or the
setting's.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from keywright.core.parsing import parse_time

#: The cookie with the name of the browser's time zone.
_COOKIE = "keywright_zone"
_MAX_NAME_LENGTH = 64
UTC_NAME = "UTC"
_A_SECOND = timedelta(seconds=1)
#: The last moment that a license can have.
_END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def zone_of(cookies: Mapping[str, str], default: str) -> ZoneInfo:
    """The reader's time zone: the one that the browser named, else the one of this name, else UTC."""
    names = (cookies.get(_COOKIE, ""), default, UTC_NAME)
    return next(zone for name in names if (zone := find_zone(name)) is not None)


def parse_last_day(text: str, zone: ZoneInfo) -> datetime | None:
    """The end of this day (``2030-12-31``) in the time zone; a text with a time is that moment, as
    ``parse_time`` reads it. Raises ``ValueError``.
    """
    moment = parse_time(text)
    if moment is None or len(text) != len("2030-12-31"):
        return moment
    if moment.date() == date.max:
        return _END_OF_TIME
    following = moment.date() + timedelta(days=1)
    return datetime(following.year, following.month, following.day, tzinfo=zone).astimezone(UTC)


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
