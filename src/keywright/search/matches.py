"""Find what a text refers to: licenses and orders, customers and products, devices."""

import ipaddress
import re
from collections.abc import Callable, Collection, Sequence
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from sqlalchemy import ColumnElement, and_, exists, func, literal_column, select, tuple_, union_all

from keywright.core.errors import InvalidLicenseKey
from keywright.core.parsing import is_storable
from keywright.core.words import match_for, terms_for
from keywright.db import ReadTransaction
from keywright.db.schema import customers, licenses, name_terms, products, search_terms
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import ACTIVATIONS_WITH, activation_of
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import (
    find_by_folded_key,
    find_by_key_end,
    find_by_key_start,
    find_licenses,
    find_licenses_by_id,
    find_rotated,
)
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import PREFIXES, TABLES, terms_of_row
from keywright.search.filters import Conditions, beginning
from keywright.search.scan_store import set_planner_options
from keywright.search.terms_store import (
    address_term,
    device_term,
    label_term,
    terms_of_activation,
    token_term,
)

Item = TypeVar("Item")
#: A position in the order of the results; each kind has its own.
Place = tuple[Any, ...]
#: Some results, each with its position.
Placed = list[tuple[Place, Item]]

#: The time budget for one kind, in seconds. It may be exceeded by one step.
_BUDGET = 0.02
#: The number of terms read in the first step, and at most.
_FIRST_STEP, _LONGEST_STEP = 100, 800
#: The most keys with the same last characters that are unsealed.
_MAX_ENDS = 500
#: The most terms counted to choose the rarest word.
_MAX_COUNTED = 5_000
_OTHER = {NameKind.CUSTOMER: customers.c.email, NameKind.PRODUCT: products.c.code}
_LICENSED = {NameKind.CUSTOMER: licenses.c.customer_id, NameKind.PRODUCT: licenses.c.product_id}
_TOKEN = re.compile("[0-9a-fA-F]{8,40}")
_KEY = (search_terms.c.term, search_terms.c.license_id, search_terms.c.activation_id)


class Matches(msgspec.Struct, Generic[Item], frozen=True):
    """Some of the results for a text, and the position after which there may be more; None if these were the
    last.

    ``is_incomplete``: the time was up, or there are too many candidates, so that a narrower text is better.
    """

    items: tuple[Item, ...] = ()
    after: Place | None = None
    is_incomplete: bool = False


def page_of(placed: Placed[Item], limit: int) -> Matches[Item]:
    """Return the first ``limit`` of these results, which are all, or one more than the limit."""
    shown = placed[:limit]
    return Matches(tuple(item for _, item in shown), shown[-1][0] if len(placed) > limit else None)


def parse_number(text: str) -> int | None:
    """Parse a number, with or without a leading ``#``; None if the text is none."""
    digits = text.strip().removeprefix("#").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _scan(
    read: Callable[[Place | None, int], tuple[Sequence[Place], Placed[Item]]],
    found: Placed[Item],
    *,
    after: Place | None,
    limit: int,
) -> Matches[Item]:
    """Return a page of what was already ``found``, and of what steps find until the time is up. ``read``
    reads up to this many rows after a position, and returns the positions of all, and the results among them.
    """
    end, size = monotonic() + _BUDGET, _FIRST_STEP
    while len(found) <= limit:
        places, more = read(after, size)
        found += more
        if len(places) < size:
            break
        after, size = places[-1], min(4 * size, _LONGEST_STEP)
        if monotonic() >= end and len(found) <= limit:
            return Matches(tuple(item for _, item in found), after, is_incomplete=True)
    return page_of(found, limit)


# --- licenses and orders --------------------------------------------------------------------------


class OrderMatch(msgspec.Struct, frozen=True):
    """An order: its number, or its ID that is not a number; and its license, if it has only one."""

    number: int | None
    ref: str | None
    only_license_id: int | None


