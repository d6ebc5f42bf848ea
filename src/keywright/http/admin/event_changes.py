"""What an event changed: each field as it was and as it is, in words."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from keywright.core.parsing import parse_time
from keywright.events.model import Event
from keywright.licensing.licenses.model import Status

#: What is shown of one side: a text, or a moment, which pages write in the reader's zone.
Shown = str | datetime


class Difference(NamedTuple):
    """A field, and what it was and is."""

    label: str
    before: Shown
    after: Shown


#: What each field is called, and what no value means.
_FIELDS: dict[str, tuple[str, str]] = {
    "key": ("Key", "none"),
    "order_id": ("Order", "none"),
    "product_id": ("Product", "none"),
    "customer_id": ("Customer", "none"),
    "expires_at": ("Expires", "never"),
    "valid_for_days": ("Days from the first activation", "none"),
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
    "role": ("Role", "none"),
    "is_disabled": ("Disabled", "no"),
}


def differences(
    event: Event, products: Mapping[int, str], customers: Mapping[int, str]
) -> tuple[Difference, ...]:
    """What the event's details say as [before, after]; a new password is only said to be one."""
    writers = _WRITE | {"product_id": _naming(products), "customer_id": _naming(customers)}
    found = [
        _difference(name, pair, writers.get(name, str))
        for name, pair in (event.details or {}).items()
        if isinstance(pair, list) and len(pair) == 2
    ]
    if (event.details or {}).get("is_password_new"):
        found.append(Difference("Password", "the old one", "a new one"))
    return tuple(found)


def _difference(name: str, pair: list[Any], write: Callable[[Any], Shown]) -> Difference:
    label, missing = _FIELDS.get(name, (name.replace("_", " ").capitalize(), "none"))
    before, after = (missing if value is None else write(value) for value in pair)
    return Difference(label, before, after)


def _naming(names: Mapping[int, str]) -> Callable[[Any], str]:
    return lambda number: f"{names[number]} ({number})" if number in names else str(number)


def _status(number: Any) -> str:
    return Status(number).name.lower() if number in list(Status) else str(number)


def _moment(text: Any) -> Shown:
    try:
        return parse_time(text) or str(text)
    except ValueError:
        return str(text)


_WRITE: dict[str, Callable[[Any], Shown]] = {
    "status": _status,
    "expires_at": _moment,
    "is_disabled": lambda value: "yes" if value else "no",
    "times_activated_max": lambda value: f"{value:,}" if isinstance(value, int) else str(value),
}
