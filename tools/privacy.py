"""Data for the page about personal data: what is stored, where, whether it is sealed, and for how long.

Columns are checked against the schema; sealed columns and retention periods come from the registry and the
settings. A column that may contain personal data, but is not listed here, is an error.
"""

from typing import NamedTuple

from keywright.config import Settings
from keywright.db.schema import metadata
from keywright.db.sealed_columns import SEALED_COLUMNS


class Kept(NamedTuple):
    """A kind of stored personal data. ``until`` may contain setting names in braces."""

    what: str
    columns: tuple[str, ...]
    until: str


_ERASED = "until the customer is erased"
#: The data about customers and their devices, then about the vendor's users.
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
        "A device: its fingerprint (of a WordPress site, its host and path), and what the program reported",
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
    Kept("The e-mail address that a trial was requested with", ("trials.email",), _ERASED),
    Kept(
        "The device that had a trial, so that it gets no second one",
        ("trials.sealed_fingerprint",),
        "permanently; it is sealed",
    ),
    Kept(
        "What a shop reported about a sale",
        ("shop_events.sealed_payload",),
        "`keep_shop_events_days` ({keep_shop_events_days})",
    ),
    Kept(
        "That a mail was sent, to which customer; never its text, its address, a key or a code",
        ("mail_outbox.language",),
        "`keep_mails_days` ({keep_mails_days}), or " + _ERASED,
    ),
    Kept(
        "Who was notified of a version's defects, at which address, and whether the mail was sent",
        ("notice_recipients.email", "notice_recipients.customer_id"),
        f"`keep_notices_days` ({{keep_notices_days}}); {_ERASED}, except count and time",
    ),
    Kept(
        "The address that a code was mailed to, of a person who claims a license and is not a customer yet",
        ("portal_sign_ins.sealed_email",),
        "24 hours",
    ),
    Kept("The response of a webhook's receiver", ("webhook_deliveries.answer",), "30 days"),
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
#: The names of columns that may contain personal data; ``name`` is not among them, since most are not of
#: people.
_TELLING = frozenset(
    "email ip_address user_agent label meta_data metadata note fingerprint device_name holder answer".split()
)
_NOT_ABOUT_PEOPLE = frozenset({"products.metadata", "releases.metadata", "notices.metadata"})


def find_unlisted() -> set[str]:
    """Find the columns that may contain personal data, but are not on the page."""
    listed = {column for one in KEPT for column in one.columns}
    found = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.c
        if column.name in _TELLING
    }
    return found - listed - _NOT_ABOUT_PEOPLE


def write_rows() -> list[str]:
    """Build the rows of the page's table. Raises ``ValueError`` for a column missing here or in the
    schema.
    """
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
    """List the sealed columns."""
    return sorted(f"`{one.table.name}.{one.column.name}`" for one in SEALED_COLUMNS)
