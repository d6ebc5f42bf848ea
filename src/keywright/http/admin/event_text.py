"""Events in plain words: the texts for every page that shows events.

``event_views`` finds the names that events refer to, and makes of them what pages show.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from keywright.events.model import Event
from keywright.events.prose import PROSE
from keywright.http.pages.languages import N_, _
from keywright.identity import model
from keywright.identity.model import Right, User
from keywright.search.store import Owner

_WORDS = {name: words for texts in PROSE.values() for name, words in texts.items()}
#: The text for a detail that an event does not have.
_DEFAULTS = {
    "device": N_("A device"),
    "user": N_("an unknown name"),
    "kind": N_("Number"),
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
    "apply": N_("applying terms of a policy"),
}
_PERMISSIONS = {
    "read": N_("may read"),
    "write": N_("may write"),
    "read_write": N_("may read and write"),
    "client": N_("for programs of customers"),
}
#: What can change of a customer; an event does not say the values.
_FIELDS_OF_CUSTOMER = {
    "name": N_("name"),
    "email": N_("e-mail address"),
    "external_id": N_("external ID"),
    "metadata": N_("note and metadata"),
    "language": N_("language"),
}
#: The prefix of events about users, and the prefixes of actors that are people who use the pages.
_ABOUT_USERS, PEOPLE = "user.", ("user:", "visitor")
_KINDS = {"product": N_("Product"), "customer": N_("Customer"), "user": N_("Customer")}
#: Texts for the values of some details.
_VALUE_TEXTS: dict[str, Callable[[Any], str]] = {
    "permissions": lambda value: _(_PERMISSIONS.get(value, str(value))),
    # Events of older versions say "user".
    "kind": lambda value: _(_KINDS.get(value, str(value))),
    "outcome": lambda value: _(str(value)),
    "role": lambda value: _(str(value)),
}
#: Actors that are neither users nor API keys.
_ACTORS = {
    "program": N_("a program"),
    "keywright": N_("Keywright itself"),
    "visitor": N_("a visitor not signed in"),
    "portal": N_("a customer with the license key, in the portal"),
}


class EventNames(NamedTuple):
    """The names of what events refer to, by number."""

    users: Mapping[int, str] = {}
    api_keys: Mapping[int, str] = {}
    products: Mapping[int, str] = {}
    #: The names of customers, or their e-mail addresses.
    customers: Mapping[int, str] = {}
    #: The customers and products of the licenses that exist.
    owners: Mapping[int, Owner] = {}
    #: What devices are called, by license and activation.
    devices: Mapping[tuple[int, int | None], str] = {}


NO_NAMES = EventNames()


def describe(event: Event, names: EventNames = NO_NAMES) -> str:
    """An event in a few words: ``laptop-olga activated``; an unknown event by its name."""
    words, details = _find_words(event, names)
    return words.format_map(details).rstrip(": ").replace("  ", " ")


def describe_in_html(event: Event, names: EventNames = NO_NAMES) -> Markup:
    """The same with the device in italics."""
    words, details = _find_words(event, names)
    details["device"] = Markup("<em>{}</em>").format(details["device"])
    # Of Markup, every method gives Markup.
    return escape(words).format_map(details).rstrip(": ").replace("  ", " ")


def _find_words(event: Event, names: EventNames) -> tuple[str, dict[str, Any]]:
    """The text of an event, and its details as texts."""
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
    """Events of this name in a few words, without details: ``Device activated``."""
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
    """The prefix of events that this user may not see: only administrators see sign-ins and changes of users.
    None if the user may see all events.
    """
    return None if model.may(reader.role, Right.ADMINISTER) else _ABOUT_USERS


class _OrEmpty(dict[str, str]):
    """Details that an event has; all others are empty."""

    def __missing__(self, name: str) -> str:
        return ""


class _Details(dict[str, Any]):
    """The details of an event, with defaults for those that are missing."""

    def __missing__(self, name: str) -> str:
        return _(text) if (text := _DEFAULTS.get(name, "?")) else ""
