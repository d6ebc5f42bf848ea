"""The page about personal data: what is stored, where, whether it is sealed, and for how long.

The columns are those of the schema, the seals those of its registry, the days those of the settings; a column
that could hold something about a person, and is not listed here, fails.
"""

from typing import NamedTuple

from keywright.config import Settings
from keywright.db.schema import metadata
from keywright.db.sealed_columns import SEALED_COLUMNS


class Kept(NamedTuple):
    """Something that is stored about people. ``until`` may name settings in braces."""

    what: str
    columns: tuple[str, ...]
    until: str


_ERASED = "until the customer is erased"
#: What is stored about customers and their devices, then about the vendor's own people.
KEPT = (
    Kept(
        "A customer's e-mail address, name, language, and what the vendor noted",
        (
            "customers.email",
            "customers.name",
            "customers.language",
            "customers.metadata",
            "customers.unsubscribed_at",
            "customers.external_id",
        ),
        f"{_ERASED} or deleted",
    ),
    Kept(
        "What the vendor or its shop noted about a license",
        ("licenses.metadata", "license_notes.note"),
        _ERASED,
    ),
    Kept(
        "A device: its fingerprint (of a WordPress site, its host and path), and what the program said of it",
        ("activations.fingerprint", "activations.label", "activations.meta_data", "new_devices.fingerprint"),
        f"for as long as the license; label and further data {_ERASED}",
    ),
    Kept(
        "The IP address and program of an activation; the address in an event, and the device's name",
        ("activations.ip_address", "activations.user_agent", "events.ip_address", "events.details"),
        "`keep_addresses_days` ({keep_addresses_days}) after a device was given up, or after the event; "
        "`ip_addresses` shortens them or keeps none",
    ),
    Kept(
        "Refused calls of a license, the last 20",
        ("refusals.ip_address", "refusals.fingerprint", "refusals.device_name"),
        "30 days, or " + _ERASED,
    ),
    Kept("Who holds a lease", ("leases.holder",), f"{_ERASED} after the end of the lease"),
    Kept("The e-mail address that a trial was asked for with", ("trials.email",), _ERASED),
    Kept(
        "The device that had a trial, so that none has two",
        ("trials.sealed_fingerprint",),
        "for good; it is sealed",
    ),
    Kept(
        "What a shop reported of a sale",
        ("shop_events.sealed_payload",),
        "`keep_shop_events_days` ({keep_shop_events_days})",
    ),
    Kept(
        "That a mail was sent, to which customer; never its text, its address, a key or a code",
        ("mail_outbox.language",),
        "`keep_mails_days` ({keep_mails_days}), or " + _ERASED,
    ),
    Kept(
        "Who was notified of a version's defects, at which address, and what became of the mail",
        ("notice_recipients.email", "notice_recipients.customer_id"),
        f"`keep_notices_days` ({{keep_notices_days}}); {_ERASED}, after whom count and time are left",
    ),
    Kept(
        "The address that a code was mailed to, of a person who claims a license and is no customer yet",
        ("portal_sign_ins.sealed_email",),
        "24 hours",
    ),
    Kept("What a webhook's receiver answered", ("webhook_deliveries.answer",), "30 days"),
    Kept(
        "Deleted licenses, to restore them",
        ("deleted_licenses.sealed_snapshot",),
        "`keep_deleted_days` ({keep_deleted_days}), or " + _ERASED,
    ),
    Kept(
        "Files of exports and imports; of license files for all",
        ("job_file_chunks.sealed_content",),
        "24 hours after the job; 14 days",
    ),
    Kept(
        "Users of the pages: name, e-mail address, language, account of the company; their second factor",
        (
            "users.name",
            "users.email",
            "users.language",
            "users.issuer",
            "users.subject",
            "second_factors.sealed_secret",
        ),
        "until you disable them, and as long as their events are kept",
    ),
    Kept(
        "Sessions of users: IP address and browser",
        ("sessions.ip_address", "sessions.user_agent"),
        "`session_hours` ({session_hours}) hours at most",
    ),
)
#: Names of columns that may hold something about a person; ``name`` is one in the tables of people only.
_TELLING = frozenset(
    "email ip_address user_agent label meta_data metadata note fingerprint device_name holder answer".split()
)
_NOT_ABOUT_PEOPLE = frozenset({"products.metadata", "releases.metadata", "notices.metadata"})


def find_unlisted() -> set[str]:
    """The columns that may hold something about a person, and are not on the page."""
    listed = {column for one in KEPT for column in one.columns}
    found = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.c
        if column.name in _TELLING
    }
    return found - listed - _NOT_ABOUT_PEOPLE


def write_rows() -> list[str]:
    """The rows of the page's table. Raises ``ValueError`` for a column that is missing here or there."""
    known = {f"{table.name}.{column.name}" for table in metadata.sorted_tables for column in table.c}
    missing = {column for one in KEPT for column in one.columns} - known
    if missing or (unlisted := find_unlisted()):
        raise ValueError(f"not in the schema: {missing}; not in tools/privacy.py: {missing or unlisted}")
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    sealed = {f"{one.table.name}.{one.column.name}" for one in SEALED_COLUMNS}
    rows = []
    for one in KEPT:
        places = ", ".join(f"`{name}`{' (sealed)' if name in sealed else ''}" for name in one.columns)
        rows.append(f"| {one.what} | {places} | {one.until.format(**defaults)} |")
    return rows


def write_seals() -> list[str]:
    """The sealed columns."""
    return sorted(f"`{one.table.name}.{one.column.name}`" for one in SEALED_COLUMNS)
