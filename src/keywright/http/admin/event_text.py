"""Describe events, and the changes that they record, in plain words.

``event_views`` finds the names to which events refer, and builds the views that pages show.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup, escape

from keywright.config.stored import LABELS
from keywright.core.nouns import list_members
from keywright.core.parsing import parse_time
from keywright.events.model import Event
from keywright.events.prose import PROSE
from keywright.http.pages import formats
from keywright.http.pages.formats import N_, _, write_number
from keywright.http.terms_in_words import describe_allowance, describe_meter
from keywright.identity import model
from keywright.identity.model import Right, User
from keywright.licensing.licenses.model import LicenseFields, Status
from keywright.licensing.terms.model import Allowance, Meter, Terms
from keywright.provisioning.customers import CUSTOMER
from keywright.provisioning.policies.model import KeyFormatFields
from keywright.provisioning.products import PRODUCT
from keywright.provisioning.releases.notices import NOTICE
from keywright.search.store import Owner

_WORDS = {name: words for texts in PROSE.values() for name, words in texts.items()}
#: The texts for details that an event lacks.
_DEFAULTS = {
    "device": N_("A device"),
    "user": N_("an unknown name"),
    "kind": N_("ID"),
    "key": "",
    "role": "",
    "permissions": "",
    "outcome": "",
    "reason": "",
    "file": "",
    "kid": "",
    "url": "",
    "fields": "",
}
_OTHERS = N_("{others} more devices deactivated")
_JOBS = {
    "generate": N_("generating licenses"),
    "change": N_("changing licenses"),
    "export": N_("exporting licenses"),
    "import": N_("importing licenses"),
    "notify": N_("notifying customers"),
    "apply": N_("applying terms of a policy"),
}
_PERMISSIONS = {
    "read": N_("may read"),
    "write": N_("may write"),
    "read_write": N_("may read and write"),
    "client": N_("for customers' programs"),
}
#: The fields of a customer that can change; events do not contain their values.
_FIELDS_OF_CUSTOMER = {
    "name": N_("name"),
    "email": N_("e-mail address"),
    "external_id": N_("external ID"),
    "metadata": N_("note and metadata"),
    "language": N_("language"),
}
#: The prefix of events about users, and the prefixes of actors who are people using the pages.
_ABOUT_USERS, PEOPLE = "user.", ("user:", "visitor")
_KINDS = {"product": N_("Product"), "customer": N_("Customer"), "user": N_("Customer")}
#: Texts for the values of some details.
_VALUE_TEXTS: dict[str, Callable[[Any], str]] = {
    "permissions": lambda value: _(_PERMISSIONS.get(value, str(value))),
    # Events of older versions have "user".
    "kind": lambda value: _(_KINDS.get(value, str(value))),
    "outcome": lambda value: _(str(value)),
    "role": lambda value: _(str(value)),
}
#: Actors that are neither users nor API keys.
_ACTORS = {
    "program": N_("a program"),
    "keywright": N_("Keywright itself"),
    "visitor": N_("a visitor who is not signed in"),
    "portal": N_("a customer with the license key, in the portal"),
}


class EventNames(NamedTuple):
    """The names to which events refer, by ID."""

    users: Mapping[int, str] = {}
    api_keys: Mapping[int, str] = {}
    products: Mapping[int, str] = {}
    #: The names of customers, or their e-mail addresses.
    customers: Mapping[int, str] = {}
    #: The customers and products of the licenses that exist.
    owners: Mapping[int, Owner] = {}
    #: The names of devices, by license and activation.
    devices: Mapping[tuple[int, int | None], str] = {}


NO_NAMES = EventNames()


def describe(event: Event, names: EventNames = NO_NAMES) -> str:
    """An event in a few words, ``laptop-olga activated``; for an unknown kind, the event's name."""
    words, details = _find_words(event, names)
    return words.format_map(details).rstrip(": ").replace("  ", " ")


def describe_in_html(event: Event, names: EventNames = NO_NAMES) -> Markup:
    """Like ``describe``, with the device emphasized."""
    words, details = _find_words(event, names)
    details["device"] = Markup("<em>{}</em>").format(details["device"])
    # Every method of Markup returns Markup.
    return escape(words).format_map(details).rstrip(": ").replace("  ", " ")


