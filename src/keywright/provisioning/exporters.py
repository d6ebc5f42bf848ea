"""Exports: the rows of tables, read page by page and written as CSV or JSON.

A value in a row is a number, a text, a datetime, JSON as ``msgspec.Raw``, a list of objects, or None.
"""

import codecs
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from keywright.core.spreadsheets import csv_lines, escape_formulas, time_cell
from keywright.db.transaction import ReadTransaction
from keywright.events.model import Event
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import list_activations as activations_of
from keywright.licensing.licenses.model import OWN_FIELDS, License, LicenseFilter, Status
from keywright.licensing.licenses.store import list_licenses
from keywright.licensing.notes import Notes
from keywright.licensing.store import find_notes
from keywright.licensing.usage.model import ListPeriods, MeterUsage, PeriodFilter, Place
from keywright.licensing.usage.rules import resets_at
from keywright.licensing.usage.store import list_periods
from keywright.provisioning import store
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import names_of

Row = Sequence[Any]

#: The columns of a license, in order; ``key`` is called ``license_key``.
LICENSE = [
    *(
        "id license_key status order_id product_id product customer_id customer times_activated "
        "times_activated_max created_at expires_at valid_for_days updated_at tags note source created_by "
        "updated_by metadata policy_id terms order_details sold_quantity rule_terms"
    ).split(),
    *OWN_FIELDS,
]
#: The columns of an activation: all of its fields.
ACTIVATION = tuple(dict.fromkeys(("id", "license_id", *Activation.__struct_fields__)))
#: The fields that contain a JSON object as text.
_JSON = ("metadata", "terms", "order_details", "rule_terms")
EVENT = "id occurred_at name license_id activation_id actor ip_address details".split()
USAGE = "license_id product_id customer_id meter period_start period_end used limit overage closed_at".split()
CUSTOMER = "customer_id name licenses external_id".split()


def license_row(
    license: License,
    products: Mapping[int | None, str],
    customers: Mapping[int | None, str],
    notes: Notes,
) -> Row:
    """Build the row of a license, with the names of its product and customer, its tags and its note."""
    fields = msgspec.structs.asdict(license) | {
        "license_key": license.key,
        "sold_quantity": license.quantity,
        "status": Status(license.status).name.lower(),
        "product": products.get(license.product_id),
        "customer": customers.get(license.customer_id),
        "tags": " ".join(notes.tags) or None,
        "note": notes.note or None,
    }
    for name in _JSON:
        fields[name] = _raw(fields[name])
    return [fields[name] for name in LICENSE]


def activation_row(activation: Activation) -> Row:
    """Build the row of an activation."""
    fields = msgspec.structs.asdict(activation) | {"offline_until": activation.runs_until}
    return [_json(fields[name]) if name == "meta_data" else fields[name] for name in ACTIVATION]


def activation_object(activation: Activation) -> dict[str, Any]:
    """Build the object of an activation inside its license: without null members and the license's ID."""
    row = zip(ACTIVATION, activation_row(activation), strict=True)
    return {name: value for name, value in row if value is not None and name != "license_id"}


def event_row(number: int, event: Event) -> Row:
    """Build the row of an event."""
    fields = {"id": number} | msgspec.structs.asdict(event)
    return [_json(fields[name]) if name == "details" else fields[name] for name in EVENT]


def period_row(one: MeterUsage) -> Row:
    """Build the row of a period of a meter."""
    fields = msgspec.structs.asdict(one)
    fields |= {"period_end": resets_at(one), "limit": one.meter_limit, "overage": one.overage}
    return [fields[name] for name in USAGE]


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def _json(value: object) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(msgspec.json.encode(value))


