"""The conditions of a search, and the index that finds each of them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, SmallInteger, exists, func, select

from keywright.core.parsing import MAX_ID, is_storable
from keywright.db import rows, schema
from keywright.licensing.licenses.rules import expiry_after
from keywright.search.terms_store import FULL, UNUSED

#: The position of a license without an expiry in the order of expiry.
NEVER = 2**62
_MAX_SMALL_INTEGER = 2**15 - 1
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

_A_SECOND = timedelta(seconds=1)

Conditions = tuple[ColumnElement[bool], ...]


class Order(StrEnum):
    """The order of a list: newest or oldest first, by creation if that is fast, else by ID; soonest expiry
    first and never last; by creation, oldest or latest first, which for imported licenses is not the order of
    IDs; by the last projected change, oldest first; by the names of customers or of products; by the last
    use, latest first, or never and longest unseen first.
    """

    NEWEST = "newest"
    OLDEST = "oldest"
    EXPIRES = "expires"
    CREATED = "created"
    LATEST = "latest"
    UPDATED = "updated"
    CUSTOMER = "customer"
    PRODUCT = "product"
    SEEN = "seen"
    UNSEEN = "unseen"

    @property
    def is_descending(self) -> bool:
        """Whether the largest position comes first; not for orders in ``SORTED``."""
        return self in (Order.NEWEST, Order.LATEST)


#: The orders without an index: all matches are read and sorted, so there must not be many.
SORTED = frozenset({Order.CUSTOMER, Order.PRODUCT, Order.SEEN, Order.UNSEEN})


class Search(msgspec.Struct, frozen=True):
    """The conditions that licenses must meet; None and False mean no condition.

    ``expires``, ``created`` and ``updated`` (the last projected change) are ranges without their bounds; None
    means no bound. ``order_ref`` is an order ID that is not a number. ``term`` is a search term or, with
    ``is_prefix``, a prefix of search terms. ``unseen_for_days`` matches only licenses of at least that age;
    ``made_by`` is an API key and ``made_by_user`` a user who made them, directly or with a job.
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
    policy_id: int | None = None
    job_id: int | None = None
    order_ref: str | None = None
    expires: tuple[datetime | None, datetime | None] | None = None
    created: tuple[datetime | None, datetime | None] | None = None
    is_expired: bool = False
    unseen_for_days: int | None = None
    made_by: int | None = None
    made_by_user: int | None = None
    tag: str | None = None
    external_id: str | None = None
    updated: tuple[datetime | None, datetime | None] | None = None


class Track(NamedTuple):
    """Columns by which licenses can be read in order; with ``only_endless``, those that never expire."""

    columns: tuple[str, ...]
    only_endless: bool = False


BY_ID = Track(("id",))
BY_EXPIRY = Track(("expires_at", "id"))
BY_CREATION = Track(("created_at", "id"))
BY_UPDATE = Track(("updated_at", "id"))
ENDLESS = Track(("id",), only_endless=True)


class Source(NamedTuple):
    """A condition and the index that finds the matching licenses."""

    #: The column with the license's ID, in the index's table.
    number: ColumnElement[Any]
    where: Conditions
    #: The order of the index; () is an order that no list uses.
    order: tuple[str, ...]
    #: The conditions for a license's row, and for its search terms, if another source found the license.
    filter_row: Callable[[Any], Conditions]
    term_conditions: Conditions = ()


def sources_of(search: Search, now: datetime) -> list[Source]:
    """Return the conditions of a search, each with its index."""
    columns = {
        "id": search.license_id,
        "order_id": search.order_id,
        "customer_id": search.customer_id,
        "product_id": search.product_id,
        "status": search.status,
        "policy_id": search.policy_id,
    }
    found = [with_value(name, value) for name, value in columns.items() if value is not None]
    if search.job_id is not None:
        found.append(_of_job(search.job_id))
    texts = {"order_ref": search.order_ref, "external_id": search.external_id}
    found += [_with_text(name, text) for name, text in texts.items() if text is not None]
    found += _of_use(search, now)
    spans = {"expires_at": search.expires, "created_at": search.created}
    found += [_between(name, *span) for name, span in spans.items() if span is not None]
    if search.updated is not None:
        found.append(_updated(*map(_seconds, search.updated)))
    if search.term is not None:
        found.append(with_term(search.term, is_prefix=search.is_prefix))
    if search.is_full:
        # Search terms are some seconds old: a license that is no longer full must not be listed as full.
        found.append(
            with_term(FULL)._replace(filter_row=lambda row: (row.times_activated >= row.times_activated_max,))
        )
    if search.is_unused:
        found.append(with_term(UNUSED)._replace(filter_row=lambda row: (row.times_activated == 0,)))
    if search.expiring_within_days is not None:
        found.append(expiring(now, expiry_after(now, search.expiring_within_days)))
    return found


def _of_use(search: Search, now: datetime) -> list[Source]:
    """Return the conditions about expiry, use, tags and creator."""
    found = []
    if search.is_expired:
        found.append(_between("expires_at", None, now + _A_SECOND))
    if search.unseen_for_days is not None:
        found += _unseen_since(now - timedelta(days=search.unseen_for_days))
    if search.tag is not None:
        found.append(_with_tag(search.tag))
    if search.made_by is not None:
        found += _made_by(search.made_by)
    if search.made_by_user is not None:
        found += _made_by_user(search.made_by_user)
    return found


def with_value(name: str, value: int) -> Source:
    """Return the source of licenses with this number in an indexed column."""
    # No row contains a number that the column cannot hold.
    most = _MAX_SMALL_INTEGER if isinstance(schema.licenses.c[name].type, SmallInteger) else MAX_ID
    wanted = value if 0 <= value <= most else -1
    where = (schema.licenses.c[name] == wanted,)
    return Source(schema.licenses.c.id, where, BY_ID.columns, lambda row: (row[name] == wanted,))


