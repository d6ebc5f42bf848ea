"""What a list of licenses is narrowed to: by what stands in its address, and in the forms about it.

What somebody typed into the search box stands there sealed: a label or an address of a customer's computer is
nothing for the history of a browser or the log of a proxy.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from keywright.core import parsing
from keywright.core.errors import InvalidStatus
from keywright.db import ReadTransaction
from keywright.http.admin.name_suggestions import suggest_names
from keywright.http.pages.urls import BASE, url
from keywright.licensing.licenses.model import License, Status, parse_status
from keywright.provisioning.catalog import store as catalog_store
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import find_numbers
from keywright.search.filters import Order, Search
from keywright.search.query_parser import Interpretation

#: The names in addresses and forms, in the order in which they are said.
NAMES = ("found", "status", "product", "customer", "order", "expiring", "places", "sort")
#: How far ahead one usually looks, in days.
USUAL_DAYS = (7, 30, 90, 365)
#: Names of products and customers, by their numbers.
Names = Mapping[str, Mapping[int, str]]

_SEALED_FOR = b"what was searched for in the pages"


class Found(msgspec.Struct, frozen=True, array_like=True):
    """What was typed into the search box: a token, the address of a computer, or how a label begins."""

    kind: str
    term: str
    is_prefix: bool

    @property
    def text(self) -> str:
        """What was typed, in lower case."""
        return self.term[1:]

    @property
    def words(self) -> str:
        """What it is, before the text."""
        return {"token": "Token", "address": "IP address"}.get(self.kind, "Label begins with")


class Chip(NamedTuple):
    """One thing that is asked for, in words, and the address of the list without it."""

    label: str
    value: str
    without: str


class Filter(msgspec.Struct, frozen=True):
    """What is asked for: the search, the texts of the fields by name, and what is wrong with some of them."""

    search: Search
    texts: Mapping[str, str]
    errors: Mapping[str, str]
    found: Found | None = None

    @property
    def is_narrowing(self) -> bool:
        """Whether it leaves anything out."""
        return any(name != "sort" for name in self.texts)

    @property
    def uses_search_terms(self) -> bool:
        """Whether it asks for something that can be found some seconds after it happened only."""
        return self.found is not None or self.search.is_full or self.search.is_unused

    def address(self, **other: str | None) -> str:
        """The list with this filter, but for ``other``."""
        return url("/licenses", **{**self.texts, **other})

    @property
    def path(self) -> str:
        """The same below the pages' own address, to be sent back to."""
        return path_of(self.texts)

    def chips(self, names: Names) -> list[Chip]:
        """What is asked for, in words; ``names`` are those of products and customers."""
        return [
            Chip(*_in_words(self, name, names), without=self.address(**{name: None}))
            for name in NAMES
            if name in self.texts and name not in self.errors and name != "sort"
        ]


def path_of(texts: Mapping[str, str]) -> str:
    """Where the list is that is narrowed to these texts, below the pages' own address."""
    return url("/licenses", **texts).removeprefix(BASE)


def read(tx: ReadTransaction, given: Mapping[str, str]) -> Filter:
    """The filter that an address or a form gives."""
    texts = {name: given[name] for name in NAMES if given.get(name, "")}
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, text in texts.items():
        try:
            values |= _READ[name](tx, text)
        except InvalidStatus:
            errors[name] = "There is no such status."
        except ValueError as reason:
            errors[name] = f"It {reason}."
    found = values.pop("found", None)
    return Filter(Search(**values), texts, errors, found)


def names_of(tx: ReadTransaction, licenses: Iterable[License], search: Search | None = None) -> Names:
    """The names of the products and customers of these licenses, and of what is searched for."""
    shown: list[License | Search] = [*licenses, *([] if search is None else [search])]
    products = {one.product_id for one in shown if one.product_id is not None}
    customers = {one.customer_id for one in shown if one.customer_id is not None}
    return {
        "product": catalog_store.names_of(tx, NameKind.PRODUCT, products),
        "customer": catalog_store.names_of(tx, NameKind.CUSTOMER, customers),
    }


