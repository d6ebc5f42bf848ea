"""Convert rows of the plugin's other tables to import records."""

import re
from collections.abc import Mapping
from datetime import datetime

from keywright.core import parsing
from keywright.core.crypto import hash_consumer_secret
from keywright.identity.model import Permissions
from keywright.provisioning.importers.lmfwc import MAX_KEPT_ID, Fields, Report, Sealing, Spooled, Values
from keywright.provisioning.importers.model import ImportedApiKey, ImportedGenerator

_HASH = re.compile(r"[0-9a-f]{64}")
_MAX_TEXT = 255


def read_generator(row: Spooled, report: Report, now: datetime) -> ImportedGenerator | None:
    """Convert a row to a generator; None if it cannot make keys."""
    fields = Fields(row.values, f"{row.place}generator {row.values.get('id')}", report)
    created_at, updated_at = fields.moment("created_at"), fields.moment("updated_at")
    created_at = created_at or updated_at or now
    chunks, length = (fields.integer(name, _MAX_TEXT) for name in ("chunks", "chunk_length"))
    if not chunks or not length or not fields.text("charset"):
        fields.report("generator_unusable")
        return None
    return ImportedGenerator(
        id=fields.integer("id", MAX_KEPT_ID),
        name=fields.cut("name", _MAX_TEXT) or "imported",
        charset=fields.cut("charset", _MAX_TEXT),
        chunks=chunks,
        chunk_length=length,
        times_activated_max=fields.integer("times_activated_max", parsing.MAX_COUNT) or None,
        separator=fields.cut("separator", _MAX_TEXT) or None,
        prefix=fields.cut("prefix", _MAX_TEXT) or None,
        suffix=fields.cut("suffix", _MAX_TEXT) or None,
        expires_in_days=fields.integer("expires_in", parsing.MAX_COUNT) or None,
        created_at=created_at,
        created_by=fields.integer("created_by"),
        updated_at=updated_at or created_at,
        updated_by=fields.integer("updated_by"),
        place=fields.place,
    )


def read_api_key(row: Spooled, report: Report) -> ImportedApiKey | None:
    """Convert a row to an API key; None if no program can have used it. The plugin hashes consumer keys as
    Keywright does (see ``crypto.hash_consumer_key``), and stores consumer secrets in plain text.
    """
    fields = Fields(row.values, f"{row.place}API key {row.values.get('id')}", report)
    hashed, secret = fields.text("consumer_key"), fields.text("consumer_secret")
    permissions = fields.text("permissions")
    is_known = permissions in ("read", "write", "read_write")
    if not _HASH.fullmatch(hashed) or not secret or not is_known:
        fields.report("api_key_unusable")
        return None
    name = "".join(filter(str.isprintable, fields.text("description"))).strip()
    return ImportedApiKey(
        name=name[: parsing.MAX_NAME_LENGTH] or f"imported {fields.text('id')}",
        permissions=Permissions(permissions),
        consumer_key_hash=hashed,
        secret_hash=hash_consumer_secret(secret),
        key_suffix=fields.text("truncated_key")[-7:],
        place=fields.place,
    )


def find_local_midnight(ends: Mapping[str, int]) -> tuple[str, int] | None:
    """The time of day at which most licenses expire, and their number, if it looks like midnight in another
    time zone: at least ten licenses, and at least half of all, expire then.
    """
    if not ends:
        return None
    time, amount = max(ends.items(), key=lambda item: item[1])
    is_midnight = time in ("00:00:00", "23:59:59", "12:00:00")
    is_odd = not is_midnight and time[3:] in ("00:00", "59:59", "30:00", "29:59", "45:00")
    return (time, amount) if is_odd and amount >= 10 and 2 * amount > sum(ends.values()) else None


def try_secrets(secrets: Sealing, values: Values) -> tuple[bool, bool]:
    """Whether the license key of a row can be unsealed, and whether its hash matches."""
    try:
        plain = secrets.unseal(values.get("license_key") or "")
    except ValueError:
        return False, False
    return True, secrets.hash(plain) == (values.get("hash") or "").lower()
