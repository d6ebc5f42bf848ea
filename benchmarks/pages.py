"""Measure the queries of the administration pages on a large installation."""

import random
import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import msgspec

from benchmarks.browsed import (
    FIRST_NAMES,
    FREQUENT_LABEL,
    LAST_NAMES,
    OFFICE,
    PRODUCTS,
    RARE_LABEL,
    RESELLER,
    Browsed,
    fill,
)
from benchmarks.databases import Database
from benchmarks.installations import key_of, opened
from keywright.db import ReadTransaction, Storage, run_read
from keywright.http.admin import event_views
from keywright.http.admin.sections.find import KINDS, Asked
from keywright.licensing.licenses.model import Status
from keywright.search import feed, license_pages, query_parser
from keywright.search.filters import Order, Search
from keywright.search.owned_store import MAX_COUNTED, count_expiries, count_licenses, list_devices
from keywright.search.projector import REFUSED, VALIDATED
from keywright.search.statistics import RecentFigures, list_days, overview
from keywright.search.store import EventFilter
from keywright.search.terms_store import address_term, label_term

_TIMES = 40
_ON_A_PAGE = 50
#: Runs a page's queries; returns whether they ran out of time.
Looked = Callable[[ReadTransaction], bool]

_USUAL = {
    "the newest": Search(),
    "those that expire soonest": Search(order=Order.EXPIRES),
    "of a status": Search(status=Status.ACTIVE),
    "of a product": Search(product_id=2),
    "of a product and a status": Search(product_id=2, status=Status.DELIVERED),
    "of a reseller": Search(customer_id=RESELLER),
    "expiring in 30 days, by expiry": Search(expiring_within_days=30, order=Order.EXPIRES),
    "expiring in 30 days, newest first": Search(expiring_within_days=30),
    "without a free place": Search(is_full=True),
    "never activated": Search(is_unused=True),
    "with a label's beginning": Search(term=label_term(FREQUENT_LABEL), is_prefix=True),
    "from an office's address": Search(term=address_term(OFFICE)),
}
#: Searches with few matches, or with all matches at the end of the order.
_HARD = {
    "a product's disabled ones": Search(product_id=2, status=Status.DISABLED),
    "those sold, by expiry": Search(status=Status.SOLD, order=Order.EXPIRES),
    "a reseller's sold ones, by expiry": Search(
        status=Status.SOLD, customer_id=RESELLER, order=Order.EXPIRES
    ),
    "expiring in 300 days, newest first": Search(expiring_within_days=300),
    "disabled, expiring in 300 days": Search(expiring_within_days=300, status=Status.DISABLED),
    "a rare label, by expiry": Search(term=label_term(RARE_LABEL), is_prefix=True, order=Order.EXPIRES),
    "without a free place, never activated": Search(is_full=True, is_unused=True),
    "four conditions": Search(product_id=3, status=Status.INACTIVE, is_full=True, customer_id=RESELLER),
}


class Row(msgspec.Struct, frozen=True):
    """The time of a page's queries (median and 95th percentile), their processor time, which does not depend
    on the machine's load, and how often the page was not full in time.
    """

    page: str
    p50_ms: float
    p95_ms: float
    processor_ms: float
    times: int
    incomplete: int


class Pages(msgspec.Struct, frozen=True):
    """The rows by group."""

    licenses: int
    activations: int
    rows: dict[str, list[Row]]


def measure(folder: Path, database: Database, licenses: int, say: Callable[[str], None]) -> Pages:
    """Create an installation, run the queries of each kind of page repeatedly, and remove it."""
    filled = fill(folder, database, licenses, say)
    say("running queries of pages …")
    with opened(filled.data_dir, database) as storage:
        rows = {
            about: [_measured(storage, database, name, looked) for name, looked in kinds.items()]
            for about, kinds in _kinds(filled).items()
        }
    database.remove(filled.data_dir)
    return Pages(filled.licenses, filled.activations, rows)