def offered_names(tx: ReadTransaction) -> Names:
    """Names that are offered where one can be typed."""
    return {
        "product": suggest_names(tx, NameKind.PRODUCT),
        "customer": suggest_names(tx, NameKind.CUSTOMER),
    }


def read_number(tx: ReadTransaction, kind: NameKind, text: str) -> int | None:
    """A number of the vendor's shop, also by the name that it was given. Raises ``ValueError``."""
    if text.isascii() and text.isdigit():
        return parsing.parse_integer(text)
    numbers = find_numbers(tx, kind, text)
    if not numbers:
        raise ValueError("is neither a number nor a name that you have given to one")
    if len(numbers) > 1:
        raise ValueError(f"is the name of {numbers[0]} and of {numbers[1]}: type the number")
    return numbers[0]


def seal(tx: ReadTransaction, found: Interpretation) -> str:
    """What an address says of what was searched for; others cannot read it."""
    told = Found(found.kind, found.search.term or "", found.search.is_prefix)
    sealed = tx.key_ring.seal(msgspec.msgpack.encode(told), _SEALED_FOR)
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def texts_of(tx: ReadTransaction, found: Interpretation) -> dict[str, str]:
    """The texts of the filter that shows what was found."""
    if found.search.order_id is not None:
        return {"order": str(found.search.order_id)}
    if found.search.customer_id is not None:
        return {"customer": str(found.search.customer_id)}
    if found.search.product_id is not None:
        return {"product": str(found.search.product_id)}
    return {"found": seal(tx, found)}


def _unseal(tx: ReadTransaction, text: str) -> dict[str, Any]:
    try:
        sealed = base64.urlsafe_b64decode(f"{text}===")
        found = msgspec.msgpack.decode(tx.key_ring.unseal(sealed, _SEALED_FOR), type=Found)
    except ValueError:
        raise ValueError("is not from here; search again") from None
    return {"found": found, "term": found.term, "is_prefix": found.is_prefix}


def _read_places(_tx: ReadTransaction, text: str) -> dict[str, Any]:
    if text not in ("full", "unused"):
        raise ValueError("must be full or unused")
    return {f"is_{text}": True}


def _read_order(_tx: ReadTransaction, text: str) -> dict[str, Any]:
    if text not in list(Order):
        raise ValueError(f"must be one of {', '.join(Order)}")
    return {"order": Order(text)}


_READ: dict[str, Callable[[ReadTransaction, str], dict[str, Any]]] = {
    "found": _unseal,
    "status": lambda _tx, text: {"status": parse_status(text)},
    "product": lambda tx, text: {"product_id": read_number(tx, NameKind.PRODUCT, text)},
    "customer": lambda tx, text: {"customer_id": read_number(tx, NameKind.CUSTOMER, text)},
    "order": lambda _tx, text: {"order_id": parsing.parse_integer(text)},
    "expiring": lambda _tx, text: {"expiring_within_days": parsing.parse_integer(text, parsing.MAX_COUNT)},
    "places": _read_places,
    "sort": _read_order,
}


def in_days(days: int) -> str:
    """``1 day``, ``1,000 days``."""
    return f"{days:,} day" if days == 1 else f"{days:,} days"


def _in_words(asked: Filter, name: str, names: Names) -> tuple[str, str]:
    search, found = asked.search, asked.found
    write: dict[str, Callable[[], tuple[str, str]]] = {
        "found": lambda: ("", "") if found is None else (found.words, found.text),
        "status": lambda: ("Status", Status(search.status or 0).name.lower()),
        "product": lambda: ("Product", _named(search.product_id, names["product"])),
        "customer": lambda: ("Customer", _named(search.customer_id, names["customer"])),
        "order": lambda: ("Order", str(search.order_id)),
        "expiring": lambda: ("Expires within", in_days(search.expiring_within_days or 0)),
        "places": lambda: ("Places", "none is free" if search.is_full else "never activated"),
    }
    return write[name]()


def _named(number: int | None, names: Mapping[int, str]) -> str:
    name = None if number is None else names.get(number)
    return str(number) if name is None else f"{name} ({number})"
