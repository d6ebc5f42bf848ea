"""Pages of licenses that match a search. A cursor is a position in the list: a license that is added or
deleted between two pages makes none of them skip or repeat another license, but in the orders of ``SORTED``.
"""

import base64
from collections.abc import Mapping
from datetime import datetime

import msgspec

from keywright.core.parsing import MAX_ID
from keywright.db import ReadTransaction
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.search.filters import NEVER, Order, Search
from keywright.search.scan import Scan
from keywright.search.scan_store import Position

#: The time budget for the scan of a page, in seconds.
BUDGET = 0.08


class Page(msgspec.Struct, frozen=True):
    """A page of a list, and the cursors of the pages after and before it.

    ``total`` is the number of matches, None where it would take long to count; with ``total_is_least``, it is
    a lower bound. An incomplete page ran out of time: the missing licenses come after its ``next`` (or
    ``previous``).
    """

    licenses: tuple[License, ...]
    next: str | None
    previous: str | None
    total: int | None
    total_is_least: bool
    is_incomplete: bool


class MatchingIds(msgspec.Struct, frozen=True):
    """Ids of licenses, and the id after which to continue; None when these were the last."""

    ids: tuple[int, ...]
    after_id: int | None


def find_page(
    tx: ReadTransaction,
    search: Search,
    *,
    cursor: str | None,
    limit: int,
    now: datetime,
    budget: float = BUDGET,
    by_status: Mapping[int, int] | None = None,
) -> Page:
    """The page at a cursor; the first one without a cursor, or with one of another order or an invalid one.

    ``budget`` is in seconds, for the scan; counting and reading take some more. ``by_status``, where it is
    known, gives totals that would take long to count. Raises ``InvalidParameters`` where more than 10,000
    licenses would have to be sorted.
    """
    scan = Scan(tx, search, now, budget)
    order = scan.go_by_time()
    is_backward, start = _read_cursor(cursor, order)
    found, reached = scan.find(start, limit + 1, is_backward=is_backward)
    if is_backward and not found and reached is None:
        # The licenses before the cursor have been deleted.
        is_backward, start = False, None
        found, reached = scan.find(start, limit + 1, is_backward=False)
    shown = found[:limit]
    if len(found) > limit:
        reached = shown[-1]
    beyond = None if reached is None else _write_cursor(order, reached, is_backward=is_backward)
    behind = None
    if start is not None:
        place = shown[0] if shown else _just_before(start, order, is_backward=is_backward)
        behind = _write_cursor(order, place, is_backward=not is_backward)
    in_order = shown[::-1] if is_backward else shown
    total, is_least = scan.total(by_status)
    return Page(
        licenses=tuple(find_licenses_by_id(tx, [number for _, number in in_order]).values()),
        next=behind if is_backward else beyond,
        previous=beyond if is_backward else behind,
        total=total,
        total_is_least=is_least,
        is_incomplete=reached is not None and len(shown) < limit,
    )


def find_matching_ids(
    tx: ReadTransaction, search: Search, *, after_id: int, limit: int, now: datetime, budget: float = BUDGET
) -> MatchingIds:
    """At most ``limit`` ids of matching licenses after this one, in ascending order; fewer, perhaps none,
    when the time is up. For work on all matches, whatever the search's own order.
    """
    scan = Scan(tx, msgspec.structs.replace(search, order=Order.OLDEST), now, budget)
    start = (0, min(max(after_id, 0), MAX_ID))
    found, reached = scan.find(start, limit, is_backward=False)
    if len(found) == limit:
        reached = found[-1]
    return MatchingIds(tuple(number for _, number in found), None if reached is None else reached[1])


def _write_cursor(order: str, place: Position, *, is_backward: bool) -> str:
    packed = msgspec.msgpack.encode((str(order), is_backward, *place))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _read_cursor(cursor: str | None, order: str) -> tuple[bool, Position | None]:
    """Whether the cursor goes backward, and its position; forward from the beginning if it is invalid."""
    try:
        packed = base64.urlsafe_b64decode(f"{cursor or ''}===")
        made_for, is_backward, value, number = msgspec.msgpack.decode(packed, type=tuple[str, bool, int, int])
    except ValueError:
        return False, None
    if made_for != order or not 0 <= value <= NEVER or not -1 <= number <= MAX_ID:
        return False, None
    return is_backward, (value, number)


def _just_before(place: Position, order: str, *, is_backward: bool) -> Position:
    """The position from which this one comes first in the other direction."""
    value, number = place
    is_descending = Order(order).is_descending != is_backward
    return value, number - 1 if is_descending else number + 1