def _measured(storage: Storage, database: Database, name: str, looked: Looked) -> Row:
    # Warm up: compile the statements.
    run_read(storage, looked)
    took, incomplete = [], 0
    used = process_time() + database.processor_seconds()
    for _ in range(_TIMES):
        began = perf_counter()
        incomplete += run_read(storage, looked)
        took.append((perf_counter() - began) * 1000)
    used = process_time() + database.processor_seconds() - used
    p95 = statistics.quantiles(took, n=20)[-1]
    return Row(name, statistics.median(took), p95, used * 1000 / _TIMES, _TIMES, incomplete)


def _kinds(filled: Browsed) -> dict[str, dict[str, Looked]]:
    return {
        "a list": {name: partial(_list, search) for name, search in _USUAL.items()},
        "its next pages": {name: _next_pages(search) for name, search in _USUAL.items()},
        "a list that is hard to fill": {name: partial(_list, search) for name, search in _HARD.items()},
        "a search, with its licenses": _searches(filled, random.Random(1)),
        "find anything": _finding(filled, random.Random(3)),
        "others": _others(filled, random.Random(2)),
    }


def _list(search: Search, tx: ReadTransaction) -> bool:
    page = license_pages.find_page(tx, search, cursor=None, limit=_ON_A_PAGE, now=_now())
    return page.is_incomplete


def _next_pages(search: Search) -> Looked:
    cursors: list[str | None] = [None]

    def look(tx: ReadTransaction) -> bool:
        page = license_pages.find_page(tx, search, cursor=cursors[-1], limit=_ON_A_PAGE, now=_now())
        cursors.append(page.next)
        return page.is_incomplete

    return look


