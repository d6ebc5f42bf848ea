"""Read a page of a list by keyset."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Row, Select, func, select, tuple_

from keywright.core.paging import MAX_COUNTED, ItemPage, Paging
from keywright.db.transaction import ReadTransaction

Item = TypeVar("Item")


def read_page(
    tx: ReadTransaction, query: Select[Any], paging: Paging, convert: Callable[[Row[Any]], Item]
) -> ItemPage[Item]:
    """A page of what ``query``, which has no order, selects from a table with the column ``id``. An index on
    the column by which the list is sorted, and the id, keeps it fast.
    """
    columns = query.selected_columns
    order = (columns[paging.sort.removeprefix("-")], columns["id"])
    is_descending = paging.sort.startswith("-")
    page = query.order_by(*(one.desc() if is_descending else one for one in order)).limit(paging.limit + 1)
    if paging.after is not None:
        after = tuple_(*paging.after)
        page = page.where(tuple_(*order) < after if is_descending else tuple_(*order) > after)
    found = [convert(row) for row in tx.connection.execute(page)]
    return ItemPage(found, _count(tx, query) if paging.is_counted else None)


def _count(tx: ReadTransaction, query: Select[Any]) -> int:
    some = query.with_only_columns(query.selected_columns["id"]).limit(MAX_COUNTED + 1).subquery()
    return int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())
