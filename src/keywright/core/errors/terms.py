"""Refusals because of a license's terms, about devices, leases and usage; and invalid terms."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from keywright.core.errors.licensing import LicenseExpired
from keywright.core.errors.root import FieldError, Refusal
from keywright.core.parsing import format_count, write_time


class InvalidTerms(Refusal):
    """Terms are unknown or have invalid values; nothing was changed.

    ``errors`` lists all of them.
    """

    code = "terms.invalid"
    status = 422
    problem = "invalid"
    problem_detail = "Invalid terms: {errors_in_words}."
    sentence = "Please correct these: {errors_in_words}."
    hint = "{errors_in_words}."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = (
        (FieldError("/terms/grace_days", "too_large", "must be an integer from 0 to 36,500"),),
    )

    errors: tuple[FieldError, ...]

    def facts(self) -> dict[str, Any]:
        """Add ``errors_in_words``, all errors as one text."""
        words = "; ".join(f"{one.pointer.removeprefix('/terms/')} {one.detail}" for one in self.errors)
        return super().facts() | {"errors_in_words": words}


class VersionNotCovered(LicenseExpired):
    """The license has expired and covers only builds made before that; this one is newer, or undated."""

    code = "license.version_not_covered"
    problem = "expired"
    problem_detail = (
        "The license expired on {expires_at} (UTC), and this build is newer or has no build date."
    )
    sentence = "The license expired on {expires_at} (UTC) and covers only builds made before that."
    v2 = None


class ProductMismatch(Refusal):
    """The program named its product, but the license is for another one, or for none."""

    code = "license.product_mismatch"
    problem = "product_mismatch"
    sentence = "The license is for another product."
    v2 = None


class OtherProductKey(Refusal):
    """The API key is for another product than the license.

    This is not a verdict on the license: no signed answer depends on an API key.
    """

    code = "license.other_product_key"
    problem = "not_permitted"
    problem_detail = "The API key is for another product than the license."
    status = 403
    sentence = "The API key is for another product than the license."
    v2 = None


class KeyRotated(Refusal):
    """The license key was replaced by a new one."""

    code = "license.key_rotated"
    problem = "key_rotated"
    sentence = "The license has a new key."
    v2 = None


class FingerprintRequired(Refusal):
    """The license's terms require a device, but the call names none."""

    code = "activation.fingerprint_required"
    problem = "fingerprint_required"
    sentence = "The license requires a fingerprint of the device."
    v2 = None


class UnknownDevice(Refusal):
    """The device has never had a place on the license."""

    code = "activation.unknown_device"
    status = 404
    problem = "unknown_device"
    sentence = "The license has no activation of this device."
    v2 = None


class NotActivated(Refusal):
    """The device holds no place on the license."""

    code = "activation.not_activated"
    problem = "not_activated"
    sentence = "The device holds no place on the license. Activate it first."
    v2 = None


class RefusalForNow(Refusal):
    """A temporary refusal; the member ``retry_after_seconds`` states when it ends at the latest."""

    def problem_members(self) -> dict[str, Any]:
        """The time to retry."""
        return {"retry_after_seconds": vars(self).get("retry_after_seconds", 1)}


class TooManyNewDevices(RefusalForNow):
    """The terms allow no more devices now that are new to the license.

    The limit is ``count`` in ``per_days``; another device is allowed after ``retry_after_seconds``.
    """

    code = "activation.too_many_new_devices"
    problem = "too_many_new_devices"
    sentence = (
        "No new device can be activated now: the limit is {count:,} in {days}. Try again later, "
        "or use a device that was activated before."
    )
    problem_detail = "No new device can be activated now: the limit is {count:,} in {days}."
    v2 = None
    example = (3, 30, 3600)

    count: int
    per_days: int
    retry_after_seconds: int

    def facts(self) -> dict[str, Any]:
        """Add ``days``, a number with its unit."""
        return super().facts() | {"days": format_count(self.per_days, "day")}


class LeasesNotOffered(Refusal):
    """The license is not a floating license."""

    code = "lease.not_offered"
    problem = "leases_not_offered"
    sentence = "The license offers no leases."
    v2 = None


class NoFreeLease(RefusalForNow):
    """All ``limit`` leases are held; the next one ends within ``retry_after_seconds``."""

    code = "lease.none_free"
    problem = "no_free_lease"
    sentence = "All {leases} of the license are held. Try again later."
    problem_detail = "All {leases} of the license are held; the next one ends within {seconds}."
    v2 = None
    example = (5, 600)

    limit: int
    retry_after_seconds: int

    def facts(self) -> dict[str, Any]:
        """Add ``leases`` and ``seconds``, numbers with their units."""
        nouns = {
            "leases": format_count(self.limit, "lease"),
            "seconds": format_count(self.retry_after_seconds, "second"),
        }
        return super().facts() | nouns


class LeaseEndedByCustomer(RefusalForNow):
    """The customer ended the lease of this holder, who gets no lease for some time."""

    code = "lease.ended_by_customer"
    problem = "no_free_lease"
    sentence = "The customer ended this holder's lease. Try again later."
    problem_detail = "The customer ended this holder's lease. The holder can take another one in {seconds}."
    v2 = None
    example = (600,)

    retry_after_seconds: int

    def facts(self) -> dict[str, Any]:
        """Add ``seconds``, a number with its unit."""
        return super().facts() | {"seconds": format_count(self.retry_after_seconds, "second")}


class UnknownLease(Refusal):
    """The license has no lease with this ID: it was released, or it ended long ago."""

    code = "lease.unknown"
    status = 404
    problem = "not_found"
    problem_detail = "The license has no such lease."
    sentence = "The license has no such lease."
    v2 = None


class UsageExceeded(Refusal):
    """The amount would exceed the meter's ``limit``; ``used`` is the usage so far. Nothing was counted.

    The meter is reset at ``resets_at``; None is never.
    """

    code = "usage.exceeded"
    problem = "usage_exceeded"
    sentence = (
        "The meter {meter} would exceed its limit: {used:,} of {limit:,} are used. Nothing was counted."
    )
    problem_detail = sentence
    v2 = None
    example = ("exports", 100, 99, datetime(2026, 12, 1, tzinfo=UTC))

    meter: str
    limit: int
    used: int
    resets_at: datetime | None

    def problem_members(self) -> dict[str, Any]:
        """The numbers."""
        resets_at = None if self.resets_at is None else write_time(self.resets_at).replace(" ", "T") + "Z"
        return {"meter": self.meter, "limit": self.limit, "used": self.used, "resets_at": resets_at}


class NoRemovalLeft(Refusal):
    """The customer has removed as many devices as the license's terms allow, or may not remove any.

    The limit is ``count`` in ``per_days``; another device may be removed after ``retry_after_seconds``. None
    is never: only the vendor can remove devices.
    """

    code = "activation.no_removal_left"
    problem = "no_removal_left"
    sentence = "No more devices can be removed now: customers may remove {devices} of this license in {days}."
    problem_detail = sentence
    v2 = None
    example = (3, 30, 3600)

    count: int
    per_days: int
    retry_after_seconds: int | None

    def facts(self) -> dict[str, Any]:
        """Add ``devices`` and ``days``, numbers with their units."""
        nouns = {"devices": format_count(self.count, "device"), "days": format_count(self.per_days, "day")}
        return super().facts() | nouns

    def problem_members(self) -> dict[str, Any]:
        """The time to retry, if there is one."""
        seconds = self.retry_after_seconds
        return {} if seconds is None else {"retry_after_seconds": seconds}
