"""Exports, page by page: each page is read at one moment, and no more than one is in memory."""

import codecs
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from keywright.db import ReadTransaction
from keywright.licensing.activations.store import list_activations as activations_of
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.licensing.licenses.store import list_licenses
from keywright.licensing.notes_store import find_notes
from keywright.licensing.usage.commands import ListPeriods, PeriodFilter, Place
from keywright.licensing.usage.period_store import list_periods
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import names_of
from keywright.provisioning.exporters import rows, store

PAGE = 1_000

Answer = TypeVar("Answer")


class Read(Protocol):
    """Runs a read in its own transaction."""

    def __call__(self, question: Callable[[ReadTransaction], Answer], /) -> Answer:
        """The result."""


class Export(NamedTuple):
    """A table: its columns, and how the page after a place is read; returns rows and the last one's place."""

    columns: Sequence[str]
    start: Any
    read: Callable[[ReadTransaction, Any], tuple[Sequence[rows.Row], Any]]


def pages(read: Read, export: Export) -> Iterator[Sequence[rows.Row]]:
    """The rows of an export, page by page."""
    place = export.start
    while True:
        page, place = read(lambda tx, after=place: export.read(tx, after))  # type: ignore[misc]
        if not page:
            return
        yield page


def as_csv(read: Read, export: Export) -> Iterator[bytes]:
    """The export as CSV in UTF-8, with a byte order mark, for spreadsheets."""
    yield codecs.BOM_UTF8 + rows.to_csv([export.columns])
    yield from map(rows.to_csv, pages(read, export))


def as_json_lines(read: Read, export: Export) -> Iterator[bytes]:
    """The export as JSON Lines."""
    for page in pages(read, export):
        yield rows.to_json_lines(export.columns, page)


def license_rows(tx: ReadTransaction, licenses: Collection[License]) -> list[rows.Row]:
    """The rows of these licenses, with the names of products and customers, tags and notes."""
    products = _names(tx, NameKind.PRODUCT, {one.product_id for one in licenses})
    customers = _names(tx, NameKind.CUSTOMER, {one.customer_id for one in licenses})
    notes = find_notes(tx, [one.id for one in licenses])
    return [rows.license_row(one, products, customers, notes[one.id]) for one in licenses]


def _names(tx: ReadTransaction, kind: NameKind, numbers: set[int | None]) -> dict[int | None, str]:
    found = names_of(tx, kind, {number for number in numbers if number is not None})
    return dict[int | None, str](found.items())


def _licenses(tx: ReadTransaction, after: int) -> tuple[Sequence[rows.Row], int]:
    found = list_licenses(tx, LicenseFilter(), after_id=after, limit=PAGE)
    return license_rows(tx, found), found[-1].id if found else after


def _licenses_with_activations(tx: ReadTransaction, after: int) -> tuple[Sequence[rows.Row], int]:
    page, last = _licenses(tx, after)
    of = activations_of(tx, [row[0] for row in page])
    return [[*row, [rows.activation_object(one) for one in of.get(row[0], [])]] for row in page], last


def _activations(tx: ReadTransaction, after: tuple[int, str]) -> tuple[Sequence[rows.Row], tuple[int, str]]:
    found = store.list_activations(tx, after, PAGE)
    return [*map(rows.activation_row, found)], (found[-1].license_id, found[-1].token) if found else after


def _events(tx: ReadTransaction, after: int) -> tuple[Sequence[rows.Row], int]:
    found = store.list_events(tx, after, PAGE)
    return [rows.event_row(number, one) for number, one in found], found[-1][0] if found else after


def _customers(tx: ReadTransaction, after: int) -> tuple[Sequence[rows.Row], int]:
    found = store.list_customers(tx, after, PAGE)
    names, amounts = names_of(tx, NameKind.CUSTOMER, found), store.count_licenses_of(tx, found)
    external = store.find_external_ids(tx, found)
    page = [(number, names.get(number), amounts.get(number, 0), external.get(number)) for number in found]
    return page, found[-1] if found else after


def _usage(tx: ReadTransaction, after: Place | None) -> tuple[Sequence[rows.Row], Place | None]:
    found = list_periods(tx, ListPeriods(where=PeriodFilter(), after=after, limit=PAGE)).items
    return [*map(rows.period_row, found)], found[-1].place if found else after


LICENSES = Export(rows.LICENSE, 0, _licenses)
LICENSES_WITH_ACTIVATIONS = Export([*rows.LICENSE, "activations"], 0, _licenses_with_activations)
ACTIVATIONS = Export(rows.ACTIVATION, (0, ""), _activations)
EVENTS = Export(rows.EVENT, 0, _events)
USAGE = Export(rows.USAGE, None, _usage)
CUSTOMERS = Export(rows.CUSTOMER, -1, _customers)
