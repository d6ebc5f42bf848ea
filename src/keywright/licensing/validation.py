"""Validation: the facts about a license key and a device, and the findings in rank order. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from zlib import crc32

import msgspec

from keywright.core.command import Query
from keywright.core.parsing import format_count, write_time
from keywright.licensing.activations.model import Activation, LicenseView
from keywright.licensing.leases.model import Lease
from keywright.licensing.leases.rules import is_over
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.terms.model import AfterExpiry, DeviceRule, Terms
from keywright.licensing.updates.notices import AnsweredNotice
from keywright.licensing.usage.rules import is_exceeded


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
#: Answers with these findings reveal nothing about the license.
_HIDING = frozenset({Code.UNKNOWN_LICENSE, Code.PRODUCT_MISMATCH, Code.KEY_ROTATED})


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All inputs of a validation. ``license`` is None for an unknown key.

    ``product_id`` is the product that the program named (``NO_PRODUCT`` for an unknown one), None if it named
    none; ``activation`` is the record of the device that it named. ``lease`` is the named one, or else the
    device's latest; None if that was released, or none was taken. With ``needs_lease``, a floating license
    requires a lease. ``entitlements`` are those requested; ``usage`` is by meter.
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
    """All findings, in rank order, at least one; ``detail`` is a sentence about the first."""

    codes: tuple[Code, ...]
    detail: str

    @property
    def code(self) -> Code:
        """The first finding."""
        return self.codes[0]

    @property
    def is_valid(self) -> bool:
        """Whether nothing blocks. The first finding decides, as blocking ones come first."""
        return self.codes[0] in _NOT_BLOCKING

    @property
    def shows_license(self) -> bool:
        """Whether an answer may show the license and the activation."""
        return _HIDING.isdisjoint(self.codes)


class Validated(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a validation; ``view`` and ``activation`` are None if an answer may not show them.
    ``lease`` is the named one, or the device's latest, if it is held; ``built_at`` is when the build was made
    according to the program, or when its release was published; ``notices`` are about its version.
    """

    findings: Findings
    view: LicenseView | None
    activation: Activation | None
    next_check_at: datetime | None
    lease: Lease | None = None
    built_at: datetime | None = None
    notices: tuple[AnsweredNotice, ...] = ()


class ValidateLicense(Query, frozen=True, kw_only=True):
    """Check whether a license is valid for a device, a product (ID or code), a build and these entitlements.

    ``lease_id`` names the lease of a floating license.
    """

    key: str
    now: datetime
    fingerprint: str | None = None
    token: str | None = None
    product: int | str | None = None
    built_at: datetime | None = None
    app_version: str | None = None
    lease_id: str | None = None
    entitlements: tuple[str, ...] = ()
    only_product_id: int | None = None

    @property
    def is_device_named(self) -> bool:
        """Whether it names a device."""
        return self.fingerprint is not None or self.token is not None


def validate(facts: Facts) -> Findings:
    """Return all findings; an unknown, foreign or rotated key gets no others."""
    license = facts.license
    if license is None:
        return Findings((Code.UNKNOWN_LICENSE,), "No license has this key.")
    if license_rules.is_other_product(license, facts.product_id):
        return Findings((Code.PRODUCT_MISMATCH,), "The license is for another product.")
    if facts.is_key_rotated:
        detail = "The license has a new key; this one is no longer accepted."
        return Findings((Code.KEY_ROTATED,), detail)
    found = list(_find(facts, license))
    if not found:
        return Findings((Code.VALID,), _describe_valid(license))
    return Findings(tuple(code for code, _ in found), found[0][1])


def next_check_at(facts: Facts) -> datetime | None:
    """Return the moment to ask again: after the terms' seconds, plus or minus 10 %, so that programs do not
    all call at once. None for an unknown license.
    """
    license = facts.license
    if license is None:
        return None
    seconds = license_rules.terms_of(license).next_check_seconds
    spread = seconds // 10
    place = facts.activation.id if facts.activation else 0
    chance = crc32(b"%d %d %d" % (license.id, place, facts.now.timestamp()))
    return facts.now + timedelta(seconds=seconds - spread + chance % (2 * spread + 1))


