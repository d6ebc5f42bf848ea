"""Pages of what a text finds."""

from typing import Any, Generic, TypeVar

import msgspec

Item = TypeVar("Item")
#: A place in the order of what is found; each kind has its own.
Place = tuple[Any, ...]

#: The time for one kind, in seconds. It may be exceeded by one step.
BUDGET = 0.02
#: The number of terms that are read in the first step, and at most.
FIRST_STEP, LONGEST_STEP = 100, 800


class Matches(msgspec.Struct, Generic[Item], frozen=True):
    """Some of what a text finds, and the place after which there may be more; None when these were the last.

    ``is_incomplete``: the time was up, or there are too many to look at, so that a narrower text is better.
    """

    items: tuple[Item, ...] = ()
    after: Place | None = None
    is_incomplete: bool = False


def page_of(placed: list[tuple[Place, Item]], limit: int) -> Matches[Item]:
    """The first ``limit`` of these, which are all that there are, or one more than the limit."""
    shown = placed[:limit]
    return Matches(tuple(item for _, item in shown), shown[-1][0] if len(placed) > limit else None)


def parse_number(text: str) -> int | None:
    """The number that a text is, with or without ``#`` before it."""
    digits = text.strip().removeprefix("#").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
