"""Events in plain words: the texts for every page that shows events.

``event_views`` finds the names that events refer to, and makes of them what pages show.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from keywright.events.model import Event
from keywright.http.pages.languages import N_, _
from keywright.identity import rights
from keywright.identity.model import User
from keywright.identity.rights import Right
from keywright.search.store import Owner

#: The text of each event, with its details in braces, by the noun that it is about.
EVENTS: dict[str, dict[str, str]] = {
    N_("Licenses"): {
        "license.created": N_("License created"),
        "license.imported": N_("License imported"),
        "license.updated": N_("License changed"),
        "license.deleted": N_("License {key} deleted"),
        "license.restored": N_("License {key} brought back"),
        "license.activated": N_("{device} activated"),
        "license.reactivated": N_("{device} activated again"),
        "license.device_replaced": N_("{device} took the place of another device"),
        "license.deactivated": N_("{device} deactivated"),
        "license.key_shown": N_("License key shown"),
        "license.file_made": N_("License file made"),
        "license.noted": N_("Note or tags of the license changed"),
        "license.lease_ended": N_("Lease ended by the vendor"),
        "license.recounted": N_("Activation count of the license repaired"),
        "license.renewed": N_("License renewed"),
        "license.changed": N_("Policy or quantity of the license changed"),
        "license.expiring": N_("License expires soon"),
        "license.expired": N_("License expired"),
        "license.limit_reached": N_("An activation was refused because no device was free"),
        "lease.lost": N_("Lease ended without being released"),
        "usage.period_closed": N_("Period of usage closed: {meter} {used}"),
        "usage.threshold": N_("Usage of {meter} reached {percent} %%"),
    },
    N_("Policies"): {
        "policy.created": N_("Policy {policy} created"),
        "policy.updated": N_("Policy {policy} changed"),
        "policy.deleted": N_("Policy {policy} deleted"),
    },
    N_("API keys"): {
        "api_key.created": N_("API key {api_key} created: {permissions}"),
        "api_key.revoked": N_("API key {api_key} revoked"),
    },
    N_("Products and customers"): {
        "product.created": N_("Product {product} created"),
        "product.updated": N_("Product {product} changed"),
        "product.deleted": N_("Product {product} deleted"),
        "customer.created": N_("Customer {number} created"),
        "customer.updated": N_("Customer {number} changed: {fields}"),
        "customer.deleted": N_("Customer {number} deleted"),
        "name.saved": N_("{kind} {number} named"),
        "customer.erased": N_("Personal data of customer {number} erased"),
        "customer.signed_in": N_("Customer {number} signed in to the portal"),
        "customer.portal_link_made": N_("Portal link for customer {number} made"),
        "customer.erasure_requested": N_("Customer {number} asks to be erased"),
        "customer.erasure_withdrawn": N_("Customer {number} no longer asks to be erased"),
        "brand.saved": N_("Brand changed"),
        "customer.unsubscribed": N_("Customer {number} wants no reminders by mail"),
        "customer.subscribed": N_("Customer {number} wants reminders by mail again"),
        "mail.sent_again": N_("Mail {mail} sent again"),
        "mail.held_decided": N_("Mails held after a restore were decided about ({mails})"),
        "mail_template.saved": N_("Mail template {template} saved ({language})"),
        "mail_template.deleted": N_("Mail template {template} deleted ({language})"),
    },
    N_("Shops"): {
        "connection.added": N_("Connection {number} to a shop added"),
        "connection.updated": N_("Connection {number} to a shop changed"),
        "connection.removed": N_("Connection {number} to a shop removed"),
        "connection.took_over": N_("Connection {number} took over the sales of connection {removed}"),
        "order.unmatched": N_("A sale of connection {number} waits for a decision"),
    },
    N_("Jobs"): {
        "job.started": N_("Job {job_id} started: {job}"),
        "job.done": N_("Job {job_id} done: {job}"),
        "job.failed": N_("Job {job_id} failed: {job}"),
        "job.canceled": N_("Job {job_id} canceled: {job}"),
        "job.stopped": N_("Job {job_id} stopped: {reason}"),
        "job.file_fetched": N_("File of job {job_id} fetched"),
        "job.keys_fetched": N_("New license keys of job {job_id} downloaded"),
    },
    N_("Users"): {
        "user.created": N_("User {user} created: {role}"),
        "user.invited": N_("User {user} invited"),
        "user.changed": N_("User {user} changed"),
        "user.signed_in": N_("User {user} signed in"),
        "user.signed_out": N_("User {user} signed out"),
        "user.sign_in_refused": N_("Sign-in refused: {user}"),
        "user.code_refused": N_("Code of user {user} refused"),
        "user.recovery_code_used": N_("Recovery code of user {user} used"),
        "user.recovery_codes_renewed": N_("Recovery codes of user {user} renewed"),
        "user.second_factor_enabled": N_("Second factor of user {user} turned on"),
        "user.second_factor_disabled": N_("Second factor of user {user} turned off"),
    },
    N_("Webhooks"): {
        "webhook.created": N_("Webhook {endpoint_id} created: {url}"),
        "webhook.updated": N_("Webhook {endpoint_id} changed: {url}"),
        "webhook.deleted": N_("Webhook {endpoint_id} deleted: {url}"),
        "webhook.disabled": N_("Webhook {endpoint_id} disabled: {url}"),
        "webhook.secret_rotated": N_("New secret of webhook {endpoint_id} made"),
        "webhook.resent": N_("Deliveries of webhook {endpoint_id} sent again"),
        "webhook.tested": N_("Webhook {endpoint_id} tested"),
    },
    N_("System"): {
        "backup.made": N_("Backup {file} made"),
        "backup.failed": N_("Backup failed: {reason}"),
        "backup.fetched": N_("Backup {file} fetched"),
        "backup.deleted": N_("Backup {file} deleted"),
        "backup.kept": N_("Backup {file} could not be deleted"),
        "clock.confirmed": N_("Clock said to be right"),
        "system.examined": N_("Database examined: {outcome}"),
        "signing_key.rotated": N_("Signing key {kid} made; it signs from now on"),
        "signing_key.withdrawn": N_("Signing key {kid} withdrawn"),
    },
}

_WORDS = {name: words for texts in EVENTS.values() for name, words in texts.items()}
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
    return None if rights.may(reader.role, Right.ADMINISTER) else _ABOUT_USERS


class _OrEmpty(dict[str, str]):
    """Details that an event has; all others are empty."""

    def __missing__(self, name: str) -> str:
        return ""


class _Details(dict[str, Any]):
    """The details of an event, with defaults for those that are missing."""

    def __missing__(self, name: str) -> str:
        return _(text) if (text := _DEFAULTS.get(name, "?")) else ""
