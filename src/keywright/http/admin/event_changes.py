"""The changes that an event records: each field before and after, in words."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from keywright.core.parsing import parse_time
from keywright.events.model import Event
from keywright.licensing.licenses.model import Status
from keywright.licensing.terms.model import Allowance, Meter
from keywright.licensing.terms.words import describe_allowance, describe_meter

#: A value in words, or a time, which pages show in the reader's time zone.
Shown = str | datetime


class FieldChange(NamedTuple):
    """A field before and after an event."""

    label: str
    before: Shown
    after: Shown


#: The label of each field, and the text for no value.
_FIELDS: dict[str, tuple[str, str]] = {
    "key": ("Key", "none"),
    "order_id": ("Order", "none"),
    "product_id": ("Product", "none"),
    "customer_id": ("Customer", "none"),
    "expires_at": ("Expires", "never"),
    "valid_for_days": ("Valid for days", "none"),
    "status": ("Status", "none"),
    "times_activated": ("Active places", "none"),
    "times_activated_max": ("Limit", "no limit"),
    "expires_in_days": ("Days from the first activation", "none"),
    "name": ("Name", "no name"),
    "charset": ("Characters", "none"),
    "chunks": ("Groups", "none"),
    "chunk_length": ("Characters each", "none"),
    "separator": ("Separator", "nothing"),
    "prefix": ("Prefix", "nothing"),
    "suffix": ("Suffix", "nothing"),
    "code": ("Code", "none"),
    "url": ("Address", "none"),
    "max_activations": ("Limit", "no limit"),
    "max_leases": ("Leases", "none"),
    "starts": ("Days counted from", "none"),
    "new_devices": ("New devices", "any number"),
    "portal_releases": ("Releases by the customer", "any number"),
    "archived_at": ("Archived", "no"),
    "role": ("Role", "none"),
    "is_disabled": ("Disabled", "no"),
}


def list_changes(
    event: Event, products: Mapping[int, str], customers: Mapping[int, str]
) -> tuple[FieldChange, ...]:
    """The details that are pairs of [before, after]; of a new password, only that it changed."""
    writers = _TEXTS | {"product_id": _name_writer(products), "customer_id": _name_writer(customers)}
    found = [
        _describe_change(name, pair, writers.get(name, str))
        for name, pair in (event.details or {}).items()
        if isinstance(pair, list) and len(pair) == 2
    ]
    if (event.details or {}).get("is_password_new"):
        found.append(FieldChange("Password", "the old one", "a new one"))
    return tuple(found)


def _describe_change(name: str, pair: list[Any], write: Callable[[Any], Shown]) -> FieldChange:
    label, missing = _FIELDS.get(name, (name.replace("_", " ").capitalize(), "none"))
    before, after = (missing if value is None else write(value) for value in pair)
    return FieldChange(label, before, after)


def _name_writer(names: Mapping[int, str]) -> Callable[[Any], str]:
    return lambda number: f"{names[number]} ({number})" if number in names else str(number)


def _status_text(number: Any) -> str:
    return Status(number).name.lower() if number in list(Status) else str(number)


def _time(text: Any) -> Shown:
    try:
        return parse_time(text) or str(text)
    except ValueError:
        return str(text)


def _words(value: Any) -> str:
    """An enumeration's value, or codes."""
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value).replace("_", " ")


def _allowance(value: Any) -> str:
    return describe_allowance(msgspec.convert(value, Allowance))


def _meters(value: Any) -> str:
    meters = msgspec.convert(value, dict[str, Meter])
    return ", ".join(f"{name}: {describe_meter(one)}" for name, one in meters.items()) or "none"


_TEXTS: dict[str, Callable[[Any], Shown]] = {
    "archived_at": _time,
    "starts": _words,
    "after_expiry": _words,
    "entitlements": _words,
    "meters": _meters,
    "new_devices": _allowance,
    "portal_releases": _allowance,
    "trial": lambda value: "yes" if value else "no",
    "status": _status_text,
    "expires_at": _time,
    "is_disabled": lambda value: "yes" if value else "no",
    "times_activated_max": lambda value: f"{value:,}" if isinstance(value, int) else str(value),
}
