"""Database queries that find licenses among very many, a step at a time.

Every condition of a search has an index (a ``Source``). One source is the driver: its licenses are read in
the order of the list, some thousand at a time, and filtered by the other sources. So no query reads more than
that, however rare the matches are. The queries return IDs and positions.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from keywright.db import rows
from keywright.db.schema import customers, last_seen, license_updates, licenses, products, search_terms
from keywright.db.transaction import ReadTransaction
from keywright.search.filters import (
    BY_CREATION,
    BY_EXPIRY,
    BY_ID,
    BY_UPDATE,
    ENDLESS,
    EVERYTHING,
    NEVER,
    UPDATED,
    WITH_EXPIRY,
    Order,
    Search,
    Source,
    Track,
    sources_of,
    updated_at_of,
)

#: The columns by which candidates are filtered.
_CANDIDATE = [
    licenses.c[name]
    for name in (
        "id status product_id order_id customer_id expires_at times_activated times_activated_max "
        "created_at created_by policy_id order_ref external_id"
    ).split()
]
#: Candidates must come from the chosen index: plan with the actual values, and join by nested loops.
_PLANNER_OPTIONS = sa.text(
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true), "
    "set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"
)

#: A license's position in a list, and its ID. The position is its expiry (``NEVER`` for none) or its
#: creation, in seconds; 0 in an order by ID; or its index in the list if no index has the order.
Position = tuple[int, int]


class Step(NamedTuple):
    """A range to scan, between two positions; None means the beginning or the end of the track."""

    driver: Source
    track: Track
    after: Position | None
    until: Position | None
    is_descending: bool


def set_planner_options(tx: ReadTransaction) -> None:
    """Set the planner options that this module needs; call it first in a transaction."""
    if tx.is_postgres:
        tx.connection.execute(_PLANNER_OPTIONS)


# --- counting -------------------------------------------------------------------------------------


def count_each(tx: ReadTransaction, sources: Sequence[Source], most: int) -> list[int]:
    """Count the rows in each source's index, up to ``most``; a prefix may match a license twice."""
    if not sources:
        return []
    counts = [sa.select(sa.func.count()).select_from(_some(one, most)).scalar_subquery() for one in sources]
    return list(tx.connection.execute(sa.select(*counts)).one())


def count_distinct(tx: ReadTransaction, source: Source, most: int) -> int:
    """Count the distinct licenses among at most ``most`` rows of a source."""
    some = _some(source, most)
    return int(tx.connection.execute(sa.select(sa.func.count(some.c.number.distinct()))).scalar_one())


def are_there_any(tx: ReadTransaction, searches: Sequence[Search]) -> list[bool]:
    """Whether each of these searches, which have one condition each (not an expiry), has a match."""
    sources = [source for one in searches for source in sources_of(one, rows.to_datetime(0))]
    return [number > 0 for number in count_each(tx, sources, 1)]


def _some(source: Source, most: int) -> sa.Subquery:
    return sa.select(source.number.label("number")).where(*source.where).limit(most).subquery()


def find_among(tx: ReadTransaction, numbers: Collection[int], sources: Iterable[Source]) -> set[int]:
    """Return those of these licenses whose rows match all sources; conditions about search terms are
    ignored.
    """
    conditions = [one for source in sources for one in source.filter_row(licenses.c)]
    query = sa.select(licenses.c.id).where(licenses.c.id.in_(numbers), *conditions)
    return set(tx.connection.execute(query).scalars())


# --- few candidates, read at once -----------------------------------------------------------------


def gather(
    tx: ReadTransaction,
    sources: Sequence[Source],
    order: Order,
    *,
    after: Position | None,
    is_descending: bool,
    most: int,
    limit: int,
) -> list[Position]:
    """Return the first licenses after a position that match all sources, the first of which has at most
    ``most`` rows.
    """
    some, filters = _gathered(sources, _COLUMNS.get(order), most)
    key = [some.c.id] if order in _BY_ID else [_VALUES[order](some), some.c.id]
    beyond = [] if after is None else [_is_beyond(key, after, is_descending=is_descending)]
    query = sa.select(_VALUES[order](some), some.c.id).where(*filters, *beyond)
    return _positions(tx, query.order_by(*_order_by(key, is_descending=is_descending)).limit(limit))


def gather_sorted(
    tx: ReadTransaction,
    sources: Sequence[Source],
    order: Order,
    *,
    after: Position | None,
    is_backward: bool,
    most: int,
    limit: int,
) -> list[Position]:
    """Return the same licenses in an order without an index. Positions are indexes in the list, from 0, with
    the IDs: names must not occur in URLs.
    """
    some, filters = _gathered(sources, _COLUMNS.get(order), most)
    place = -1 if after is None else after[0]
    start = max(0, place - limit) if is_backward else place + 1
    query = sa.select(some.c.id).where(*filters).order_by(*_SORT_KEYS[order](some))
    found = tx.connection.execute(query.offset(start).limit(place - start if is_backward else limit))
    places = list(enumerate((int(number) for number in found.scalars()), start))
    return places[::-1] if is_backward else places