def _find(facts: Facts, license: License) -> Iterator[tuple[Code, str]]:
    """Yield the findings by rank; each function below yields those of one kind."""
    terms = license_rules.terms_of(license)
    if license.status == Status.DISABLED:
        yield Code.DISABLED, "The license is disabled."
    elif license.status == Status.INACTIVE:
        yield Code.INACTIVE, "The license is inactive."
    expiry = _find_expiry(facts, license, terms)
    is_expired = bool(expiry) and expiry[0][0] is Code.EXPIRED
    yield from expiry if is_expired else ()
    yield from _find_device(facts, license, terms)
    if terms.max_leases is not None:
        yield from _find_lease(facts, facts.lease)
    if missing := [one for one in facts.entitlements if one not in terms.entitlements]:
        yield Code.ENTITLEMENT_MISSING, f"The license does not include {', '.join(missing)}."
    yield from _find_figures(facts, license, terms)
    yield from () if is_expired else expiry


def _find_expiry(facts: Facts, license: License, terms: Terms) -> list[tuple[Code, str]]:
    """Return the finding about what the terms allow after the expiry."""
    expires_at = license.expires_at
    if expires_at is None or facts.now < expires_at:
        return []
    past = f"The license expired on {_write(expires_at)}"
    if terms.after_expiry is AfterExpiry.ALLOW:
        return [(Code.EXPIRED_ALLOWED, f"{past} and stays valid.")]
    if terms.after_expiry is AfterExpiry.OLDER_VERSIONS:
        if license_rules.is_covered(license, facts.built_at):
            return [(Code.VERSION_COVERED, f"{past}; this build was made before that.")]
        build = "has no build date" if facts.built_at is None else "is newer"
        detail = f"{past}: it covers builds made before that, and this one {build}."
        return [(Code.EXPIRED, detail), (Code.VERSION_NOT_COVERED, detail)]
    until = license_rules.expiry_after(expires_at, terms.grace_days)
    if facts.now < until:
        return [(Code.GRACE, f"{past} and can be used until {_write(until)}.")]
    grace = f", and its {format_count(terms.grace_days, 'day')} of grace are over" if terms.grace_days else ""
    return [(Code.EXPIRED, f"{past}{grace}.")]


def _find_device(facts: Facts, license: License, terms: Terms) -> Iterator[tuple[Code, str]]:
    if facts.is_device_named:
        if facts.activation is None or facts.activation.deactivated_at is not None:
            yield Code.NOT_ACTIVATED, f"The device holds no place; {_describe_places(license)}."
    elif terms.device is DeviceRule.REQUIRED:
        yield Code.FINGERPRINT_REQUIRED, "The license requires a fingerprint of the device."


def _find_lease(facts: Facts, lease: Lease | None) -> Iterator[tuple[Code, str]]:
    if lease is None and facts.needs_lease:
        yield Code.LEASE_REQUIRED, "The license requires a lease, and this caller holds none."
    elif lease is not None and is_over(lease, facts.now):
        yield Code.LEASE_LOST, f"The lease ended on {_write(lease.expires_at)}."


def _find_figures(facts: Facts, license: License, terms: Terms) -> Iterator[tuple[Code, str]]:
    if license_rules.is_over_limit(license):
        yield Code.OVER_LIMIT, f"More places are taken than the license has: {_describe_places(license)}."
    for name, meter in terms.meters.items():
        used = facts.usage.get(name, 0)
        if is_exceeded(meter, used):
            yield (
                Code.USAGE_EXCEEDED,
                f"The meter {name} is at its limit: {used:,} of {meter.limit:,} are used.",
            )
            return


def _describe_places(license: License) -> str:
    limit, taken = license.times_activated_max, license.times_activated
    of_limit = "" if limit is None else f" of {limit:,}"
    return f"{taken:,}{of_limit} {'is' if taken == 1 else 'are'} taken"


def _describe_valid(license: License) -> str:
    expires_at = license.expires_at
    return (
        "The license is valid." if expires_at is None else f"The license is valid until {_write(expires_at)}."
    )


def _write(moment: datetime) -> str:
    return f"{write_time(moment)} (UTC)"
