"""Validation: all that is known, and what is found."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from keywright.licensing.activations.model import Activation
from keywright.licensing.leases.model import Lease
from keywright.licensing.licenses.model import License
from keywright.licensing.views.model import LicenseView


class Code(StrEnum):
    """The findings, in rank order: those up to ``entitlement_missing`` block."""

    UNKNOWN_LICENSE = "unknown_license"
    PRODUCT_MISMATCH = "product_mismatch"
    DISABLED = "disabled"
    INACTIVE = "inactive"
    KEY_ROTATED = "key_rotated"
    EXPIRED = "expired"
    VERSION_NOT_COVERED = "version_not_covered"
    NOT_ACTIVATED = "not_activated"
    FINGERPRINT_REQUIRED = "fingerprint_required"
    LEASE_LOST = "lease_lost"
    LEASE_REQUIRED = "lease_required"
    ENTITLEMENT_MISSING = "entitlement_missing"
    OVER_LIMIT = "over_limit"
    USAGE_EXCEEDED = "usage_exceeded"
    GRACE = "grace"
    EXPIRED_ALLOWED = "expired_allowed"
    VERSION_COVERED = "version_covered"
    VALID = "valid"


_NOT_BLOCKING = frozenset(list(Code)[list(Code).index(Code.OVER_LIMIT) :])
#: A leaked or foreign key tells nothing of the license.
_HIDING = frozenset({Code.UNKNOWN_LICENSE, Code.PRODUCT_MISMATCH, Code.KEY_ROTATED})


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a validation is about. ``license`` is None for an unknown key.

    ``product_id`` is the product that the program named (``NO_PRODUCT`` for an unknown one), None without;
    ``activation`` is the record of the device that it named. ``lease`` is the one that it named, or else the
    device's latest; None where that was released, or none was taken. With ``needs_lease``, a floating license
    is for callers who hold one. ``entitlements`` are asked for; ``usage`` is by meter.
    """

    license: License | None
    now: datetime
    is_key_rotated: bool = False
    product_id: int | None = None
    is_device_named: bool = False
    activation: Activation | None = None
    lease: Lease | None = None
    needs_lease: bool = False
    entitlements: tuple[str, ...] = ()
    usage: Mapping[str, int] = {}
    built_at: datetime | None = None


class Findings(msgspec.Struct, frozen=True, gc=False):
    """Everything found, in rank order, never nothing; ``detail`` is a sentence about the first."""

    codes: tuple[Code, ...]
    detail: str

    @property
    def code(self) -> Code:
        """The first finding."""
        return self.codes[0]

    @property
    def is_valid(self) -> bool:
        """Whether nothing blocks. The first finding says: those that block come first."""
        return self.codes[0] in _NOT_BLOCKING

    @property
    def shows_license(self) -> bool:
        """Whether an answer may show the license and the activation."""
        return _HIDING.isdisjoint(self.codes)


class Validated(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a validation; ``view`` and ``activation`` are None where an answer may not show them.
    ``lease`` is the one that was named, or the device's latest, if it is held.
    """

    findings: Findings
    view: LicenseView | None
    activation: Activation | None
    next_check_at: datetime | None
    lease: Lease | None = None
