"""Lists in pages, by id."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keywright.core.paging import ItemPage, Paging, Position
from keywright.db import ReadTransaction
from keywright.http.pages.inputs import parse_number
from keywright.http.pages.request import PageRequest

PAGE_SIZE = 50


class ListPage(NamedTuple):
    """A page of a list. ``previous`` and ``next`` are the ids after which those pages begin; None is the
    first page, and no next one.
    """

    items: Sequence[Any]
    is_first: bool
    previous: int | None
    next: int | None
    #: Whether the list has items, on this page or on others.
    has_items: bool


def read_page(request: PageRequest, read: Callable[[ReadTransaction, Paging], ItemPage[Any]]) -> ListPage:
    """The page that begins after the id in the parameter ``after``."""
    after = parse_number(request.query.get("after", ""))
    found = _read(request, read, "id", after)
    items = found[:PAGE_SIZE]
    next_after = items[-1].id if len(found) > PAGE_SIZE else None
    if after is None:
        return ListPage(items, True, None, next_after, bool(items))
    # The items up to that id, the last ones first.
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
