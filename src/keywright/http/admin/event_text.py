"""Events in plain words: the texts for every page that shows events.

``event_views`` finds the names that events refer to, and makes of them what pages show.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from keywright.events.model import Event
from keywright.identity import rights
from keywright.identity.model import User
from keywright.identity.rights import Right
from keywright.search.store import Owner

#: The text of each event, with its details in braces, by the noun that it is about.
EVENTS: dict[str, dict[str, str]] = {
    "Licenses": {
        "license.created": "License created",
        "license.imported": "License imported",
        "license.updated": "License changed",
        "license.deleted": "License {key} deleted",
        "license.activated": "{device} activated",
        "license.reactivated": "{device} activated again",
        "license.device_replaced": "{device} took the place of another device",
        "license.deactivated": "{device} deactivated",
        "license.key_shown": "License key shown",
        "license.file_made": "License file made",
        "license.lease_ended": "Lease ended by the vendor",
        "license.recounted": "Activation count of the license repaired",
    },
    "Policies": {
        "policy.created": "Policy {policy} created",
        "policy.updated": "Policy {policy} changed",
        "policy.deleted": "Policy {policy} deleted",
    },
    "API keys": {
        "api_key.created": "API key {api_key} created: {permissions}",
        "api_key.revoked": "API key {api_key} revoked",
    },
    "Products and customers": {
        "product.created": "Product {product} created",
        "product.updated": "Product {product} changed",
        "product.deleted": "Product {product} deleted",
        "customer.created": "Customer {number} created",
        "customer.updated": "Customer {number} changed",
        "customer.deleted": "Customer {number} deleted",
        "name.saved": "{kind} {number} named",
        "customer.erased": "Personal data of customer {number} erased",
    },
    "Jobs": {
        "job.started": "Job {job_id} started: {job}",
        "job.done": "Job {job_id} done: {job}",
        "job.failed": "Job {job_id} failed: {job}",
        "job.canceled": "Job {job_id} canceled: {job}",
        "job.stopped": "Job {job_id} stopped: {reason}",
        "job.file_fetched": "File of job {job_id} fetched",
        "job.keys_fetched": "New license keys of job {job_id} downloaded",
    },
    "Users": {
        "user.created": "User {user} created: {role}",
        "user.changed": "User {user} changed",
        "user.signed_in": "User {user} signed in",
        "user.signed_out": "User {user} signed out",
        "user.sign_in_refused": "Sign-in refused: {user}",
        "user.code_refused": "Code of user {user} refused",
        "user.recovery_code_used": "Recovery code of user {user} used",
        "user.recovery_codes_renewed": "Recovery codes of user {user} renewed",
        "user.second_factor_enabled": "Second factor of user {user} turned on",
        "user.second_factor_disabled": "Second factor of user {user} turned off",
    },
    "System": {
        "backup.made": "Backup {file} made",
        "backup.failed": "Backup failed",
        "backup.fetched": "Backup {file} fetched",
        "backup.deleted": "Backup {file} deleted",
        "backup.kept": "Backup {file} could not be deleted",
        "system.examined": "Database examined: {outcome}",
        "signing_key.rotated": "Signing key {kid} made; it signs from now on",
        "signing_key.withdrawn": "Signing key {kid} withdrawn",
    },
}

_WORDS = {name: words for texts in EVENTS.values() for name, words in texts.items()}
#: The text for a detail that an event does not have.
_DEFAULTS = {
    "device": "A device",
    "user": "an unknown name",
    "kind": "Number",
    "key": "",
    "role": "",
    "permissions": "",
    "outcome": "",
    "reason": "",
    "file": "",
    "kid": "",
}
_OTHERS = "{others} more devices deactivated"
_JOBS = {
    "generate": "generating licenses",
    "change": "changing licenses",
    "export": "exporting licenses",
    "import": "importing licenses",
    "apply": "applying terms of a policy",
    "take_back": "taking a job back",
}
_PERMISSIONS = {
    "read": "may read",
    "write": "may write",
    "read_write": "may read and write",
    "client": "for programs of customers",
}
#: The prefix of events about users, and the prefixes of actors that are people who use the pages.
_ABOUT_USERS, PEOPLE = "user.", ("user:", "visitor")
#: Texts for the values of some details.
_VALUE_TEXTS: dict[str, Callable[[Any], str]] = {
    "permissions": lambda value: _PERMISSIONS.get(value, str(value)),
    # Events of older versions say "user".
    "kind": lambda value: {"product": "Product", "customer": "Customer", "user": "Customer"}.get(
        value, str(value)
    ),
}
#: Actors that are neither users nor API keys.
_ACTORS = {
    "program": "a program",
    "keywright": "Keywright itself",
    "visitor": "a visitor not signed in",
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
        return _OTHERS, _Details(others=f"{details['others']:,}")
    if "api_key_id" in details:
        details.setdefault("api_key", names.api_keys.get(details["api_key_id"], details["api_key_id"]))
    if "job_id" in details:
        details["job"] = _JOBS.get(str(details.pop("kind", "")), "long work")
    if (place := (event.license_id, event.activation_id)) in names.devices:
        details["device"] = names.devices[place]
    written = _Details(
        (name, _VALUE_TEXTS[name](value) if name in _VALUE_TEXTS else value)
        for name, value in details.items()
    )
    unknown = event.name.replace("{", "{{").replace("}", "}}")
    return _WORDS.get(event.name, unknown), written


def describe_kind(name: str) -> str:
    """Events of this name in a few words, without details: ``Device activated``."""
    words = _WORDS[name].format_map(_OrEmpty(kind="Product or customer", device="Device"))
    return " ".join(words.split()).rstrip(": ")


def describe_actor(actor: str, names: EventNames = NO_NAMES) -> str:
    """An actor in words: ``ada``, ``API key shop``, ``root at the terminal``, ``a program``."""
    kind, _, who = actor.partition(":")
    number = int(who) if who.isascii() and who.isdigit() else None
    if kind == "user" and number is not None:
        return names.users.get(number, f"user {number}")
    if kind == "api_key" and number is not None:
        return f"API key {names.api_keys.get(number, number)}"
    if kind == "cli" and who:
        return f"{who} at the terminal"
    return _ACTORS.get(actor, actor)


def hidden_prefix(reader: User) -> str | None:
    """The prefix of events that this user may not see: only administrators see sign-ins and changes of users.
    None if the user may see all events.
    """
    return None if rights.may(reader.role, Right.ADMINISTER) else _ABOUT_USERS


class _OrEmpty(dict[str, str]):
    """Details that an event has; all others are empty."""

    def __missing__(self, name: str) -> str:
        return ""


class _Details(dict[str, Any]):
    """The details of an event, with defaults for those that are missing."""

    def __missing__(self, name: str) -> str:
        return _DEFAULTS.get(name, "?")
