"""Lists that are read page by page."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from keywright.cli import output
from keywright.cli.installation import Installation
from keywright.core.command import Query
from keywright.core.paging import ItemPage, Paging, Position

Item = TypeVar("Item")

_PIECE, _ROWS_OF_A_TABLE = 500, 50

Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help=f"How many to show. Without it: {_ROWS_OF_A_TABLE}; as JSON, all of them.",
    ),
]


def print_list(
    here: Installation,
    query: Callable[[Paging], Query],
    *,
    limit: int | None,
    as_json: bool,
    columns: Sequence[str],
    to_row: Callable[[Any], Sequence[object]],
    to_json: Callable[[Any], object],
) -> None:
    """Print a list, in the order of ids: a table of the first ones, or all as JSON."""
    if as_json:
        output.print_json_array(map(to_json, _read(here, query, limit)))
        return
    wanted = limit or _ROWS_OF_A_TABLE
    found = list(_read(here, query, wanted + 1))
    output.print_table(columns, map(to_row, found[:wanted]))
    if len(found) > wanted:
        output.print_line(f"The first {wanted:,}; --limit shows more.")


def _read(here: Installation, query: Callable[[Paging], Query], limit: int | None) -> Iterable[Any]:
    after: Position | None = None
    left = limit
    while left is None or left > 0:
        amount = _PIECE if left is None else min(_PIECE, left)
        page: ItemPage[Any] = here.ask(query(Paging(sort="id", after=after, limit=amount)))
        items = page.items[:amount]
        yield from items
        if len(page.items) <= amount:
            return
        after = (items[-1].id, items[-1].id)
        left = None if left is None else left - amount
