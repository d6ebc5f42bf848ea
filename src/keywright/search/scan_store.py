"""Finding licenses among very many, a step at a time.

Whatever a search asks for has an index (a ``Source``). One of them drives: its licenses are taken in the
order of the list, some thousand at a time, and are judged by everything else that is asked for. So no
statement looks at more than that, however rare what is looked for. All of it is about numbers and places
in the order; ``list_numbered`` reads the licenses themselves.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Subquery, exists, func, literal, not_, select, text, tuple_

from keywright.db import rows
from keywright.db.bulk import Lookup
from keywright.db.schema import licenses, search_terms
from keywright.db.transaction import ReadTransaction
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import LICENSE, license_of
from keywright.search.filters import (
    BY_EXPIRY,
    BY_ID,
    EVERYTHING,
    NEVER,
    WITH_EXPIRY,
    Order,
    Search,
    Source,
    Track,
    sources_of,
)

#: What candidates are judged by.
_JUDGED = [
    licenses.c[name]
    for name in (
        "id status product_id order_id customer_id expires_at times_activated times_activated_max"
    ).split()
]
_NUMBERED = Lookup(select(*LICENSE, licenses.c.sealed_key), licenses.c.id)
#: Candidates must be taken by the index that was chosen for them: with the values in sight, and one after
#: the other.
_STEER = text(
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true), "
    "set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"
)

#: Where a license stands in a list: when it expires (``NEVER``; 0 in orders that do not ask), and its number.
Position = tuple[int, int]


class Step(NamedTuple):
    """What is looked at next: a driver's licenses after one position, up to another and with it; None is
    where the track begins and ends.
    """

    driver: Source
    track: Track
    after: Position | None
    until: Position | None
    is_descending: bool


def steer(tx: ReadTransaction) -> None:
    """To be called before anything else here in a transaction."""
    if tx.is_postgres:
        tx.connection.execute(_STEER)


def list_numbered(tx: ReadTransaction, numbers: Iterable[int]) -> list[License]:
    """The licenses with these numbers, in the same order."""
    wanted = list(numbers)
    found = {}
    for row in _NUMBERED.rows(tx.connection, [(number,) for number in wanted]):
        key = tx.key_ring.unseal_key(row.sealed_key, row.id)
        found[row.id] = license_of(row[:-1], key)
    return [found[number] for number in wanted if number in found]


# --- counting -------------------------------------------------------------------------------------


def count_each(tx: ReadTransaction, sources: Sequence[Source], most: int) -> list[int]:
    """How many rows each index has of what is asked for, at most so many. A license can have several
    search terms with one beginning.
    """
    if not sources:
        return []
    return list(tx.connection.execute(select(*(_counted(one, most) for one in sources))).one())


def count_everything(tx: ReadTransaction, most: int) -> int:
    """How many licenses there are, at most so many."""
    return count_each(tx, [EVERYTHING], most)[0]


def count_distinct(tx: ReadTransaction, source: Source, most: int) -> int:
    """How many licenses an index has of what is asked for, among at most so many rows."""
    some = _some(source, most)
    return int(tx.connection.execute(select(func.count(some.c.number.distinct()))).scalar_one())


def exist_each(tx: ReadTransaction, searches: Sequence[Search]) -> list[bool]:
    """Whether there is anything that is searched for by one thing each (and not by expiry)."""
    sources = [source for one in searches for source in sources_of(one, rows.moment(0))]
    return [number > 0 for number in count_each(tx, sources, 1)]


def _counted(source: Source, most: int) -> Any:
    return select(func.count()).select_from(_some(source, most)).scalar_subquery()


def _some(source: Source, most: int) -> Subquery:
    return select(source.number.label("number")).where(*source.where).limit(most).subquery()


# --- some, all at once ----------------------------------------------------------------------------


def gather(
    tx: ReadTransaction,
    driver: Source,
    sources: Collection[Source],
    order: Order,
    *,
    after: Position | None,
    is_descending: bool,
    most: int,
    limit: int,
) -> list[Position]:
    """The first licenses after a position that have what all sources ask for, one of which has at most
    ``most`` rows.
    """
    some = _candidates(driver, (), (), limit=most)
    key = [_expiry(some), some.c.id] if order is Order.EXPIRES else [some.c.id]
    beyond = [] if after is None else [_is_beyond(key, after, is_descending=is_descending)]
    query = _placed(some, is_by_expiry=order is Order.EXPIRES).where(
        *_judgement(some, driver, sources), *beyond
    )
    return _positions(tx, query.order_by(*_directed(key, is_descending=is_descending)).limit(limit))


def count_gathered(tx: ReadTransaction, driver: Source, sources: Collection[Source], most: int) -> int:
    """How many licenses have what all sources ask for, one of which has at most ``most`` rows."""
    some = _candidates(driver, (), (), limit=most)
    query = select(func.count()).select_from(some).where(*_judgement(some, driver, sources))
    return int(tx.connection.execute(query).scalar_one())


# --- many, step by step ---------------------------------------------------------------------------


def next_step(
    tx: ReadTransaction,
    sources: Collection[Source],
    track: Track,
    after: Position | None,
    *,
    is_descending: bool,
    size: int,
) -> Step | None:
    """Where to look next for what all sources ask for: at some ``size`` licenses of the source that has the
    fewest hereabouts. None where nothing follows.
    """
    drivers = [one for one in sources if one.order == track.columns]
    if track == BY_EXPIRY:
        driver = drivers[0] if drivers else WITH_EXPIRY
        query = _following(driver, track, after, is_descending=is_descending)
        row = tx.connection.execute(query.offset(size - 1).limit(1)).first()
        until = None if row is None else (int(row[0]), int(row[1]))
        return Step(driver, track, after, until, is_descending)
    drivers = drivers or [EVERYTHING]
    queries = [_following(one, track, after, is_descending=is_descending).limit(1) for one in drivers]
    queries += [one.offset(size - 1) for one in queries]
    found = tx.connection.execute(select(*(one.scalar_subquery() for one in queries))).one()
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
    # Nothing before the first of any of them can have what all of them ask for.
    first = max(firsts, key=lambda number: forward * number)
    reach = [float("inf") if number is None else forward * number for number in lasts]
    best = reach.index(max(reach))
    last = lasts[best]
    until = None if last is None else (value, last)
    return Step(drivers[best], track, (value, first - forward), until, is_descending)


def scan(
    tx: ReadTransaction, step: Step, sources: Collection[Source], *, limit: int, size: int
) -> list[Position]:
    """The first licenses of a step of this size that have what all sources ask for."""
    columns = _columns(step.driver, step.track)
    span: list[ColumnElement[bool]] = []
    if step.after is not None:
        span.append(_is_beyond(columns, step.after, is_descending=step.is_descending))
    if step.until is not None:
        span.append(not_(_is_beyond(columns, step.until, is_descending=step.is_descending)))
    order = _directed(columns, is_descending=step.is_descending)
    some = _candidates(step.driver, span, order, limit=size)
    query = _placed(some, is_by_expiry=step.track != BY_ID).where(*_judgement(some, step.driver, sources))
    if step.track.only_endless:
        query = query.where(some.c.expires_at.is_(None))
    key = _directed([some.c[name] for name in step.track.columns], is_descending=step.is_descending)
    return _positions(tx, query.order_by(*key).limit(limit))


# --- passing by -----------------------------------------------------------------------------------


def passed_by_id(
    tx: ReadTransaction, source: Source, after: Position, *, is_descending: bool, most: int
) -> Position | None:
    """The farthest position in the order of numbers so that a source of another order has nothing between
    ``after`` and it; None when the source has nothing more. Unchanged where it has ``most`` rows or more.
    """
    value, number = after
    some = _some(source, most)
    nearest = func.max(some.c.number) if is_descending else func.min(some.c.number)
    is_beyond = some.c.number < number if is_descending else some.c.number > number
    seen, first = tx.connection.execute(select(func.count(), nearest.filter(is_beyond))).one()
    if seen == most:
        return after
    return None if first is None else (value, first + 1 if is_descending else first - 1)


def numbers_between(tx: ReadTransaction, sources: Iterable[Source]) -> tuple[int, int] | None:
    """The smallest and the largest number that a license with all of these can have, as far as indices in the
    order of numbers tell; None where there can be no such license.
    """
    ordered = [EVERYTHING, *(one for one in sources if one.order == BY_ID.columns)]
    ends = [
        _following(one, BY_ID, None, is_descending=is_descending).limit(1).scalar_subquery()
        for is_descending in (False, True)
        for one in ordered
    ]
    found = tx.connection.execute(select(*ends)).one()
    if None in found:
        return None
    first, last = max(found[: len(ordered)]), min(found[len(ordered) :])
    return (first, last) if first <= last else None


def passed_by_expiry(
    tx: ReadTransaction, numbers: tuple[int, int], after: Position, *, is_descending: bool, most: int
) -> Position | None:
    """The farthest position in the order of expiry, at most ``most`` licenses away, so that between ``after``
    and it none has a number between these; None at the end.
    """
    following = _following(WITH_EXPIRY, BY_EXPIRY, after, is_descending=is_descending)
    some = following.limit(most).subquery()
    key = _directed(some.c, is_descending=is_descending)
    query = select(some).where(some.c.id.between(*numbers)).order_by(*key).limit(1)
    row = tx.connection.execute(query).first()
    if row is not None:
        return row[0], row[1] + 1 if is_descending else row[1] - 1
    last = tx.connection.execute(following.offset(most - 1).limit(1)).first()
    return None if last is None else (last[0], last[1])


# --- statements -----------------------------------------------------------------------------------


def _columns(driver: Source, track: Track) -> list[Any]:
    return [driver.number if name == "id" else licenses.c[name] for name in track.columns]


def _directed(columns: Iterable[Any], *, is_descending: bool) -> list[Any]:
    return [one.desc() if is_descending else one for one in columns]


def _is_beyond(columns: Sequence[Any], position: Position, *, is_descending: bool) -> ColumnElement[bool]:
    key: ColumnElement[Any] = columns[0] if len(columns) == 1 else tuple_(*columns)
    place = position[1] if len(columns) == 1 else tuple_(*position)
    return key < place if is_descending else key > place


def _following(driver: Source, track: Track, after: Position | None, *, is_descending: bool) -> Select[Any]:
    """The driver's places in the track after that position."""
    columns = _columns(driver, track)
    query = select(*columns).where(*driver.where)
    if after is not None:
        query = query.where(_is_beyond(columns, after, is_descending=is_descending))
    return query.order_by(*_directed(columns, is_descending=is_descending))