def find_whole_keys(tx: ReadTransaction, key: str) -> list[License]:
    """Return the licenses with this key, now or formerly; or else those whose key differs only in case and
    dashes.
    """
    try:
        wanted = [keys.normalize_key(key)]
    except InvalidLicenseKey:
        return []
    exact = find_licenses(tx, wanted).values() or find_rotated(tx, wanted).values()
    return list(exact) or find_by_folded_key(tx, key)


def find_licenses_like(
    tx: ReadTransaction, typed: str, *, after: Place | None, limit: int
) -> Matches[License]:
    """Return the licenses with this key or ID, then those whose key begins or ends with the text, newest
    first; incomplete if too many do, and the whole key finds none.
    """
    if not is_storable(typed):
        return Matches()
    exact = {one.id for one in find_whole_keys(tx, typed)}
    number = parse_number(typed)
    if number is not None:
        exact |= {*find_licenses_by_id(tx, [number])}
    parts = [find(tx, typed, most=_MAX_ENDS) for find in (find_by_key_start, find_by_key_end)]
    others = {one.id for part in parts if part for one in part} - exact
    order = [(0, -one) for one in exact] + [(1, -one) for one in others]
    places = [place for place in sorted(order) if after is None or place > tuple(after)][: limit + 1]
    found = find_licenses_by_id(tx, [-number for _, number in places])
    page = page_of([(place, found[-place[1]]) for place in places if -place[1] in found], limit)
    return msgspec.structs.replace(page, is_incomplete=None in parts and not exact)


def find_orders(tx: ReadTransaction, typed: str) -> list[OrderMatch]:
    """Return the orders with this number or ID, with or without ``#``."""
    number, found = parse_number(typed), []
    if number is not None:
        found = [OrderMatch(number, None, _only(ids)) for ids in [_licenses_of(tx, number, None)] if ids]
    for ref in _list_refs(tx, typed):
        found.append(OrderMatch(None, ref, _only(_licenses_of(tx, None, ref))))
    return found


def _list_refs(tx: ReadTransaction, typed: str) -> list[str]:
    """Return the order IDs that equal this text as typed, in upper or in lower case."""
    text = typed.strip()
    bare = text.removeprefix("#").strip()
    if not bare or not is_storable(text):
        return []
    written = {case for one in (bare, f"#{bare}") for case in (one, one.upper(), one.lower())}
    query = select(licenses.c.order_ref).where(licenses.c.order_ref.in_(sorted(written))).distinct()
    return sorted(tx.connection.execute(query).scalars())


def _licenses_of(tx: ReadTransaction, number: int | None, ref: str | None) -> Collection[int]:
    """Return the IDs of up to two licenses of an order."""
    is_its = licenses.c.order_ref == ref if number is None else licenses.c.order_id == number
    query = select(licenses.c.id).where(is_its).order_by(licenses.c.id.desc()).limit(2)
    return list(tx.connection.execute(query).scalars())


def _only(ids: Collection[int]) -> int | None:
    return next(iter(ids)) if len(ids) == 1 else None


# --- customers and products -----------------------------------------------------------------------


class NameMatch(msgspec.Struct, frozen=True):
    """A customer and its e-mail address, or a product and its code. If only licenses refer to it, it is not
    ``is_known``.
    """

    id: int
    name: str | None = None
    other: str | None = None
    is_known: bool = True


