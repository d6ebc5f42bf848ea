"""What can be searched for, and which index finds it."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, SmallInteger, func

from keywright.core.parsing import MAX_ID, is_storable
from keywright.db import rows
from keywright.db.schema import licenses, search_terms
from keywright.licensing.licenses.rules import expiry_after
from keywright.search.terms_store import FULL, UNUSED

#: Where a license without an expiry stands in the order of expiry.
NEVER = 2**62
_MOST_SMALL = 2**15 - 1
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

Conditions = tuple[ColumnElement[bool], ...]


class Order(StrEnum):
    """What comes first in a list: the newest licenses, the oldest, or those that expire soonest; those that
    never expire come last.
    """

    NEWEST = "newest"
    OLDEST = "oldest"
    EXPIRES = "expires"


class Search(msgspec.Struct, frozen=True):
    """What the licenses that are looked for have in common; None and False ask for nothing.

    ``term`` is a term of the table of search terms or, with ``is_prefix``, the beginning of some.
    """

    status: int | None = None
    product_id: int | None = None
    order_id: int | None = None
    customer_id: int | None = None
    expiring_within_days: int | None = None
    is_full: bool = False
    is_unused: bool = False
    license_id: int | None = None
    term: str | None = None
    is_prefix: bool = False
    order: Order = Order.NEWEST


class Track(NamedTuple):
    """Columns in whose order licenses can be taken; perhaps only those that never expire."""

    columns: tuple[str, ...]
    only_endless: bool = False


BY_ID = Track(("id",))
BY_EXPIRY = Track(("expires_at", "id"))
ENDLESS = Track(("id",), only_endless=True)


class Source(NamedTuple):
    """Something that is asked for, and the index where those are found that have it."""

    #: The column with the license's number, in the index's table.
    number: ColumnElement[Any]
    where: Conditions
    #: In which order the index has them; () is none of a list's.
    order: tuple[str, ...]
    #: What a license's own row has to say, and one of its search terms, where it was found otherwise.
    judge: Callable[[Any], Conditions]
    term_conditions: Conditions = ()


def sources_of(search: Search, now: datetime) -> list[Source]:
    """What is asked for, each with its index."""
    columns = {
        "id": search.license_id,
        "order_id": search.order_id,
        "customer_id": search.customer_id,
        "product_id": search.product_id,
        "status": search.status,
    }
    found = [with_value(name, value) for name, value in columns.items() if value is not None]
    if search.term is not None:
        found.append(with_term(search.term, is_prefix=search.is_prefix))
    if search.is_full:
        found.append(with_term(FULL)._replace(judge=_is_full))
    if search.is_unused:
        found.append(with_term(UNUSED)._replace(judge=_is_unused))
    if search.expiring_within_days is not None:
        found.append(expiring(now, expiry_after(now, search.expiring_within_days)))
    return found


def with_value(name: str, value: int) -> Source:
    """Licenses with this number in one of the columns that have an index."""
    # What no column can hold, none holds.
    most = _MOST_SMALL if isinstance(licenses.c[name].type, SmallInteger) else MAX_ID
    wanted = value if 0 <= value <= most else -1
    where = (licenses.c[name] == wanted,)
    return Source(licenses.c.id, where, BY_ID.columns, lambda row: (row[name] == wanted,))


def with_term(term: str, *, is_prefix: bool = False) -> Source:
    """Licenses with this term in the table of search terms, or with one that begins so."""
    if not is_storable(term):
        return with_value("id", -1)
    is_it = (search_terms.c.term == term,)
    if not is_prefix:
        return Source(search_terms.c.license_id, is_it, BY_ID.columns, _judge_nothing, is_it)
    # Written so that no index on terms answers it: a license has few terms, many licenses have such terms.
    begins_so = (func.substr(search_terms.c.term, 1, len(term)) == term,)
    return Source(search_terms.c.license_id, _beginning(term), (), _judge_nothing, begins_so)


def expiring(after: datetime, until: datetime) -> Source:
    """Licenses that expire after the one moment, and not after the other."""
    first, last = rows.seconds(after) + 1, rows.seconds(until)

    def judge(row: Any) -> Conditions:
        return (row.expires_at >= first, row.expires_at <= last)

    return Source(licenses.c.id, judge(licenses.c), BY_EXPIRY.columns, judge)


def _judge_nothing(_row: Any) -> Conditions:
    return ()


# Search terms are some seconds behind: what is not full any more is not shown as full.
def _is_full(row: Any) -> Conditions:
    return (row.times_activated >= row.times_activated_max,)


def _is_unused(row: Any) -> Conditions:
    return (row.times_activated == 0,)


EVERYTHING = Source(licenses.c.id, (), BY_ID.columns, _judge_nothing)
WITH_EXPIRY = Source(licenses.c.id, (licenses.c.expires_at.is_not(None),), BY_EXPIRY.columns, _judge_nothing)


def _beginning(prefix: str) -> Conditions:
    """Terms from the prefix on, and before the first text that sorts after all that begin so."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    if not kept:
        return (search_terms.c.term >= prefix,)
    following = ord(kept[-1]) + 1
    following = _SURROGATES.stop if following in _SURROGATES else following
    return (search_terms.c.term >= prefix, search_terms.c.term < kept[:-1] + chr(following))
