"""Functions that the modules of shops share: decode bodies, compare signatures, parse times. Pure."""

import hmac
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from keywright.core.errors import BadSignature, UnreadableEvent
from keywright.provisioning.shops.model import Connection, ShopEvent, UnreadableOrder

Decoded = TypeVar("Decoded")

#: The maximum difference between the time in a signature and the server's.
TOLERANCE = timedelta(seconds=300)
#: The assumed age of an API's answer without a time: the shop's clock may differ.
LATELY = timedelta(minutes=5)
#: The days, or the months, of the units in which shops count periods; and the maximum of periods and pages.
_DAYS, _MONTHS = {"day": 1, "week": 7}, {"month": 1, "year": 12}
_MAX_PERIODS = 1_000


def require_header(headers: Mapping[str, str], name: str) -> str:
    """Return the header with this lower-case name. Raises ``BadSignature`` if it is missing."""
    value = headers.get(name)
    if not value:
        raise BadSignature(f"the header {name} is missing")
    return value


def require_signature(expected: str, given: Iterable[str]) -> None:
    """Raise ``BadSignature`` unless one of the given texts is the expected one; in constant time."""
    wanted = expected.encode()
    matches = [hmac.compare_digest(wanted, one.encode(errors="surrogateescape")) for one in given]
    if not any(matches):
        raise BadSignature("the signature is wrong")


def require_recent(seconds: str, now: datetime) -> None:
    """Raise ``BadSignature`` for a time, in seconds since 1970, that is more than ``TOLERANCE`` away."""
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 12):
        raise BadSignature("the time of the signature is not a number")
    if abs(int(seconds) - now.timestamp()) > TOLERANCE.total_seconds():
        raise BadSignature("the time of the signature differs too much from the server's time")


def require_timed_signature(
    entries: Sequence[str],
    joint: bytes,
    body: bytes,
    secret: str,
    now: datetime,
    *,
    time: str,
    signature: str,
) -> None:
    """Check a hexadecimal HMAC-SHA-256 over ``<seconds><joint><body>``. ``entries`` are the ``name=value``
    pairs of a header; ``time`` and ``signature`` are names of entries. Raises ``BadSignature``.
    """
    pairs = [(name.strip(), value) for name, _, value in (one.partition("=") for one in entries)]
    seconds = next((value for name, value in pairs if name == time), "")
    signed = seconds.encode(errors="surrogateescape") + joint + body
    expected = hmac.digest(secret.encode(), signed, "sha256").hex()
    require_signature(expected, [value for name, value in pairs if name == signature])
    require_recent(seconds, now)


def decode(body: bytes, kind: type[Decoded]) -> Decoded:
    """Decode JSON into a struct with the members that are needed. Raises ``UnreadableEvent``."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise UnreadableEvent(_describe(problem)) from None


def convert(value: object, kind: type[Decoded]) -> Decoded:
    """Convert decoded JSON, such as an API's answer, in the same way. Raises ``UnreadableEvent``."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UnreadableEvent(_describe(problem)) from None


def read_metadata(found: object) -> dict[str, Any]:
    """Return the usable metadata of an order: its texts, numbers and booleans, by name."""
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str | int | float)}


def read_each(
    found: Iterable[object], read: Callable[[bytes], Iterable[ShopEvent]]
) -> Iterator[ShopEvent | UnreadableOrder]:
    """Read each order of a list, even if others cannot be read."""
    for one in found:
        body = msgspec.json.encode(one)
        try:
            yield from read(body)
        except UnreadableEvent as problem:
            yield UnreadableOrder(body, problem.reason)


def is_before(found: Mapping[str, Any], name: str, since: datetime) -> bool:
    """Whether the member with this name is an earlier time; False if it is not a time."""
    try:
        return from_text(str(found.get(name))) < since
    except UnreadableEvent:
        return False


def pages(
    ask: Callable[[dict[str, str | int]], list[Any]], question: Mapping[str, str | int], after: str, most: int
) -> Iterator[Any]:
    """Yield the items of a list with ``most`` items a page; the parameter ``after`` is the last ID."""
    last: dict[str, str | int] = {}
    for _ in range(_MAX_PERIODS):
        found = ask({**question, **last})
        yield from found
        if len(found) < most:
            return
        last = {after: convert(found[-1].get("id"), str)}


def sends_here(address: object, connection: Connection) -> bool:
    """Whether this is the URL of the connection, on any server."""
    return str(address).rstrip("/").endswith(f"/in/{connection.shop.value}/{connection.id}")


def from_seconds(seconds: float) -> datetime:
    """Return the moment so many seconds after 1970. Raises ``UnreadableEvent`` if it is out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise UnreadableEvent(f"{seconds!r} is not a valid time") from None


def from_text(text: str) -> datetime:
    """Parse a time in ISO 8601, with its fraction of a second; UTC without an offset. Raises
    ``UnreadableEvent``.
    """
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UnreadableEvent("a time is not in ISO 8601") from None


def period_end(next_at: datetime, began_at: datetime, unit: str | None, amount: int | str) -> datetime:
    """Return the end of the period that was paid at ``began_at``, if the next payment is due at ``next_at``
    and a period has so many of these units. ``next_at`` may be later than that end: the shop may have been
    paid for more periods before it is asked.
    """
    number = int(amount) if str(amount).isdecimal() else 0
    end = next_at
    try:
        for i in range(1, _MAX_PERIODS if number else 0):
            begin = _before(next_at, unit, i * number)
            if begin - began_at < (end - begin) / 2:
                break
            end = begin
    except OverflowError:
        return next_at
    return end


def _before(moment: datetime, unit: str | None, amount: int) -> datetime:
    """Return the moment so many units earlier; the same moment for an unknown unit."""
    if unit not in _MONTHS:
        return moment - timedelta(days=amount * _DAYS.get(unit or "", 0))
    year, month = divmod(moment.year * 12 + moment.month - 1 - amount * _MONTHS[unit], 12)
    day = min(moment.day, monthrange(max(year, 1), month + 1)[1])
    return moment.replace(year=max(year, 1), month=month + 1, day=day)


def _describe(problem: Exception) -> str:
    """Describe the problem and its place, without any value of the body."""
    if isinstance(problem, msgspec.ValidationError):
        return str(problem)[:200]
    return "the body is not JSON"
