"""The rows of exported tables, and how they are written.

A value of a row is a number, a text, a datetime, JSON as ``msgspec.Raw``, a list of objects, or None.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.spreadsheets import csv_lines, escape_formulas, time_cell
from keywright.events.model import Event
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.notes import Notes
from keywright.licensing.usage.model import MeterUsage
from keywright.licensing.usage.rules import resets_at

Row = Sequence[Any]

#: The columns of a license, in their order; ``key`` is called ``license_key``.
LICENSE = (
    "id license_key status order_id product_id product customer_id customer times_activated "
    "times_activated_max created_at expires_at valid_for_days updated_at tags note source created_by "
    "updated_by metadata policy_id terms order_details external_id sold_quantity rule_terms"
).split()
ACTIVATION = (
    "id license_id token label source ip_address user_agent meta_data created_at updated_at deactivated_at "
    "fingerprint platform app_version offline_until"
).split()
#: The fields that are texts of JSON objects.
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
    """The row of a license, with the names of its product and customer, its tags and its note."""
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
    """The row of an activation."""
    fields = msgspec.structs.asdict(activation) | {"offline_until": activation.runs_until}
    return [_json(fields[name]) if name == "meta_data" else fields[name] for name in ACTIVATION]


def activation_object(activation: Activation) -> dict[str, Any]:
    """An activation in the object of its license: without what is None, and without its license's id."""
    row = zip(ACTIVATION, activation_row(activation), strict=True)
    return {name: value for name, value in row if value is not None and name != "license_id"}


def event_row(number: int, event: Event) -> Row:
    """The row of an event."""
    fields = {"id": number} | msgspec.structs.asdict(event)
    return [_json(fields[name]) if name == "details" else fields[name] for name in EVENT]


def period_row(one: MeterUsage) -> Row:
    """The row of a period of a meter."""
    fields = msgspec.structs.asdict(one)
    fields |= {"period_end": resets_at(one), "limit": one.meter_limit, "overage": one.overage}
    return [fields[name] for name in USAGE]


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def _json(value: object) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(msgspec.json.encode(value))


def to_csv(rows: Iterable[Row]) -> bytes:
    """Lines of CSV in which no spreadsheet finds a formula."""
    return csv_lines([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        value = bytes(value).decode()
    if isinstance(value, str):
        return escape_formulas(value)
    return time_cell(value) if isinstance(value, datetime) else value


def to_json_lines(columns: Sequence[str], rows: Iterable[Row]) -> bytes:
    """A JSON object a line."""
    return b"".join(msgspec.json.encode(dict(zip(columns, row, strict=True))) + b"\n" for row in rows)
