"""Pages of lists by keyset: a page begins after the position of the last item before it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

#: The highest number of matches that is counted.
MAX_COUNTED = 10_000
Item = TypeVar("Item")
#: The value by which a list is sorted, times in seconds, and the id.
Position = tuple[int | str, int]


class Paging(msgspec.Struct, frozen=True):
    """The page of a list that is asked for: up to ``limit`` items after a position.

    ``sort`` is the name of a column, with ``-`` before it for the largest first; ties are by id. One item
    more than ``limit`` is read: it says that there is a next page.
    """

    sort: str = "-created_at"
    after: Position | None = None
    limit: int = 50
    is_counted: bool = False


class ItemPage(msgspec.Struct, Generic[Item], frozen=True):
    """Items of a page, and one more where there is a next page. ``total`` is the number of matches, of which
    at most ``MAX_COUNTED + 1`` are counted; None where it was not asked for.
    """

    items: Sequence[Item]
    total: int | None = None


def position_of(item: Any, sort: str) -> Position:
    """The position of an item in a list that is sorted so."""
    value = getattr(item, sort.removeprefix("-"))
    return (int(value.timestamp()) if isinstance(value, datetime) else value, item.id)