def _searches(filled: Browsed, chance: random.Random) -> dict[str, Looked]:
    texts: dict[str, Callable[[], str]] = {
        "a license key": lambda: key_of(chance.randrange(filled.licenses)),
        "a token": lambda: chance.choice(filled.some_tokens),
        "an IP address": lambda: chance.choice(filled.some_addresses),
        "an order's number": lambda: str(70_000 + chance.randrange(filled.licenses // 2)),
        "a label": lambda: f"{FREQUENT_LABEL} {chance.randrange(5_000)}",
        "nothing there is": lambda: f"nothing {chance.randrange(5_000)}",
    }

    def look(typed: Callable[[], str], tx: ReadTransaction) -> bool:
        return any([_list(one.search, tx) for one in query_parser.interpret(tx, typed())])

    return {name: partial(look, typed) for name, typed in texts.items()}


def _finding(filled: Browsed, chance: random.Random) -> dict[str, Looked]:
    """The queries of the search field in the top bar, in all groups."""

    def word(names: Sequence[str], least: int = 3) -> str:
        name = chance.choice(names)
        return name[: chance.randrange(least, len(name) + 1)]

    texts: dict[str, Callable[[], str]] = {
        "the first letter": lambda: chance.choice("abcdefghijklmnoprstuw"),
        "the beginning of a last name": lambda: word(LAST_NAMES),
        "a first and a last name": lambda: f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}",
        "beginnings of both": lambda: f"{word(FIRST_NAMES, 2)} {word(LAST_NAMES, 2)}",
        "three frequent words that rarely meet": lambda: f"{chance.choice(LAST_NAMES)} labs gmail.com",
        "a part of an address": lambda: f"{chance.choice(LAST_NAMES)[2:]}{chance.randrange(1, 9_999)}@",
        "a domain": lambda: f"@{chance.choice(LAST_NAMES)}-{chance.randrange(9_973)}.example",
        "a frequent domain": lambda: "gmail.com",
        "a license key": lambda: key_of(chance.randrange(filled.licenses)),
        "a license key in lower case, without dashes": lambda: (
            key_of(chance.randrange(filled.licenses)).lower().replace("-", "")
        ),
        "the last characters of a key": lambda: chance.choice(filled.some_keys)[-5:],
        "last characters that all have": lambda: "c3d4",
        "an order with #": lambda: f"#{70_000 + chance.randrange(filled.licenses // 2)}",
        "an order that is no number": lambda: f"web-{chance.randrange(filled.licenses // 10)}0",
        "a token": lambda: chance.choice(filled.some_tokens),
        "an IP address": lambda: chance.choice(filled.some_addresses),
        "an office's address": lambda: OFFICE,
        "a frequent label": lambda: FREQUENT_LABEL,
        "a product": lambda: f"suite {chance.randrange(1, 100)}",
        "a number": lambda: str(chance.randrange(1, filled.licenses // 3)),
        "nothing there is": lambda: f"nothing {chance.randrange(5_000)}",
    }

    def look(typed: Callable[[], str], tx: ReadTransaction) -> bool:
        asked = Asked(typed(), _now(), 5)
        return any([bool(kind.find(tx, asked).note) for kind in KINDS.values()])

    return {name: partial(look, typed) for name, typed in texts.items()}


def _others(filled: Browsed, chance: random.Random) -> dict[str, Looked]:
    recent = RecentFigures()
    return {
        "the overview": lambda tx: overview(tx, _now(), recent) is None,
        "the overview, counted anew": lambda tx: overview(tx, _now()) is None,
        "a license": lambda tx: license_pages.get_license(tx, chance.choice(filled.some_ids)) is None,
        "the license in most places": lambda tx: license_pages.get_license(tx, filled.busy_id) is None,
        "its events": partial(_events, license_id=filled.busy_id),
        "all events": _events,
        "the events of somebody rare": partial(_events, actor="user:1"),
        "the events of a customer": lambda tx: _events(
            tx, customer_id=chance.randrange(1, filled.licenses // 3)
        ),
        "the events of a reseller": partial(_events, customer_id=RESELLER),
        "the events of the best-selling product": partial(_events, product_id=1),
        "the events of a product that hardly sells": partial(_events, product_id=PRODUCTS),
        "a customer's events of yesterday": lambda tx: _events(
            tx,
            customer_id=_a_customer(filled, chance),
            since=_now() - timedelta(days=2),
            until=_now() - timedelta(days=1),
        ),
        "the page of a customer": lambda tx: _customer(tx, _a_customer(filled, chance)),
        "the page of a reseller": partial(_customer, number=RESELLER),
        "the page of the best-selling product": partial(_product, number=1),
        "the page of a product that hardly sells": partial(_product, number=PRODUCTS),
        "a reseller's deleted licenses": partial(_events, customer_id=RESELLER, name="license.deleted"),
        "a product's events of a day long ago": _events_of(2, 1),
        "a product's events of a year long ago": _events_of(2, 365),
        "a thousand numbers for an export": lambda tx: _export(tx, chance.randrange(filled.licenses // 2)),
    }


def _events(tx: ReadTransaction, **asked: Any) -> bool:
    found = feed.list_events(tx, EventFilter(**asked), limit=_ON_A_PAGE)
    event_views.find_names(tx, found.events)
    return found.is_incomplete


def _a_customer(filled: Browsed, chance: random.Random) -> int:
    return chance.randrange(1, filled.licenses // 3)


def _customer(tx: ReadTransaction, number: int) -> bool:
    _list(Search(customer_id=number), tx)
    list_devices(tx, number, after=None, limit=20)
    return _events(tx, customer_id=number)


def _product(tx: ReadTransaction, number: int) -> bool:
    today, names = _now().date(), ("license.activated", VALIDATED, REFUSED)
    list_days(tx, names, last=today, days=730, product_id=number)
    is_big = count_licenses(tx, product_id=number) > MAX_COUNTED
    count_expiries(tx, number, first_day=(today - date(1970, 1, 1)).days, days=365, is_big=is_big)
    return _events(tx, product_id=number)


def _events_of(product_id: int, days: int) -> Looked:
    """The events of a product on this many days, two years ago."""
    until = _now() - timedelta(days=730)
    return partial(_events, product_id=product_id, since=until - timedelta(days=days), until=until)


def _export(tx: ReadTransaction, after_id: int) -> bool:
    search = Search(product_id=2)
    found = license_pages.find_matching_ids(tx, search, after_id=after_id, limit=1_000, now=_now())
    return len(found.ids) < 1_000 and found.after_id is not None


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