def _gathered(
    sources: Sequence[Source], column: str | None, most: int
) -> tuple[sa.Subquery, list[sa.ColumnElement[bool]]]:
    """Return the candidates, with a column to sort by, and the remaining filters."""
    driver, *others = sources
    if others or driver.number is not licenses.c.id:
        some = _candidates(driver, (), (), limit=most)
        return some, _filters(some, driver, sources)
    # The index covers all conditions: no row is read, except for the column.
    columns = [licenses.c[name] for name in ("id", column) if name is not None]
    return sa.select(*columns).where(*driver.where).limit(most).subquery("some"), []


def count_gathered(tx: ReadTransaction, sources: Sequence[Source], most: int) -> int:
    """Count the licenses that match all sources, the first of which has at most ``most`` rows."""
    driver, *_ = sources
    some = _candidates(driver, (), (), limit=most)
    query = sa.select(sa.func.count()).select_from(some).where(*_filters(some, driver, sources))
    return int(tx.connection.execute(query).scalar_one())


# --- many candidates, step by step ----------------------------------------------------------------


def next_step(
    tx: ReadTransaction,
    sources: Collection[Source],
    track: Track,
    after: Position | None,
    *,
    is_descending: bool,
    size: int,
) -> Step | None:
    """The next range to scan: about ``size`` licenses of the source with the fewest; None at the end."""
    drivers = [one for one in sources if one.order == track.columns]
    if len(track.columns) > 1:
        driver = next(iter(drivers), _EVERY[track])
        query = _positions_after(driver, track, after, is_descending=is_descending)
        row = tx.connection.execute(query.offset(size - 1).limit(1)).first()
        until = None if row is None else (int(row[0]), int(row[1]))
        return Step(driver, track, after, until, is_descending)
    drivers = drivers or [EVERYTHING]
    queries = [_positions_after(one, track, after, is_descending=is_descending).limit(1) for one in drivers]
    queries += [one.offset(size - 1) for one in queries]
    found = tx.connection.execute(sa.select(*(one.scalar_subquery() for one in queries))).one()
    firsts, lasts = found[: len(drivers)], found[len(drivers) :]
    if None in firsts:
        return None
    return _farthest(drivers, track, firsts, lasts, is_descending=is_descending)


def _farthest(
    drivers: Sequence[Source],
    track: Track,
    firsts: Sequence[int],
    lasts: Sequence[int | None],
    *,
    is_descending: bool,
) -> Step:
    forward = -1 if is_descending else 1
    value = NEVER if track.only_endless else 0
    # No license before the first one of some driver can match all of them.
    first = max(firsts, key=lambda number: forward * number)
    reach = [float("inf") if number is None else forward * number for number in lasts]
    best = reach.index(max(reach))
    last = lasts[best]
    until = None if last is None else (value, last)
    return Step(drivers[best], track, (value, first - forward), until, is_descending)


def scan(
    tx: ReadTransaction, step: Step, sources: Collection[Source], *, limit: int, size: int
) -> list[Position]:
    """Return the first licenses of a step of this size that match all sources."""
    columns = _columns(step.driver, step.track)
    span: list[sa.ColumnElement[bool]] = []
    if step.after is not None:
        span.append(_is_beyond(columns, step.after, is_descending=step.is_descending))
    if step.until is not None:
        span.append(sa.not_(_is_beyond(columns, step.until, is_descending=step.is_descending)))
    order = _order_by(columns, is_descending=step.is_descending)
    some = _candidates(step.driver, span, order, limit=size, columns=columns[:-1])
    value = _VALUES[_ORDER_OF[step.track]](some)
    query = sa.select(value, some.c.id)
    query = query.where(*_filters(some, step.driver, sources))
    if step.track.only_endless:
        query = query.where(some.c.expires_at.is_(None))
    key = [value, some.c.id][-len(step.track.columns) :]
    return _positions(tx, query.order_by(*_order_by(key, is_descending=step.is_descending)).limit(limit))


# --- skipping -------------------------------------------------------------------------------------


def skip_by_id(
    tx: ReadTransaction, source: Source, after: Position, *, is_descending: bool, most: int
) -> Position | None:
    """Return the farthest position, by ID, so that a source in another order has nothing between ``after``
    and it; None if the source has nothing more. Returns ``after`` if the source has ``most`` rows or more.
    """
    value, number = after
    some = _some(source, most)
    nearest = sa.func.max(some.c.number) if is_descending else sa.func.min(some.c.number)
    is_beyond = some.c.number < number if is_descending else some.c.number > number
    seen, first = tx.connection.execute(sa.select(sa.func.count(), nearest.filter(is_beyond))).one()
    if seen == most:
        return after
    return None if first is None else (value, first + 1 if is_descending else first - 1)


# --- statements -----------------------------------------------------------------------------------


def _columns(driver: Source, track: Track) -> list[Any]:
    table = license_updates if track is BY_UPDATE else licenses
    return [driver.number if name == "id" else table.c[name] for name in track.columns]


