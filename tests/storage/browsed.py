"""Licenses to search for, and a reference search that compares all of them."""

import random
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from keywright.db import ReadTransaction, Storage, WriteTransaction
from keywright.db.bulk import bulk_insert
from keywright.db.rows import to_seconds
from keywright.db.schema import license_updates, search_terms
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License, Status
from keywright.search import terms_store
from keywright.search.filters import Order, Search
from keywright.search.license_pages import Page, find_page
from tests.makers import NOW, a_license

LABELS = ("laptop", "laptop 2", "lap", "ördner", "z\U0010ffff", "z\U0010ffffa", "\ud7ff", "\ue000x", "l")
ADDRESSES = ("10.0.0.1", "2001:db8::1")
PREFIXES = ("llap", "llaptop", "lö", "lz", "lz\U0010ffff", "l\ud7ff", "l", "", "lnone")
#: Search terms, and whether they are prefixes.
TERMS = (
    *((f"l{label}", False) for label in LABELS),
    *((f"i{address}", False) for address in ADDRESSES),
    ("tnone", False),
    *((prefix, True) for prefix in PREFIXES),
)
_INSERT_TERMS, _INSERT_UPDATES = bulk_insert(search_terms), bulk_insert(license_updates)
#: The maximum validity of licenses here, in days.
_LONGEST = 1_000


class LicenseWithTerms(NamedTuple):
    """A license, and its search terms."""

    license: License
    terms: frozenset[str]


def a_license_with_terms(number: int, chance: random.Random) -> LicenseWithTerms:
    """Create a random license, perhaps with activations; it shares most of its IDs with others."""
    limit = chance.choice((None, 1, 2))
    taken = chance.choice((0, 0, 1, 2))
    taken = taken if limit is None else min(taken, limit)
    expires_in = chance.choice((None, None, -400, -1, 0, 1, 20, 30, 31, chance.randrange(800)))
    license = a_license(
        id=number,
        key=f"key {number}",
        status=chance.choice(list(Status)),
        order_id=chance.choice((None, 1, 2, 3, number)),
        product_id=chance.choice((None, 1, 1, 2, 3)),
        customer_id=chance.choice((None, 1, 2, 3, 4, 5)),
        expires_at=None if expires_in is None else NOW + timedelta(days=expires_in),
        updated_at=NOW + timedelta(seconds=chance.randrange(20)),
        external_id=chance.choice((None, "crm 1", "crm 2", f"crm {number}")),
        times_activated=taken,
        times_activated_max=limit,
    )
    terms = {f"l{one}" for one in chance.sample(LABELS, 2 * min(taken, 1))}
    terms |= {f"i{one}" for one in chance.sample(ADDRESSES, min(taken, 1))}
    if limit == taken:
        terms.add("full")
    if not taken:
        terms.add("unused")
    return LicenseWithTerms(license, frozenset(terms))


def insert(tx: WriteTransaction, some: Iterable[LicenseWithTerms]) -> None:
    """Insert licenses; terms from activations are inserted for two activations each."""
    listed = list(some)
    license_store.save_new_licenses(tx, [one.license for one in listed])
    _INSERT_UPDATES.execute(
        tx.connection,
        [{"license_id": one.license.id, "updated_at": to_seconds(one.license.updated_at)} for one in listed],
    )
    _INSERT_TERMS.execute(
        tx.connection,
        [
            {"term": term, "license_id": one.license.id, "activation_id": activation}
            for one in listed
            for term in one.terms
            for activation in ((0,) if term in ("full", "unused") else (1, 2))
        ],
    )


def matching(search: Search, some: Iterable[LicenseWithTerms], now: datetime = NOW) -> list[License]:
    """The licenses that match, in the order of the list."""
    found = [one.license for one in some if _is_wanted(search, one, now)]
    if search.order == Order.EXPIRES:
        return sorted(found, key=lambda one: (one.expires_at is None, one.expires_at or now, one.id))
    if search.order == Order.UPDATED:
        return sorted(found, key=lambda one: (one.updated_at, one.id))
    return sorted(found, key=lambda one: one.id, reverse=search.order.is_descending)


def _is_wanted(search: Search, one: LicenseWithTerms, now: datetime) -> bool:
    license, terms, term = one.license, one.terms, search.term
    names = ("status", "product_id", "order_id", "customer_id", "external_id")
    columns = {name: getattr(search, name) for name in names}
    columns["id"] = search.license_id
    if any(value not in (None, getattr(license, name)) for name, value in columns.items()):
        return False
    since = None if search.updated is None else search.updated[0]
    if since is not None and license.updated_at <= since:
        return False
    if (search.is_full and "full" not in terms) or (search.is_unused and "unused" not in terms):
        return False
    if term is not None and not any(
        each.startswith(term) if search.is_prefix else each == term for each in terms
    ):
        return False
    days, expires_at = search.expiring_within_days, license.expires_at
    if days is None:
        return True
    return expires_at is not None and now < expires_at <= now + timedelta(days=min(days, _LONGEST))


def pages(tx: ReadTransaction, search: Search, **asked: Any) -> Iterator[Page]:
    """Read all pages, forward from the first."""
    cursor = None
    while True:
        page = find_page(tx, search, cursor=cursor, now=NOW, **asked)
        yield page
        if page.next is None:
            return
        cursor = page.next


def pages_back(tx: ReadTransaction, search: Search, last: Page, **asked: Any) -> Iterator[Page]:
    """Read all pages before this one, backward."""
    page = last
    while page.previous is not None:
        page = find_page(tx, search, cursor=page.previous, now=NOW, **asked)
        yield page


def many_licenses_with_terms(storage: Storage, amount: int, seed: int) -> list[LicenseWithTerms]:
    """Insert this many licenses."""
    chance = random.Random(seed)
    # IDs have gaps, as if other licenses had been deleted.
    numbers = sorted(chance.sample(range(1, 3 * amount), amount))
    some = [a_license_with_terms(number, chance) for number in numbers]
    with storage.write() as tx:
        insert(tx, some)
    return some


def insert_terms(tx: WriteTransaction, records: Iterable[Activation]) -> None:
    """Insert search terms for the tokens, labels and addresses of these activations."""
    values = [
        {"term": term, "license_id": one.license_id, "activation_id": one.id}
        for one in records
        for term in (
            terms_store.token_term(one.token),
            terms_store.label_term(one.label or ""),
            terms_store.address_term(one.ip_address),
        )
    ]
    _INSERT_TERMS.execute(tx.connection, values)
