"""Events in plain words: the texts for every page that shows events.

A page reads events from ``keywright.search``, finds the names that they refer to, and describes them:

    names = request.ask(lambda tx: event_text.find_names(tx, [one.event for one in page.events]))
    views = [event_text.to_view(one, names, request.user) for one in page.events]
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from keywright.db import ReadTransaction
from keywright.events.model import Event
from keywright.http.admin.event_changes import FieldChange, list_changes
from keywright.identity import rights
from keywright.identity.model import User
from keywright.identity.rights import Right
from keywright.identity.store import list_api_keys, list_users
from keywright.licensing.undo.rules import can_undo
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import names_of
from keywright.search.store import EventRecord

#: The text of each event, with its details in braces, by the noun that it is about.
EVENTS: dict[str, dict[str, str]] = {
    "Licenses": {
        "license.created": "License created",
        "license.imported": "License imported",
        "license.updated": "License changed",
        "license.deleted": "License {key} deleted",
        "license.activated": "License activated",
        "license.reactivated": "License reactivated",
        "license.device_replaced": "Place moved to another device",
        "license.deactivated": "License deactivated",
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
_ABOUT_USERS, _PEOPLE = "user.", ("user:", "visitor")
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
    customers: Mapping[int, str] = {}


_NO_NAMES = EventNames()


class EventView(NamedTuple):
    """An event as a page shows it; ``license_id`` is None if it is not about a license."""

    id: int
    occurred_at: datetime
    name: str
    text: str
    changes: tuple[FieldChange, ...]
    actor: str
    address: str
    license_id: int | None
    details: Mapping[str, Any]
    #: Whether the history of its license offers to undo it.
    can_undo: bool = False


def describe(event: Event, names: EventNames = _NO_NAMES) -> str:
    """An event in a few words: ``License activated``; an unknown event by its name."""
    words = _WORDS.get(event.name)
    if words is None:
        return event.name
    details = dict(event.details or {})
    if "others" in details:
        return f"{words}: {details['others']:,} more places"
    if "api_key_id" in details:
        details.setdefault("api_key", names.api_keys.get(details["api_key_id"], details["api_key_id"]))
    if "job_id" in details:
        details["job"] = _JOBS.get(str(details.pop("kind", "")), "long work")
    written = {
        name: _VALUE_TEXTS[name](value) if name in _VALUE_TEXTS else value for name, value in details.items()
    }
    return words.format_map(_Details(written)).rstrip(": ").replace("  ", " ")


def describe_kind(name: str) -> str:
    """Events of this name in a few words, without details: ``License activated``."""
    words = _WORDS[name].format_map(_OrEmpty(kind="Product or customer"))
    return " ".join(words.split()).rstrip(": ")


def describe_actor(actor: str, names: EventNames = _NO_NAMES) -> str:
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


def to_view(record: EventRecord, names: EventNames = _NO_NAMES, reader: User | None = None) -> EventView:
    """An event as a page shows it; for a ``reader``, without the addresses of colleagues."""
    event = record.event
    is_hidden = reader is not None and hidden_prefix(reader) is not None and event.actor.startswith(_PEOPLE)
    return EventView(
        id=record.id,
        occurred_at=event.occurred_at,
        name=event.name,
        text=describe(event, names),
        changes=list_changes(event, names.products, names.customers),
        actor=describe_actor(event.actor, names),
        address="" if is_hidden else event.ip_address,
        license_id=event.license_id or None,
        details=event.details or {},
        can_undo=can_undo(event),
    )


def find_names(tx: ReadTransaction, events: Iterable[Event]) -> EventNames:
    """The names that the descriptions of these events need."""
    events = list(events)
    numbers = {kind: _numbers_of(events, field) for kind, field in _FIELDS.items()}
    has_api_keys = any(one.actor.startswith("api_key:") or one.name.startswith("api_key.") for one in events)
    has_users = any(one.actor.startswith("user:") for one in events)
    return EventNames(
        users={one.id: one.name for one in list_users(tx)} if has_users else {},
        api_keys={one.id: one.name for one in list_api_keys(tx)} if has_api_keys else {},
        products=names_of(tx, NameKind.PRODUCT, numbers[NameKind.PRODUCT]),
        customers=names_of(tx, NameKind.CUSTOMER, numbers[NameKind.CUSTOMER]),
    )


_FIELDS = {NameKind.PRODUCT: "product_id", NameKind.CUSTOMER: "customer_id"}


def _numbers_of(events: Iterable[Event], field: str) -> set[int]:
    """The numbers of products, or of customers, in the details."""
    found: set[int] = set()
    for one in events:
        if one.name.startswith(("license.", "api_key.")) and one.details is not None:
            value = one.details.get(field)
            pair = value if isinstance(value, list) else [value]
            found.update(number for number in pair if number is not None)
    return found


class _OrEmpty(dict[str, str]):
    """Details that an event has; all others are empty."""

    def __missing__(self, name: str) -> str:
        return ""


class _Details(dict[str, Any]):
    """The details of an event, with defaults for those that are missing."""

    def __missing__(self, name: str) -> str:
        return _DEFAULTS.get(name, "?")