def to_csv(rows: Iterable[Row]) -> bytes:
    """Write rows as CSV in which no spreadsheet recognizes a formula."""
    return csv_lines([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        value = bytes(value).decode()
    if isinstance(value, str):
        return escape_formulas(value)
    return time_cell(value) if isinstance(value, datetime) else value


def to_json_lines(columns: Sequence[str], rows: Iterable[Row]) -> bytes:
    """Write rows as JSON objects, one per line."""
    return b"".join(msgspec.json.encode(dict(zip(columns, row, strict=True))) + b"\n" for row in rows)


PAGE = 1_000

Answer = TypeVar("Answer")


class Read(Protocol):
    """Runs a read in a transaction of its own."""

    def __call__(self, question: Callable[[ReadTransaction], Answer], /) -> Answer:
        """Run the read and return its result."""


class Export(NamedTuple):
    """A table to export: its columns, and the function that reads the page after a place. It returns the
    rows, and the place of the last one.
    """

    columns: Sequence[str]
    start: Any
    read: Callable[[ReadTransaction, Any], tuple[Sequence[Row], Any]]


def pages(read: Read, export: Export) -> Iterator[Sequence[Row]]:
    """Yield the rows of an export, page by page."""
    place = export.start
    while True:
        page, place = read(lambda tx, after=place: export.read(tx, after))  # type: ignore[misc]
        if not page:
            return
        yield page


def as_csv(read: Read, export: Export) -> Iterator[bytes]:
    """Yield the export as CSV in UTF-8, with a byte order mark, for spreadsheets."""
    yield codecs.BOM_UTF8 + to_csv([export.columns])
    yield from map(to_csv, pages(read, export))


def as_json_lines(read: Read, export: Export) -> Iterator[bytes]:
    """Yield the export as JSON Lines."""
    for page in pages(read, export):
        yield to_json_lines(export.columns, page)


def license_rows(tx: ReadTransaction, licenses: Collection[License]) -> list[Row]:
    """Build the rows of these licenses, with the names of products and customers, tags and notes."""
    products = _names(tx, NameKind.PRODUCT, {one.product_id for one in licenses})
    customers = _names(tx, NameKind.CUSTOMER, {one.customer_id for one in licenses})
    notes = find_notes(tx, [one.id for one in licenses])
    return [license_row(one, products, customers, notes[one.id]) for one in licenses]


def _names(tx: ReadTransaction, kind: NameKind, numbers: set[int | None]) -> dict[int | None, str]:
    found = names_of(tx, kind, {number for number in numbers if number is not None})
    return dict[int | None, str](found.items())


def _licenses(tx: ReadTransaction, after: int) -> tuple[Sequence[Row], int]:
    found = list_licenses(tx, LicenseFilter(), after_id=after, limit=PAGE)
    return license_rows(tx, found), found[-1].id if found else after


def _licenses_with_activations(tx: ReadTransaction, after: int) -> tuple[Sequence[Row], int]:
    page, last = _licenses(tx, after)
    of = activations_of(tx, [row[0] for row in page])
    return [[*row, [activation_object(one) for one in of.get(row[0], [])]] for row in page], last


def _activations(tx: ReadTransaction, after: tuple[int, str]) -> tuple[Sequence[Row], tuple[int, str]]:
    found = store.list_activations(tx, after, PAGE)
    return [*map(activation_row, found)], (found[-1].license_id, found[-1].token) if found else after


def _events(tx: ReadTransaction, after: int) -> tuple[Sequence[Row], int]:
    found = store.list_events(tx, after, PAGE)
    return [event_row(number, one) for number, one in found], found[-1][0] if found else after


def _customers(tx: ReadTransaction, after: int) -> tuple[Sequence[Row], int]:
    found = store.list_customers(tx, after, PAGE)
    names, amounts = names_of(tx, NameKind.CUSTOMER, found), store.count_licenses_of(tx, found)
    external = store.find_external_ids(tx, found)
    page = [(number, names.get(number), amounts.get(number, 0), external.get(number)) for number in found]
    return page, found[-1] if found else after


def _usage(tx: ReadTransaction, after: Place | None) -> tuple[Sequence[Row], Place | None]:
    found = list_periods(tx, ListPeriods(where=PeriodFilter(), after=after, limit=PAGE)).items
    return [*map(period_row, found)], found[-1].place if found else after


LICENSES_EXPORT = Export(LICENSE, 0, _licenses)
LICENSES_WITH_ACTIVATIONS = Export([*LICENSE, "activations"], 0, _licenses_with_activations)
ACTIVATIONS_EXPORT = Export(ACTIVATION, (0, ""), _activations)
EVENTS_EXPORT = Export(EVENT, 0, _events)
USAGE_EXPORT = Export(USAGE, None, _usage)
CUSTOMERS_EXPORT = Export(CUSTOMER, -1, _customers)
