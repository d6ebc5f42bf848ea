"""Parse fields: convert the strings and numbers that people and programs send to values.

Each ``parse_`` function takes a JSON value or a string and returns the value, or raises ``ValueError`` with a
short reason that can be displayed ("must be …").
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Literal

import msgspec

#: The largest order, product and user ID: the maximum of a signed 64-bit column.
MAX_ID = 2**63 - 1
#: The largest limit, and the largest number of days.
MAX_COUNT = 2**31 - 1
MAX_NAME_LENGTH = 200
MAX_EXTERNAL_ID_LENGTH = 255
MAX_LABEL_LENGTH = 255
MAX_META_BYTES = 4096
MAX_METADATA_KEYS, MAX_METADATA_BYTES, MAX_METADATA_DEPTH = 64, 16 * 1024, 4
MAX_USER_AGENT_LENGTH = 512

#: How much of an IP address is stored: all of it, its /24 (IPv4) or /48 (IPv6) network, or nothing.
IpAddresses = Literal["full", "short", "none"]

#: The latest expiry of a license.
_END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Neither format allows the hour 24: not every Python version can parse it.
_TIME_FORMAT = re.compile(r"\d{4}-\d{2}-\d{2}( (?!24)\d{2}:\d{2}(:\d{2})?)?", re.ASCII)
_ISO_8601 = re.compile(
    r"\d{4}-\d{2}-\d{2}T(?!24)\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?", re.ASCII | re.I
)
_FRACTION = re.compile(r"[.,]\d+")
_SHOP = re.compile(
    r"(https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?((/[A-Za-z0-9._~-]+)*)", re.ASCII
)


def parse_integer(value: object, most: int = MAX_ID) -> int | None:
    """An integer from 0 to ``most``, or its digits as a string; None stays None."""
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"must be an integer from 0 to {most}")
    return value


def parse_limit(value: object) -> int | None:
    """A limit of activations; 0 and None mean no limit."""
    return parse_integer(value, MAX_COUNT) or None


def parse_days(value: object) -> int | None:
    """A number of days; 0 and None mean none."""
    return parse_integer(value, MAX_COUNT) or None


def parse_time(value: object) -> datetime | None:
    """A time: ``YYYY-MM-DD HH:MM[:SS]``, ``YYYY-MM-DD`` (00:00:00 on that day), or ISO 8601 with ``T``.

    UTC is assumed unless ISO 8601 has an offset. Fractions of a second are dropped. None and the empty string
    are None.
    """
    if value is None or value == "":
        return None
    text = value.strip().upper() if isinstance(value, str) else ""
    if _TIME_FORMAT.fullmatch(text) or _ISO_8601.fullmatch(text):
        try:
            moment = datetime.fromisoformat(_FRACTION.sub("", text))
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise ValueError("must be YYYY-MM-DD HH:MM:SS, YYYY-MM-DD, or ISO 8601")


def parse_last_day(text: str, zone: tzinfo) -> datetime | None:
    """The end of a day (``2030-12-31``) in the time zone; a text with a time is parsed by ``parse_time``.
    Raises ``ValueError``.
    """
    moment = parse_time(text)
    if moment is None or len(text) != len("2030-12-31"):
        return moment
    if moment.date() == date.max:
        return _END_OF_TIME
    following = moment.date() + timedelta(days=1)
    return datetime(following.year, following.month, following.day, tzinfo=zone).astimezone(UTC)


def parse_first_moment(text: str, zone: tzinfo) -> datetime | None:
    """The beginning of a day in the time zone; a text with a time is parsed by ``parse_time``."""
    moment = parse_time(text)
    if moment is None or len(text) != len("2030-12-31") or moment.date() == date.min:
        return moment
    return moment.replace(tzinfo=zone).astimezone(UTC)


def parse_text(value: object, most: int) -> str | None:
    """A string of at most ``most`` characters; None and the empty string are None."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or len(value) > most or not is_storable(value):
        raise ValueError(f"must be a text of at most {most} characters, without null characters")
    return value


def parse_name(text: str) -> str:
    """The name of an API key, a policy, a user or a product, with surrounding white space removed."""
    return _parse_printable(text, MAX_NAME_LENGTH)


def parse_external_id(text: str) -> str:
    """An ID from another system of the vendor, with surrounding white space removed."""
    return _parse_printable(text, MAX_EXTERNAL_ID_LENGTH)