def _find_words(event: Event, names: EventNames) -> tuple[str, dict[str, Any]]:
    """The text of an event with placeholders, and the details that fill them."""
    details = dict(event.details or {})
    if "others" in details:
        return _(_OTHERS), _Details(others=f"{details['others']:,}")
    if "api_key_id" in details:
        details.setdefault("api_key", names.api_keys.get(details["api_key_id"], details["api_key_id"]))
    if "job_id" in details:
        details["job"] = _(_JOBS.get(str(details.pop("kind", "")), N_("long work")))
    if event.name == "customer.updated":
        details["fields"] = ", ".join(
            _(_FIELDS_OF_CUSTOMER[one]) for one in _FIELDS_OF_CUSTOMER if one in details
        )
    if (place := (event.license_id, event.activation_id)) in names.devices:
        details["device"] = names.devices[place]
    written = _Details(
        (name, _VALUE_TEXTS[name](value) if name in _VALUE_TEXTS else value)
        for name, value in details.items()
    )
    if event.name not in _WORDS:
        return event.name.replace("{", "{{").replace("}", "}}"), written
    return _(_WORDS[event.name]), written


def describe_kind(name: str) -> str:
    """The events with this name in a few words, without details: ``Device activated``."""
    words = _(_WORDS[name]).format_map(_OrEmpty(kind=_("Product or customer"), device=_("Device")))
    return " ".join(words.split()).rstrip(": ")


def describe_actor(actor: str, names: EventNames = NO_NAMES) -> str:
    """An actor in words: ``ada``, ``API key shop``, ``root at the terminal``, ``a program``."""
    kind, who = (*actor.split(":", 1), "")[:2]
    number = int(who) if who.isascii() and who.isdigit() else None
    if kind == "user" and number is not None:
        return names.users.get(number) or _("user %(number)s", number=number)
    if kind == "api_key" and number is not None:
        return _("API key %(name)s", name=names.api_keys.get(number, number))
    if kind == "cli" and who:
        return _("%(name)s at the terminal", name=who)
    if kind == "customer" and number is not None:
        return _("customer %(name)s, in the portal", name=names.customers.get(number) or number)
    if kind == "connection" and number is not None:
        return _("the shop of connection %(number)s", number=number)
    return _(_ACTORS[actor]) if actor in _ACTORS else actor


def hidden_prefix(reader: User) -> str | None:
    """The prefix of events that this user may not see; None if the user may see all. Only administrators see
    sign-ins and changes of users.
    """
    return None if model.may(reader.role, Right.ADMINISTER) else _ABOUT_USERS


class _OrEmpty(dict[str, str]):
    """Placeholder values; missing ones are empty."""

    def __missing__(self, name: str) -> str:
        return ""


class _Details(dict[str, Any]):
    """The details of an event, with defaults for those that are missing."""

    def __missing__(self, name: str) -> str:
        return _(text) if (text := _DEFAULTS.get(name, "?")) else ""


#: A value in words, or a time, which pages show in the reader's time zone.
Shown = str | datetime


class FieldChange(NamedTuple):
    """A field before and after an event."""

    label: str
    before: Shown
    after: Shown


#: The nouns that declare the labels of their fields.
NOUNS = (PRODUCT, CUSTOMER, NOTICE)
#: The label of each field, and the text for no value; those that nouns declare are added below.
_FIELDS: dict[str, tuple[str, str]] = {
    "key": (N_("Key"), N_("none")),
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
    "language": (N_("Language"), N_("the browser's language")),
}

_FIELDS |= {
    member.name: (member.form["label"], member.form.get("none", N_("none")))
    for fields in (*(noun.fields for noun in NOUNS), LicenseFields, KeyFormatFields, Terms)
    for member in list_members(fields)
    if member.form and member.name not in _FIELDS
}

_FIELDS |= {name: (label, N_("default")) for name, label in LABELS.items()}

#: The values of enumerations that are translated.
_WORDS_OF_CHANGES = {
    *(N_("reader"), N_("support"), N_("administrator")),
    *(N_("creation"), N_("first activation"), N_("refuse"), N_("allow"), N_("older versions")),
    *(N_("no"), N_("once"), N_("always")),
    *(N_("optional"), N_("required"), N_("replace an unseen device")),
}


def list_changes(
    event: Event, products: Mapping[int, str], customers: Mapping[int, str]
) -> tuple[FieldChange, ...]:
    """The changes in the details, which are [before, after]; for a password, only that it is new."""
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
    """The label of the field with this name."""
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
    """An enumeration's value, or a list of codes, in words."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or _("none")
    word = str(value).replace("_", " ")
    return _(word) if word in _WORDS_OF_CHANGES else word


def _allowance(value: Any) -> str:
    return describe_allowance(msgspec.convert(value, Allowance), formats)


def _meters(value: Any) -> str:
    meters = msgspec.convert(value, dict[str, Meter])
    return ", ".join(f"{name}: {describe_meter(one, formats)}" for name, one in meters.items()) or _("none")


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
    "uncounted_hosts": _words,
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
