"""What happened, and who did it, in plain words: the one table of events for every page that shows them.

A page takes events from ``keywright.browsing``, finds the names that they need, and tells them:

    names = request.ask(lambda tx: happenings.find_names(tx, [one.event for one in page.events]))
    told = [happenings.tell(one, names) for one in page.events]

The macros of templates/happenings.html show what was told.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from keywright.db import ReadTransaction
from keywright.events.model import Event
from keywright.http.admin.event_changes import Difference, differences
from keywright.identity import rights
from keywright.identity.model import User
from keywright.identity.rights import Right
from keywright.identity.store import list_api_keys, list_users
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import names_of
from keywright.search.store import EventRecord

#: What each event is called, with the facts that its details hold; after the noun that it is about.
EVENTS: dict[str, dict[str, str]] = {
    "Licenses": {
        "license.created": "License created",
        "license.updated": "License changed",
        "license.deleted": "License {key} deleted",
        "license.activated": "License activated",
        "license.reactivated": "License reactivated",
        "license.deactivated": "License deactivated",
        "license.key_shown": "License key shown",
        "license.recounted": "Places of the license counted anew",
    },
    "Generators": {
        "generator.created": "Generator {generator} created",
        "generator.updated": "Generator {generator} changed",
        "generator.deleted": "Generator {generator} deleted",
    },
    "API keys": {
        "api_key.created": "API key {api_key} created: {permissions}",
        "api_key.revoked": "API key {api_key} revoked",
    },
    "Names": {
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
    },
}

_WORDS = {name: words for named in EVENTS.values() for name, words in named.items()}
#: What is said where an event does not tell a fact.
_MISSING = {
    "user": "an unknown name",
    "kind": "Number",
    "key": "",
    "role": "",
    "permissions": "",
    "outcome": "",
    "reason": "",
    "file": "",
}
_JOBS = {"generate": "generating licenses", "change": "changing licenses", "export": "exporting licenses"}
_PERMISSIONS = {
    "read": "may read",
    "write": "may write",
    "read_write": "may read and write",
    "client": "for programs of customers",
}
#: How the names of events begin, and who acts in events, that tell of those who work with the pages.
_ABOUT_USERS, _USERS = "user.", ("user:", "visitor")
#: How a fact is written that is not its own word.
_WRITE: dict[str, Callable[[Any], str]] = {
    "permissions": lambda value: _PERMISSIONS.get(value, str(value)),
    "kind": lambda value: {"product": "Product", "customer": "Customer", "user": "Customer"}.get(
        value, str(value)
    ),
}
#: Who acts without being anybody in the database.
_ACTORS = {
    "program": "a program",
    "keywright": "Keywright itself",
    "visitor": "somebody not signed in",
}


class Names(NamedTuple):
    """What numbers in events are called, as far as anybody knows."""

    users: Mapping[int, str] = {}
    api_keys: Mapping[int, str] = {}
    products: Mapping[int, str] = {}
    customers: Mapping[int, str] = {}


class Told(NamedTuple):
    """An event for a page: ``text`` says what happened, ``differences`` what was before and after it;
    ``license_id`` is None where it is not about a license.
    """

    id: int
    occurred_at: datetime
    name: str
    text: str
    differences: tuple[Difference, ...]
    actor: str
    address: str
    license_id: int | None
    details: Mapping[str, Any]


def in_words(event: Event, names: Names = Names()) -> str:  # noqa: B008
    """What happened, in a few words: ``License activated``. What nobody knows by words as its name."""
    words = _WORDS.get(event.name)
    if words is None:
        return event.name
    details = dict(event.details or {})
    if "others" in details:
        return f"{words}: {details['others']:,} places more"
    if "api_key_id" in details:
        details.setdefault("api_key", names.api_keys.get(details["api_key_id"], details["api_key_id"]))
    if "job_id" in details:
        details["job"] = _JOBS.get(str(details.pop("kind", "")), "long work")
    written = {name: _WRITE[name](value) if name in _WRITE else value for name, value in details.items()}
    return words.format_map(_Facts(written)).rstrip(": ").replace("  ", " ")


def in_general(name: str) -> str:
    """What happens in events of this name, without their facts: ``License activated``."""
    words = _WORDS[name].format_map(_Unknown(kind="Product or customer"))
    return " ".join(words.split()).rstrip(": ")


def actor_in_words(actor: str, names: Names = Names()) -> str:  # noqa: B008
    """Who did it: ``ada``, ``API key shop``, ``root at the terminal``, ``a program``."""
    kind, _, who = actor.partition(":")
    number = int(who) if who.isascii() and who.isdigit() else None
    if kind == "user" and number is not None:
        return names.users.get(number, f"user {number}")
    if kind == "api_key" and number is not None:
        return f"API key {names.api_keys.get(number, number)}"
    if kind == "cli" and who:
        return f"{who} at the terminal"
    return _ACTORS.get(actor, actor)


def hidden_from(reader: User) -> str | None:
    """How the names of events begin that are not for them: who signs in, and who may, is what administrators
    look at. None where there are none.
    """
    return None if rights.may(reader.role, Right.ADMINISTER) else _ABOUT_USERS


def tell(record: EventRecord, names: Names = Names(), reader: User | None = None) -> Told:  # noqa: B008
    """An event as a page shows it; for a ``reader``, without what is not for them: where colleagues are."""
    event = record.event
    is_hidden = reader is not None and hidden_from(reader) is not None and event.actor.startswith(_USERS)
    return Told(
        id=record.id,
        occurred_at=event.occurred_at,
        name=event.name,
        text=in_words(event, names),
        differences=differences(event, names.products, names.customers),
        actor=actor_in_words(event.actor, names),
        address="" if is_hidden else event.ip_address,
        license_id=event.license_id or None,
        details=event.details or {},
    )


def find_names(tx: ReadTransaction, events: Iterable[Event]) -> Names:
    """The names that telling these events needs."""
    happened = list(events)
    numbers = {kind: _numbers_of(happened, field) for kind, field in _FIELDS.items()}
    has_api_keys = any(
        one.actor.startswith("api_key:") or one.name.startswith("api_key.") for one in happened
    )
    has_users = any(one.actor.startswith("user:") for one in happened)
    return Names(
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


class _Unknown(dict[str, str]):
    """No facts but those that are given."""

    def __missing__(self, name: str) -> str:
        return ""


class _Facts(dict[str, Any]):
    """What an event's words can name."""

    def __missing__(self, name: str) -> str:
        return _MISSING.get(name, "?")
