"""The work queue: items of several kinds that wait in tables, and the claims of server processes to them.

Each kind has its own table, which a ``Kind`` describes: which rows are waiting now, and the columns of a
claim. One statement polls all kinds. A claim is written only if it is still as it was last seen (compare and
swap), so that only one of two processes gets it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from time import monotonic
from typing import Any, NamedTuple

import sqlalchemy as sa

from keywright.core.command import Command, Query
from keywright.db import Question, ReadTransaction, WriteTransaction
from keywright.db.rows import to_seconds
from keywright.engine.executor import Work

#: How long a claim is valid if its owner does not renew it.
CLAIM = timedelta(seconds=5)
#: The most items of a kind that a poll returns. There are no more jobs or endpoints than that, so items that
#: are claimed or postponed do not hide others.
AT_ONCE = 100
_NONE, _NO_NAME = sa.literal(0, sa.BigInteger), sa.cast(sa.null(), sa.String)


class Item(NamedTuple):
    """A waiting row, with its claim as it was seen; ``detail`` is data for its kind."""

    id: int
    claimed_by: str | None = None
    claimed_until: int | None = None
    detail: int = 0


@dataclass(frozen=True, eq=False)
class Kind:
    """How the items of one kind wait. Its statements are built only once."""

    #: Whether a row waits for work at ``NOW``, claimed or not.
    waits: sa.ColumnElement[bool]
    #: The end of a claim; for a kind without ``claimed_by``, when the item is due.
    claimed_until: sa.Column[int]
    claimed_by: sa.Column[str] | None = None
    _: KW_ONLY
    #: The sort order of items: the next one first.
    order: tuple[sa.ColumnElement[Any], ...] = ()
    #: The columns that a claim returns, and their conversion.
    columns: Sequence[sa.ColumnElement[Any]]
    convert: Callable[[sa.Row[Any]], Any]
    #: Other columns that a claim changes.
    changes: Callable[[datetime], Mapping[str, Any]] = lambda _: {}
    detail: sa.ColumnElement[int] = _NONE
    holds_for: timedelta = CLAIM
    #: Filters the items that were found: those on which work can begin.
    confirm: Callable[[ReadTransaction, list[Item]], list[Item]] | None = None

    @cached_property
    def found(self) -> sa.Select[Any]:
        """The query that finds waiting items."""
        by = _NO_NAME if self.claimed_by is None else self.claimed_by
        columns = (by.label("by"), self.claimed_until.label("until"), self.detail.label("detail"))
        number = self.claimed_until.table.c.id
        return sa.select(number, *columns).where(self.waits).order_by(*self.order, number).limit(AT_ONCE)


def claim_item(
    tx: WriteTransaction, kind: Kind, item: Item, *, claimed_by: str, now: datetime, skips_locked: bool = True
) -> Any:
    """Claim an item and return it; None if its claim has changed, it no longer waits, or another transaction
    has locked it. Without ``skips_locked``, a locked item is waited for.
    """
    query = _write(kind, item, claimed_by, claimed_by, now + kind.holds_for, skips_locked=skips_locked)
    query = query.values(kind.changes(now)).returning(*kind.columns)
    row = tx.connection.execute(query, {"now": to_seconds(now)}).first()
    return None if row is None else kind.convert(row)


def _write(
    kind: Kind, item: Item, own: str, claims_as: str | None, until: datetime, *, skips_locked: bool = True
) -> sa.Update:
    """Write the owner and end of a claim that is the sender's own, or as seen on a waiting item."""
    by, end = kind.claimed_by, kind.claimed_until
    number = end.table.c.id
    values: dict[Any, Any] = {end: to_seconds(until)}
    is_free = sa.and_(end.is_not_distinct_from(item.claimed_until), kind.waits)
    if by is not None:
        is_free = sa.or_(by == own, sa.and_(by.is_not_distinct_from(item.claimed_by), is_free))
        values[by] = claims_as
    free = sa.select(number).where(number == item.id, is_free).correlate(None)
    locked = free.with_for_update(skip_locked=skips_locked).scalar_subquery()
    return sa.update(end.table).where(number == locked).values(values)