def find_names(
    tx: ReadTransaction, kind: NameKind, typed: str, *, after: Place | None, limit: int
) -> Matches[NameMatch]:
    """Find customers or products: every typed word must begin a word of the name, or be a part of the e-mail
    address (the code). The one with this ID comes first.
    """
    number = parse_number(typed)
    numbered = None if number is None else _find_by_number(tx, kind, number)
    found: Placed[NameMatch] = []
    if numbered is not None and after is None:
        found.append((("", 0), numbered))
    set_planner_options(tx)
    chosen = _choose_term(tx, kind, typed)
    if chosen is None:
        return page_of(found, limit)
    scan, is_match = _Scan(tx, kind, *chosen), match_for(typed)

    def read(after: Place | None, size: int) -> tuple[Sequence[Place], Placed[NameMatch]]:
        rows = scan.read(after, size)
        wanted = [row for row in rows if is_match(row.name, row.other) and scan.is_first(row)]
        others = [row for row in wanted if row.number != number]
        more = [(_place(row), NameMatch(row.number, row.name, row.other)) for row in others]
        return list(map(_place, rows)), more

    return _scan(read, found, after=after, limit=limit)


class _Scan:
    """The rows with a term, or with a prefix of terms, ordered by term."""

    def __init__(self, tx: ReadTransaction, kind: NameKind, term: str, is_prefix: bool) -> None:
        self._tx, self._kind, self._term, self._is_prefix = tx, kind, term, is_prefix
        self._conditions = _conditions(term, is_prefix)

    def read(self, after: Place | None, size: int) -> Sequence[Any]:
        """Return the next rows, one per term: term, number, name, other."""
        key, table = (name_terms.c.term, name_terms.c.number), TABLES[self._kind]
        query = select(*key).where(*self._conditions).order_by(*key).limit(size)
        if after is not None:
            query = query.where(tuple_(*key) > tuple_(*after))
        some = query.subquery()
        rows = select(some.c.term, some.c.number, table.c.name, _OTHER[self._kind].label("other"))
        rows = rows.outerjoin(table, table.c.id == some.c.number).order_by(some.c.term, some.c.number)
        return self._tx.connection.execute(rows).all()

    def is_first(self, row: Any) -> bool:
        """Whether no earlier term of the same customer or product matches: each is a result once."""
        if not self._is_prefix:
            return True
        terms = terms_of_row(self._kind, row.name, row.other)
        return bool(row.term == min((one for one in terms if one.startswith(self._term)), default=None))


def _place(row: Any) -> Place:
    return (row.term, row.number)


def _choose_term(tx: ReadTransaction, kind: NameKind, typed: str) -> tuple[str, bool] | None:
    """Return the rarest of the typed terms, and whether it is a prefix; None without words."""
    possible = [(PREFIXES[kind] + term, is_prefix) for term, is_prefix in terms_for(typed)]
    if len(possible) < 2:
        return possible[0] if possible else None
    counts = [_count(*one) for one in possible]
    found = tx.connection.execute(select(*counts)).one()
    return min(zip(found, possible, strict=True))[1]


def _count(term: str, is_prefix: bool) -> Any:
    some = select(name_terms.c.number).where(*_conditions(term, is_prefix)).limit(_MAX_COUNTED).subquery()
    return select(func.count()).select_from(some).scalar_subquery()


def _conditions(term: str, is_prefix: bool) -> Conditions:
    return beginning(name_terms.c.term, term) if is_prefix else (name_terms.c.term == term,)


def _find_by_number(tx: ReadTransaction, kind: NameKind, number: int) -> NameMatch | None:
    table = TABLES[kind]
    query = select(table.c.id, table.c.name, _OTHER[kind]).where(table.c.id == number)
    row = tx.connection.execute(query).first()
    if row is not None:
        return NameMatch(*row)
    is_named = tx.connection.execute(select(exists().where(_LICENSED[kind] == number))).scalar_one()
    return NameMatch(number, is_known=False) if is_named else None


# --- devices --------------------------------------------------------------------------------------


class _Meaning(NamedTuple):
    """A term, or a prefix of terms."""

    term: str
    is_prefix: bool

    @property
    def conditions(self) -> Sequence[ColumnElement[bool]]:
        """The conditions for rows of search terms."""
        column = search_terms.c.term
        return beginning(column, self.term) if self.is_prefix else (column == self.term,)

    def is_met(self, term: str) -> bool:
        """Whether a term matches."""
        return term.startswith(self.term) if self.is_prefix else term == self.term


