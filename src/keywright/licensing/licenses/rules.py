"""Rules of a license. Pure: what is known comes in; the new state or a refusal goes out."""

from datetime import UTC, datetime, timedelta

from keywright.core.errors import LicenseDisabled, LicenseExpired, LicenseInactive, LimitReached
from keywright.licensing.licenses.model import License, Status

#: The last moment that the wire format's four-digit year can write.
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def is_expired(license: License, now: datetime) -> bool:
    """A license is good up to, not including, its ``expires_at``."""
    return license.expires_at is not None and now >= license.expires_at


def require_usable(license: License, now: datetime) -> None:
    """Raise ``LicenseExpired``, ``LicenseInactive`` or ``LicenseDisabled``, looked at in this order."""
    if license.expires_at is not None and now >= license.expires_at:
        raise LicenseExpired(license.expires_at)
    if license.status == Status.INACTIVE:
        raise LicenseInactive(license.key)
    if license.status == Status.DISABLED:
        raise LicenseDisabled(license.key)


def require_free_place(license: License) -> None:
    """Raise ``LimitReached`` when every place is taken."""
    limit = license.times_activated_max
    if limit is not None and license.times_activated >= limit:
        raise LimitReached(license.key)


def is_over_limit(license: License) -> bool:
    """Whether more places are taken than the limit allows: it was lowered, or the license was imported so."""
    limit = license.times_activated_max
    return limit is not None and license.times_activated > limit


def remaining_activations(license: License) -> int | None:
    """Free places, or None without a limit; negative after the limit was lowered below what is taken."""
    limit = license.times_activated_max
    return None if limit is None else limit - license.times_activated


def expiry_after(now: datetime, days: int) -> datetime:
    """``now`` plus that many days, or the end of time where that is nearer."""
    return END_OF_TIME if days > (END_OF_TIME - now).days else now + timedelta(days=days)