# --- claims of other processes --------------------------------------------------------------------


class Claims:
    """The claims to items of a kind, as one process has seen them. The time in a claim comes from the clock
    of another process, which may be wrong. So a claim counts as expired only if it has not changed for the
    validity of a claim, measured from when this process first saw it.
    """

    def __init__(
        self, claimed_by: str, clock: Callable[[], float] = monotonic, holds_for: timedelta = CLAIM
    ) -> None:
        """``clock`` returns seconds and is monotonic."""
        self._holds_for = holds_for.total_seconds()
        self._claimed_by = claimed_by
        self._clock = clock
        self._seen_at: dict[Item, float] = {}

    def find_over(self, items: Iterable[Item]) -> tuple[Item, ...]:
        """Those of all items whose claims have expired, are this process's own, or have no owner."""
        now = self._clock()
        self._seen_at = {one: self._seen_at.get(one, now) for one in items}
        latest = now - self._holds_for
        return tuple(
            one
            for one, seen_at in self._seen_at.items()
            if seen_at <= latest or one.claimed_by in (None, self._claimed_by)
        )


# --- commands and queries -------------------------------------------------------------------------


class LookForWork(Query, frozen=True, kw_only=True):
    """Return for each kind a list of its waiting items, and for each question one item if it finds a row."""

    now: datetime
    kinds: tuple[Kind, ...] = ()
    questions: tuple[Question, ...] = ()


class ClaimItem(Command, frozen=True, kw_only=True):
    """Claim an item if its claim is as seen; the outcome is what its kind returns, or None."""

    is_internal = True

    kind: Kind
    item: Item
    claimed_by: str


class HoldItems(Command, frozen=True, kw_only=True):
    """Renew the claims to items or, with ``is_over``, release them. Returns how many were the sender's."""

    kind: Kind
    items: Collection[Item]
    claimed_by: str
    is_over: bool = False


@lru_cache(maxsize=8)
def _look(kinds: tuple[Kind, ...], questions: tuple[Question, ...]) -> sa.CompoundSelect[Any]:
    parts = [sa.select(sa.literal(place), *kind.found.subquery().c) for place, kind in enumerate(kinds)]
    nothing = (_NONE, _NO_NAME, sa.cast(sa.null(), sa.BigInteger), _NONE)
    parts += [
        sa.select(sa.literal(place), *nothing).where(question.exists())
        for place, question in enumerate(questions, len(kinds))
    ]
    return sa.union_all(*parts)


def look_for_work(read: Any, query: LookForWork) -> list[list[Item]]:
    """Poll all tables in one statement; a kind that confirms its items may run more statements."""
    tx: ReadTransaction = read.tx
    kinds = query.kinds
    found: list[list[Item]] = [[] for _ in (*kinds, *query.questions)]
    rows = tx.connection.execute(_look(kinds, query.questions), {"now": to_seconds(query.now)})
    for place, *item in rows:
        found[place].append(Item(*item))
    for kind, items in zip(kinds, found, strict=False):
        if items and kind.confirm is not None:
            items[:] = kind.confirm(tx, items)
    return found


def _claim_item(work: Work, command: ClaimItem) -> Any:
    now = command.context.now
    return claim_item(work.tx, command.kind, command.item, claimed_by=command.claimed_by, now=now)


def _hold_items(work: Work, command: HoldItems) -> int:
    now, own = command.context.now, command.claimed_by
    claims_as, until = (None, now) if command.is_over else (own, now + command.kind.holds_for)
    queries = [_write(command.kind, one, own, claims_as, until) for one in command.items]
    return sum(work.tx.connection.execute(one, {"now": to_seconds(now)}).rowcount for one in queries)


HANDLERS: dict[type[Command], Callable[[Any, Any], Any]] = {ClaimItem: _claim_item, HoldItems: _hold_items}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {LookForWork: look_for_work}
