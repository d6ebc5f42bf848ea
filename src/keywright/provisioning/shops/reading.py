"""What the modules of shops share: decode a body, compare signatures, read moments. Pure."""

import hmac
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from keywright.core.errors import BadSignature, UnreadableEvent
from keywright.provisioning.shops.model import Connection, ShopEvent, UnreadableOrder

Decoded = TypeVar("Decoded")

#: How far the time in a signature may be from ours.
TOLERANCE = timedelta(seconds=300)
#: What a shop's API states without a time is as old as this: its clock may be another one.
LATELY = timedelta(minutes=5)
#: The days, or the months, of the units in which shops count periods; and the most periods to look back.
_DAYS, _MONTHS = {"day": 1, "week": 7}, {"month": 1, "year": 12}
_MAX_PERIODS = 1_000


def require_header(headers: Mapping[str, str], name: str) -> str:
    """The header with this lower-case name. Raises ``BadSignature`` without it."""
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
        raise BadSignature("the time of the signature is no number")
    if abs(int(seconds) - now.timestamp()) > TOLERANCE.total_seconds():
        raise BadSignature("the time of the signature is too far from the time here")


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
    """Check hexadecimal HMAC-SHA-256 over ``<seconds><joint><body>``. ``entries`` are those of a header, as
    ``name=value``; ``time`` and ``signature`` are the names of two. Raises ``BadSignature``.
    """
    pairs = [(name.strip(), value) for name, _, value in (one.partition("=") for one in entries)]
    seconds = next((value for name, value in pairs if name == time), "")
    signed = seconds.encode(errors="surrogateescape") + joint + body
    expected = hmac.digest(secret.encode(), signed, "sha256").hex()
    require_signature(expected, [value for name, value in pairs if name == signature])
    require_recent(seconds, now)


def decode(body: bytes, kind: type[Decoded]) -> Decoded:
    """Decode JSON into a struct that names what is needed of it. Raises ``UnreadableEvent``."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise UnreadableEvent(_describe(problem)) from None


def convert(value: object, kind: type[Decoded]) -> Decoded:
    """The same for JSON that is decoded already: an answer of an API. Raises ``UnreadableEvent``."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UnreadableEvent(_describe(problem)) from None


def read_metadata(found: object) -> dict[str, Any]:
    """What of the shop's metadata of an order can be taken: its texts, numbers and booleans, by name."""
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str | int | float)}


def read_each(
    found: Iterable[object], read: Callable[[bytes], Iterable[ShopEvent]]
) -> Iterator[ShopEvent | UnreadableOrder]:
    """Read each order of a list, whatever the others are."""
    for one in found:
        body = msgspec.json.encode(one)
        try:
            yield from read(body)
        except UnreadableEvent as problem:
            yield UnreadableOrder(body, problem.reason)


def is_before(found: Mapping[str, Any], name: str, since: datetime) -> bool:
    """Whether the moment with this name is before; False for what is no moment."""
    try:
        return from_text(str(found.get(name))) < since
    except UnreadableEvent:
        return False


def pages(
    ask: Callable[[dict[str, str | int]], list[Any]], question: Mapping[str, str | int], after: str, most: int
) -> Iterator[Any]:
    """What a list has that gives pages of ``most`` items: the parameter ``after`` is the ID of the last."""
    last: dict[str, str | int] = {}
    for _ in range(_MAX_PERIODS):
        found = ask({**question, **last})
        yield from found
        if len(found) < most:
            return
        last = {after: convert(found[-1].get("id"), str)}


def sends_here(address: object, connection: Connection) -> bool:
    """Whether this is the address of the connection, on whatever server."""
    return str(address).rstrip("/").endswith(f"/in/{connection.shop.value}/{connection.id}")


def from_seconds(seconds: float) -> datetime:
    """The moment so many seconds after 1970. Raises ``UnreadableEvent`` for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise UnreadableEvent(f"{seconds!r} is no moment") from None


def from_text(text: str) -> datetime:
    """The moment in ISO 8601, with its fraction of a second; UTC without an offset. Raises
    ``UnreadableEvent``.
    """
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UnreadableEvent("a time is not written as ISO 8601") from None


def period_end(next_at: datetime, began_at: datetime, unit: str | None, amount: int | str) -> datetime:
    """The end of the period that was paid at ``began_at``, where the next payment is due at ``next_at`` and a
    period has so many of these units: a shop that is asked late has been paid for later periods since.
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
    """So many units before; the same moment for a unit that is not known."""
    if unit not in _MONTHS:
        return moment - timedelta(days=amount * _DAYS.get(unit or "", 0))
    year, month = divmod(moment.year * 12 + moment.month - 1 - amount * _MONTHS[unit], 12)
    day = min(moment.day, monthrange(max(year, 1), month + 1)[1])
    return moment.replace(year=max(year, 1), month=month + 1, day=day)


def _describe(problem: Exception) -> str:
    """What is wrong and where, without any value of the body."""
    if isinstance(problem, msgspec.ValidationError):
        return str(problem)[:200]
    return "the body is no JSON"