def _order_by(columns: Iterable[Any], *, is_descending: bool) -> list[Any]:
    return [one.desc() if is_descending else one for one in columns]


def _is_beyond(columns: Sequence[Any], position: Position, *, is_descending: bool) -> sa.ColumnElement[bool]:
    key: sa.ColumnElement[Any] = columns[0] if len(columns) == 1 else sa.tuple_(*columns)
    place = position[1] if len(columns) == 1 else sa.tuple_(*position)
    return key < place if is_descending else key > place


def _positions_after(
    driver: Source, track: Track, after: Position | None, *, is_descending: bool
) -> sa.Select[Any]:
    """Select the driver's positions in the track after this one."""
    columns = _columns(driver, track)
    query = sa.select(*columns).where(*driver.where)
    if after is not None:
        query = query.where(_is_beyond(columns, after, is_descending=is_descending))
    return query.order_by(*_order_by(columns, is_descending=is_descending))


def _candidates(
    driver: Source, span: Iterable[Any], order: Iterable[Any], *, limit: int, columns: Sequence[Any] = ()
) -> sa.Subquery:
    """Select the driver's licenses within the span. The limit keeps the planner from using another index. The
    order is that of ``columns``, then of IDs.
    """
    if driver.number is licenses.c.id:
        return (
            sa.select(*_CANDIDATE).where(*driver.where, *span).order_by(*order).limit(limit).subquery("some")
        )
    query = sa.select(driver.number.label("number"), *columns).distinct().where(*driver.where, *span)
    numbers = query.order_by(*order).limit(limit).subquery("numbers")
    return sa.select(*_CANDIDATE).join(numbers, numbers.c.number == licenses.c.id).subquery("some")


def _filters(some: sa.Subquery, driver: Source, sources: Iterable[Source]) -> list[Any]:
    found: list[Any] = []
    for source in sources:
        found += source.filter_row(some.c)
        if source.term_conditions and source is not driver:
            found.append(sa.exists().where(search_terms.c.license_id == some.c.id, *source.term_conditions))
    return found


def _expiry(some: sa.Subquery) -> Any:
    return sa.func.coalesce(some.c.expires_at, NEVER)


_LATEST_SEEN = sa.select(sa.func.max(last_seen.c.seen_at))


def _seen(some: sa.Subquery) -> Any:
    return sa.func.coalesce(_LATEST_SEEN.where(last_seen.c.license_id == some.c.id).scalar_subquery(), 0)


def _by_name(some: sa.Subquery, table: sa.Table, column: str, *names: str) -> list[Any]:
    """Sort by the name in this table, or else by the ID; licenses without an ID come last."""
    number = some.c[column]
    name = sa.func.coalesce(*(table.c[one] for one in names), sa.cast(table.c.id, sa.Text))
    named = sa.select(name).where(table.c.id == number).scalar_subquery()
    return [number.is_(None), sa.func.lower(sa.func.coalesce(named, sa.cast(number, sa.Text))), some.c.id]


_BY_ID = (Order.NEWEST, Order.OLDEST)
#: The sort keys of the orders without an index, and the columns of licenses that the orders need.
_SORT_KEYS: dict[Order, Callable[[sa.Subquery], list[Any]]] = {
    Order.CUSTOMER: lambda some: _by_name(some, customers, "customer_id", "name", "email"),
    Order.PRODUCT: lambda some: _by_name(some, products, "product_id", "name"),
    Order.SEEN: lambda some: [_seen(some).desc(), some.c.id.desc()],
    Order.UNSEEN: lambda some: [_seen(some), some.c.id],
}
_COLUMNS = {
    Order.CUSTOMER: "customer_id",
    Order.PRODUCT: "product_id",
    Order.EXPIRES: "expires_at",
    Order.CREATED: "created_at",
    Order.LATEST: "created_at",
}
#: The value in the positions of each order, and the order of each track.
_VALUES: dict[Order, Callable[[sa.Subquery], Any]] = {
    Order.EXPIRES: _expiry,
    Order.CREATED: lambda some: some.c.created_at,
    Order.LATEST: lambda some: some.c.created_at,
    Order.UPDATED: lambda some: updated_at_of(some.c),
    Order.NEWEST: lambda _: sa.literal(0),
    Order.OLDEST: lambda _: sa.literal(0),
}
_ORDER_OF = {
    BY_ID: Order.OLDEST,
    BY_EXPIRY: Order.EXPIRES,
    ENDLESS: Order.EXPIRES,
    BY_CREATION: Order.CREATED,
    BY_UPDATE: Order.UPDATED,
}
#: All licenses of a track that is not ordered by ID.
_EVERY = {BY_EXPIRY: WITH_EXPIRY, BY_CREATION: EVERYTHING, BY_UPDATE: UPDATED}


def _positions(tx: ReadTransaction, query: sa.Select[Any]) -> list[Position]:
    return [(int(value), int(number)) for value, number in tx.connection.execute(query)]
