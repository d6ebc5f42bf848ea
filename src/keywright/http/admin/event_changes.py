"""The changes that an event records: each field before and after, in words."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from keywright.config.stored import LABELS
from keywright.core.nouns import list_members
from keywright.core.parsing import parse_time
from keywright.events.model import Event
from keywright.http.pages import languages
from keywright.http.pages.formats import write_number
from keywright.http.pages.languages import N_, _
from keywright.http.terms_in_words import describe_allowance, describe_meter
from keywright.licensing.licenses.model import Status
from keywright.licensing.terms.model import Allowance, Meter, Terms
from keywright.provisioning.customers import CUSTOMER
from keywright.provisioning.policies.model import KeyFormatFields
from keywright.provisioning.products import PRODUCT

#: A value in words, or a time, which pages show in the reader's time zone.
Shown = str | datetime


class FieldChange(NamedTuple):
    """A field before and after an event."""

    label: str
    before: Shown
    after: Shown


#: The nouns that declare the labels of their fields.
NOUNS = (PRODUCT, CUSTOMER)
#: The label of each field, and the text for no value; nouns declare those of theirs.
_FIELDS: dict[str, tuple[str, str]] = {
    "key": (N_("Key"), N_("none")),
    "external_id": (N_("External ID"), N_("none")),
    "order_id": (N_("Order"), N_("none")),
    "product_id": (N_("Product"), N_("none")),
    "customer_id": (N_("Customer"), N_("none")),
    "policy_id": (N_("Policy"), N_("none")),
    "expires_at": (N_("Expires"), N_("never")),
    "status": (N_("Status"), N_("none")),
    "times_activated": (N_("Active places"), N_("none")),
    "times_activated_max": (N_("Limit"), N_("no limit")),
    "expires_in_days": (N_("Days from the first activation"), N_("none")),
    "name": (N_("Name"), N_("no name")),
    "archived_at": (N_("Archived"), N_("no")),
    "role": (N_("Role"), N_("none")),
    "is_disabled": (N_("Disabled"), N_("no")),
    "language": (N_("Language"), N_("that of the browser")),
}

_FIELDS |= {
    member.name: (member.form["label"], member.form.get("none", N_("none")))
    for fields in (*(noun.fields for noun in NOUNS), KeyFormatFields, Terms)
    for member in list_members(fields)
    if member.form and member.name not in _FIELDS
}

_FIELDS |= {name: (label, N_("default")) for name, label in LABELS.items()}

#: The words of enumerations.
_WORDS = {
    *(N_("reader"), N_("support"), N_("administrator")),
    *(N_("creation"), N_("first activation"), N_("refuse"), N_("allow"), N_("older versions")),
    *(N_("no"), N_("once"), N_("always")),
    *(N_("optional"), N_("required"), N_("replace unseen")),
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
        found.append(FieldChange(_("Password"), _("the old one"), _("a new one")))
    return tuple(found)


def write_value(name: str, value: object) -> Shown:
    """A value of this field of a license, in words."""
    if isinstance(value, datetime):
        return value
    missing = _FIELDS[name][1] if name in _FIELDS else "none"
    return _(missing) if value is None else _TEXTS.get(name, str)(value)


def write_label(name: str) -> str:
    """The label of this field."""
    return _(_FIELDS[name][0]) if name in _FIELDS else name.replace("_", " ").capitalize()


def _describe_change(name: str, pair: list[Any], write: Callable[[Any], Shown]) -> FieldChange:
    label, missing = _FIELDS.get(name, (name.replace("_", " ").capitalize(), "none"))
    before, after = (_(missing) if value is None else write(value) for value in pair)
    return FieldChange(_(label), before, after)


def _name_writer(names: Mapping[int, str]) -> Callable[[Any], str]:
    return lambda number: f"{names[number]} ({number})" if number in names else str(number)


def _status_text(number: Any) -> str:
    return _(Status(number).name.lower()) if number in list(Status) else str(number)


def _time(text: Any) -> Shown:
    try:
        return parse_time(text) or str(text)
    except ValueError:
        return str(text)


def _words(value: Any) -> str:
    """An enumeration's value, or codes."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or _("none")
    word = str(value).replace("_", " ")
    return _(word) if word in _WORDS else word


def _allowance(value: Any) -> str:
    return describe_allowance(msgspec.convert(value, Allowance), languages)


def _meters(value: Any) -> str:
    meters = msgspec.convert(value, dict[str, Meter])
    return ", ".join(f"{name}: {describe_meter(one, languages)}" for name, one in meters.items()) or _("none")


def _yes_or_no(value: Any) -> str:
    return _("yes") if value else _("no")


_TEXTS: dict[str, Callable[[Any], Shown]] = {
    "archived_at": _time,
    "role": _words,
    "starts": _words,
    "after_expiry": _words,
    "device": _words,
    "entitlements": _words,
    "channels": _words,
    "meters": _meters,
    "new_devices": _allowance,
    "portal_removals": _allowance,
    "trial": _yes_or_no,
    "claimable": _yes_or_no,
    "transferable": _words,
    "when_full": _words,
    "devices_visible": _yes_or_no,
    "status": _status_text,
    "expires_at": _time,
    "is_disabled": _yes_or_no,
    "times_activated_max": lambda value: write_number(value) if isinstance(value, int) else str(value),
}
