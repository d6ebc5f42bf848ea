"""The time zone in which a reader counts days: the browser's, which admin.js keeps in a cookie, or the
setting's.
"""

from collections.abc import Mapping
from functools import lru_cache
from zoneinfo import ZoneInfo

#: The cookie with the name of the browser's time zone.
_COOKIE = "keywright_zone"
_MAX_NAME_LENGTH = 64
UTC_NAME = "UTC"


def zone_of(cookies: Mapping[str, str], default: str) -> ZoneInfo:
    """The reader's time zone: the one that the browser named, else the one of this name, else UTC."""
    names = (cookies.get(_COOKIE, ""), default, UTC_NAME)
    return next(zone for name in names if (zone := find_zone(name)) is not None)


@lru_cache(maxsize=100)
def find_zone(name: str) -> ZoneInfo | None:
    """The time zone of this name in the IANA database; None if it is unknown here."""
    if not 0 < len(name) <= _MAX_NAME_LENGTH:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