def _parse_printable(text: str, most: int) -> str:
    name = parse_text(text.strip(), most)
    if name is None or not name.isprintable():
        raise ValueError(f"must have 1 to {most} characters, and no control characters")
    return name


def parse_meta(value: object) -> Mapping[str, str] | None:
    """An object of strings, or its JSON, of at most 4 KiB as JSON; None and empty are None."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            value = None
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError("must be an object whose values are texts")
    if not all(is_storable(name) and is_storable(text) for name, text in value.items()):
        raise ValueError("must not contain null characters")
    if len(msgspec.json.encode(value)) > MAX_META_BYTES:
        raise ValueError(f"must be at most {MAX_META_BYTES} bytes as JSON")
    return value or None


def parse_metadata(value: object) -> str | None:
    """A JSON object of at most 64 keys, 16 KiB and 4 levels, with integers within ±2^53, as text; None and
    empty are None.

    Raises ``ValueError`` for anything else.
    """
    if isinstance(value, str) and value:
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise ValueError("must be a JSON object") from None
    if not value:
        return None
    if not isinstance(value, dict) or len(value) > MAX_METADATA_KEYS:
        raise ValueError(f"must be a JSON object with at most {MAX_METADATA_KEYS} keys")
    text = msgspec.json.encode(value).decode()
    if len(text.encode()) > MAX_METADATA_BYTES or "\\u0000" in text:
        raise ValueError(f"must have at most {MAX_METADATA_BYTES // 1024} KiB, and no null characters")
    # Checked after the size, because traversing something much larger costs too much.
    if _depth(value) > MAX_METADATA_DEPTH:
        raise ValueError(f"must have at most {MAX_METADATA_DEPTH} levels")
    if _has_wide_integer(value):
        raise ValueError("must have no integers beyond 2^53: many programs would round them")
    return text


def parse_shop_address(value: object) -> str:
    """The URL of a shop, with or without a path; trailing slashes are removed. Plain HTTP, which would expose
    the credentials, is allowed only for this machine.
    """
    match = _SHOP.fullmatch(value.strip().rstrip("/")) if isinstance(value, str) else None
    if match is None:
        raise ValueError("must be an address such as https://shop.example.com")
    if match[1] == "http" and match[2] not in ("127.0.0.1", "localhost", "[::1]"):
        raise ValueError("must begin with https://: over http://, others could read the credentials")
    return match[0]


def is_storable(text: str) -> bool:
    """Whether every database can store this text unchanged: valid Unicode without U+0000."""
    return _UNSTORABLE.search(text) is None


def write_time(moment: datetime) -> str:
    """``YYYY-MM-DD HH:MM:SS`` in UTC: the format of v2 and of the terminal."""
    return moment.isoformat(" ")[:19]


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun: ``1 license``, ``2,000 licenses``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_size(size: int) -> str:
    """Format a number of bytes: ``12 kB``, ``3.4 MB``, ``5.6 GB``."""
    for unit, bytes_each in (("GB", 10**9), ("MB", 10**6)):
        if size >= bytes_each:
            return f"{size / bytes_each:.1f} {unit}"
    return f"{size / 1000:.0f} kB"


def keep_address(address: str, kept: IpAddresses) -> str:
    """The part of an IP address to store; "" for nothing."""
    if kept == "full":
        return address
    return "" if kept == "none" else _shorten(address)


@lru_cache(maxsize=4096)
def _shorten(address: str) -> str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    length = 24 if parsed.version == 4 else 48
    return str(ip_network((parsed, length), strict=False).network_address)


def _has_wide_integer(value: object) -> bool:
    """Whether the value contains an integer that JavaScript cannot represent exactly (RFC 8259 §6)."""
    if isinstance(value, dict | list):
        return any(map(_has_wide_integer, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and abs(value) > 2**53


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


#: The longest ``Retry-After`` that is honored.
MAX_RETRY_AFTER = timedelta(hours=24)


def parse_retry_after(text: str, now: datetime) -> int | None:
    """Parse ``Retry-After`` to seconds, at most ``MAX_RETRY_AFTER``; None for neither seconds nor a date."""
    most = int(MAX_RETRY_AFTER.total_seconds())
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), most)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max(0, int((moment - now).total_seconds())), most)
