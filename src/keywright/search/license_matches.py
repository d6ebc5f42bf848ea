"""Find licenses by their keys, the ends of keys and numbers; and orders by their numbers and IDs."""

from collections.abc import Collection

import msgspec
from sqlalchemy import select

from keywright.core.crypto import fold_key
from keywright.core.errors import InvalidLicenseKey
from keywright.core.parsing import is_storable
from keywright.db import ReadTransaction
from keywright.db.schema import licenses
from keywright.licensing.licenses import keys
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import (
    find_by_folded_key,
    find_by_key_end,
    find_licenses,
    find_licenses_by_id,
    find_rotated,
)
from keywright.search.matches import Matches, Place, page_of, parse_number

#: The most keys with the same last characters that are unsealed.
_MAX_ENDS = 500


class OrderMatch(msgspec.Struct, frozen=True):
    """An order: its number, or its ID that is no number; and the license that it has, if it has one only."""

    number: int | None
    ref: str | None
    only_license_id: int | None


def find_whole_keys(tx: ReadTransaction, key: str) -> list[License]:
    """The licenses with this key, or that had it before it was replaced; or else those with this key in
    another case or with other dashes.
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
    """The licenses with this key or number, and then those whose key ends so, the newest first; incomplete
    where too many end so, and none is found by the whole key.
    """
    if not is_storable(typed):
        return Matches()
    exact = {one.id for one in find_whole_keys(tx, typed)}
    number = parse_number(typed)
    if number is not None:
        exact |= {*find_licenses_by_id(tx, [number])}
    ending = find_by_key_end(tx, typed, most=_MAX_ENDS) if fold_key(typed) else []
    order = [(0, -one) for one in exact] + [(1, -one.id) for one in ending or [] if one.id not in exact]
    places = [place for place in sorted(order) if after is None or place > tuple(after)][: limit + 1]
    found = find_licenses_by_id(tx, [-number for _, number in places])
    page = page_of([(place, found[-place[1]]) for place in places if -place[1] in found], limit)
    return msgspec.structs.replace(page, is_incomplete=ending is None and not exact)


def find_orders(tx: ReadTransaction, typed: str) -> list[OrderMatch]:
    """The orders with this number or ID, with or without ``#``."""
    number, found = parse_number(typed), []
    if number is not None:
        found = [OrderMatch(number, None, _only(ids)) for ids in [_licenses_of(tx, number, None)] if ids]
    for ref in _list_refs(tx, typed):
        found.append(OrderMatch(None, ref, _only(_licenses_of(tx, None, ref))))
    return found


def _list_refs(tx: ReadTransaction, typed: str) -> list[str]:
    """The IDs of orders that are this text, in any of the usual cases."""
    text = typed.strip()
    bare = text.removeprefix("#").strip()
    if not bare or not is_storable(text):
        return []
    written = {case for one in (bare, f"#{bare}") for case in (one, one.upper(), one.lower())}
    query = select(licenses.c.order_ref).where(licenses.c.order_ref.in_(sorted(written))).distinct()
    return sorted(tx.connection.execute(query).scalars())


def _licenses_of(tx: ReadTransaction, number: int | None, ref: str | None) -> Collection[int]:
    """The ids of two licenses of an order, or of the only one."""
    is_its = licenses.c.order_ref == ref if number is None else licenses.c.order_id == number
    query = select(licenses.c.id).where(is_its).order_by(licenses.c.id.desc()).limit(2)
    return list(tx.connection.execute(query).scalars())


def _only(ids: Collection[int]) -> int | None:
    return next(iter(ids)) if len(ids) == 1 else None