def with_term(term: str, *, is_prefix: bool = False) -> Source:
    """Return the source of licenses with this search term, or with one that begins with it."""
    if not is_storable(term):
        return with_value("id", -1)
    is_it: Conditions = (schema.search_terms.c.term == term,)
    if not is_prefix:
        return Source(schema.search_terms.c.license_id, is_it, BY_ID.columns, _no_filter, is_it)
    # Written so as not to use the index on terms: a license has few terms, but many licenses match.
    begins_so = (func.substr(schema.search_terms.c.term, 1, len(term)) == term,)
    is_it = beginning(schema.search_terms.c.term, term)
    return Source(schema.search_terms.c.license_id, is_it, (), _no_filter, begins_so)


def expiring(after: datetime, until: datetime) -> Source:
    """Return the source of licenses that expire after the first moment and not after the second."""
    first, last = rows.to_seconds(after) + 1, rows.to_seconds(until)

    def filter_row(row: Any) -> Conditions:
        return (row.expires_at >= first, row.expires_at <= last)

    return Source(schema.licenses.c.id, filter_row(schema.licenses.c), BY_EXPIRY.columns, filter_row)


def _of_job(job_id: int) -> Source:
    """Return the source of licenses that a job made or changed."""
    is_of_job = schema.job_licenses.c.job_id == (job_id if 0 <= job_id <= MAX_ID else -1)

    def filter_row(row: Any) -> Conditions:
        return (exists().where(is_of_job, schema.job_licenses.c.license_id == row.id),)

    return Source(schema.job_licenses.c.license_id, (is_of_job,), BY_ID.columns, filter_row)


def _with_tag(tag: str) -> Source:
    """Return the source of licenses with this tag."""
    if not is_storable(tag):
        return with_value("id", -1)
    has_tag = schema.license_tags.c.tag == tag

    def filter_row(row: Any) -> Conditions:
        return (exists().where(has_tag, schema.license_tags.c.license_id == row.id),)

    return Source(schema.license_tags.c.license_id, (has_tag,), BY_ID.columns, filter_row)


def _with_text(name: str, text: str) -> Source:
    """Return the source of licenses with this text in an indexed column."""
    if not is_storable(text):
        return with_value("id", -1)
    where = (schema.licenses.c[name] == text,)
    return Source(schema.licenses.c.id, where, BY_ID.columns, lambda row: (row[name] == text,))


def _between(name: str, after: datetime | None, before: datetime | None) -> Source:
    """Return the source of licenses with a time after the first moment and before the second."""
    first, last = map(_seconds, (after, before))

    def filter_row(row: Any) -> Conditions:
        return _within(row[name], first, last)

    return Source(schema.licenses.c.id, filter_row(schema.licenses.c), (name, "id"), filter_row)


def _updated(first: int | None, last: int | None) -> Source:
    """Return the source of licenses that were changed after the first moment and before the second."""

    def filter_row(row: Any) -> Conditions:
        return _within(updated_at_of(row), first, last)

    where = _within(schema.license_updates.c.updated_at, first, last)
    return Source(schema.license_updates.c.license_id, where, BY_UPDATE.columns, filter_row)


def updated_at_of(row: Any) -> ColumnElement[int]:
    """Return when the license of a row was last changed, according to the projection."""
    own = select(schema.license_updates.c.updated_at).where(schema.license_updates.c.license_id == row.id)
    return func.coalesce(own.scalar_subquery(), 0)


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else rows.to_seconds(moment)


def _within(column: ColumnElement[Any], first: int | None, last: int | None) -> Conditions:
    bounds = [] if first is None else [column > first]
    return (*bounds, *([] if last is None else [column < last]))


def _unseen_since(moment: datetime) -> list[Source]:
    """Return the sources of licenses made before this moment and not seen since. The first is the index for
    the second, which is only a filter: not all rows of its index match.
    """
    older, since = _between("created_at", None, moment), rows.to_seconds(moment)

    def filter_row(row: Any) -> Conditions:
        return (
            ~exists().where(schema.last_seen.c.license_id == row.id, schema.last_seen.c.seen_at >= since),
        )

    return [older, older._replace(filter_row=filter_row)]


def _made_by(api_key_id: int) -> list[Source]:
    """The sources of licenses that this API key made: no index finds them, so all are scanned."""
    return [EVERYTHING, EVERYTHING._replace(filter_row=lambda row: (row.created_by == api_key_id,))]


def _made_by_user(user_id: int) -> list[Source]:
    """Return the sources of licenses that this user made, by their first event: all licenses are scanned."""

    def filter_row(row: Any) -> Conditions:
        columns = schema.events.c
        is_making = (columns.name == "license.created", columns.actor == f"user:{user_id}")
        return (exists().where(columns.license_id == row.id, *is_making),)

    return [EVERYTHING, EVERYTHING._replace(filter_row=filter_row)]


def _no_filter(_row: Any) -> Conditions:
    return ()


EVERYTHING = Source(schema.licenses.c.id, (), BY_ID.columns, _no_filter)
UPDATED = _updated(None, None)
WITH_EXPIRY = Source(
    schema.licenses.c.id, (schema.licenses.c.expires_at.is_not(None),), BY_EXPIRY.columns, _no_filter
)


def beginning(column: ColumnElement[str], prefix: str) -> Conditions:
    """Match texts with this prefix, in byte order: from the prefix up to the first text after them."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    if not kept:
        return (column >= prefix,)
    following = ord(kept[-1]) + 1
    following = _SURROGATES.stop if following in _SURROGATES else following
    return (column >= prefix, column < kept[:-1] + chr(following))