def _candidates(driver: Source, span: Iterable[Any], order: Iterable[Any], *, limit: int) -> Subquery:
    """The driver's licenses within the span. The limit keeps databases from looking for them elsewhere."""
    if driver.number is licenses.c.id:
        return select(*_JUDGED).where(*driver.where, *span).order_by(*order).limit(limit).subquery("some")
    query = select(driver.number.label("number")).distinct().where(*driver.where, *span)
    numbers = query.order_by(*order).limit(limit).subquery("numbers")
    return select(*_JUDGED).join(numbers, numbers.c.number == licenses.c.id).subquery("some")


def _judgement(some: Subquery, driver: Source, sources: Iterable[Source]) -> list[Any]:
    found: list[Any] = []
    for source in sources:
        found += source.judge(some.c)
        if source.term_conditions and source is not driver:
            found.append(exists().where(search_terms.c.license_id == some.c.id, *source.term_conditions))
    return found


def _expiry(some: Subquery) -> Any:
    return func.coalesce(some.c.expires_at, NEVER)


def _placed(some: Subquery, *, is_by_expiry: bool) -> Select[Any]:
    return select(_expiry(some) if is_by_expiry else literal(0), some.c.id)


def _positions(tx: ReadTransaction, query: Select[Any]) -> list[Position]:
    return [(int(value), int(number)) for value, number in tx.connection.execute(query)]