def find_devices(tx: ReadTransaction, typed: str, *, after: Place | None, limit: int) -> Matches[Activation]:
    """Find devices with this token or fingerprint, or a prefix of it, then those with this IP address, and
    those whose label begins with the text; new devices are found after some seconds.
    """
    set_planner_options(tx)
    meanings = _list_meanings(typed)

    def read(after: Place | None, size: int) -> tuple[Sequence[Place], Placed[Activation]]:
        rows = _read(tx, meanings, after, size)
        devices = _find_devices(tx, rows)
        more = [
            (place, device)
            for *place, token in rows
            if (device := devices.get((place[2], token))) is not None
            and _is_first(meanings, place[0], place[1], device)
        ]
        return [row[:4] for row in rows], [(tuple(place), device) for place, device in more]

    return _scan(read, [], after=after, limit=limit) if meanings else Matches()


def parse_address(text: str) -> str | None:
    """An IP address as activations have it: IPv4, even if written as IPv6; None for any other text."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _list_meanings(typed: str) -> list[_Meaning]:
    text = typed.strip()
    if not text or not is_storable(text):
        return []
    found = [_Meaning(token_term(text.lower()), is_prefix=True)] if _TOKEN.fullmatch(text) else []
    found += [_Meaning(device_term(one), is_prefix=True) for one in (text, text.lower(), text.upper())]
    address = parse_address(text)
    if address is not None:
        found.append(_Meaning(address_term(address), is_prefix=False))
    found.append(_Meaning(label_term(text), is_prefix=True))
    return list(dict.fromkeys(found))


def _read(
    tx: ReadTransaction, meanings: Sequence[_Meaning], after: Place | None, size: int
) -> Sequence[tuple[Any, ...]]:
    """Return the next rows of search terms for these meanings: the index of the meaning, the row's key, and
    the token of the same activation, which is another of its terms.
    """
    first = 0 if after is None else after[0]
    ranges = []
    for number in range(first, len(meanings)):
        query = select(literal_column(str(number)).label("number"), *_KEY).where(*meanings[number].conditions)
        if after is not None and number == first:
            query = query.where(tuple_(*_KEY) > tuple_(*after[1:]))
        ranges.append(select(query.order_by(*_KEY).limit(size).subquery()))
    every = union_all(*ranges).subquery()
    key = (every.c.number, every.c.term, every.c.license_id, every.c.activation_id)
    some = select(every).order_by(*key).limit(size).subquery()
    tokens = search_terms.alias("tokens")
    has_token = and_(
        tokens.c.license_id == some.c.license_id,
        tokens.c.activation_id == some.c.activation_id,
        *beginning(tokens.c.term, token_term("")),
    )
    rows = select(*some.c, tokens.c.term.label("token")).outerjoin(tokens, has_token)
    found = tx.connection.execute(rows.order_by(*some.c)).all()
    return [(*key, None if term is None else term.removeprefix(token_term(""))) for *key, term in found]


def _find_devices(tx: ReadTransaction, rows: Sequence[tuple[Any, ...]]) -> dict[tuple[int, str], Activation]:
    """Return the devices of these rows, by license ID and token."""
    places = {(license_id, token) for _, _, license_id, _, token in rows if token is not None}
    found = map(activation_of, ACTIVATIONS_WITH.find_rows(tx.connection, sorted(places)))
    return {(one.license_id, one.token): one for one in found}


def _is_first(meanings: Sequence[_Meaning], number: int, term: str, device: Activation) -> bool:
    """Whether the device still has the term, and no earlier meaning or term finds it."""
    terms = sorted(terms_of_activation(device))
    earlier = any(meaning.is_met(one) for meaning in meanings[:number] for one in terms)
    return not earlier and term == next((one for one in terms if meanings[number].is_met(one)), None)
