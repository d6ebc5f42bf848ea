"""The gate: decide who may have which release, and explain why not. Pure.

Every rule passes or fails; the first that fails gives the code of a release. Product, license and device are
checked first, then the requirements of the release.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.terms.model import AfterExpiry, DeviceRule, Terms
from keywright.licensing.updates import model
from keywright.licensing.updates.files import choose_file, fits
from keywright.licensing.updates.versions import VersionKey, VersionScheme, find_key, version_key


class UpdateCode(StrEnum):
    """Why a release is offered, or is not."""

    UPDATE_AVAILABLE = "update_available"
    UP_TO_DATE = "up_to_date"
    NOT_OFFERED = "not_offered"
    UNKNOWN_LICENSE = "unknown_license"
    PRODUCT_MISMATCH = "product_mismatch"
    DISABLED = "disabled"
    INACTIVE = "inactive"
    KEY_ROTATED = "key_rotated"
    NOT_ACTIVATED = "not_activated"
    FINGERPRINT_REQUIRED = "fingerprint_required"
    NOT_PUBLISHED = "not_published"
    CHANNEL_NOT_ALLOWED = "channel_not_allowed"
    ENTITLEMENT_MISSING = "entitlement_missing"
    NEWER_NOT_COVERED = "newer_not_covered"
    EXPIRED = "expired"
    NO_FILE_FOR_PLATFORM = "no_file_for_platform"
    REQUIREMENTS_NOT_MET = "requirements_not_met"
    MUST_UPDATE_FIRST = "must_update_first"
    HELD_BACK_BY_ROLLOUT = "held_back_by_rollout"


class Asked(Struct, frozen=True, kw_only=True, gc=False):
    """What a program reports about itself; missing values pass. With ``needs_signature``, it installs nothing
    without a signature by the vendor.
    """

    app_version: str | None = None
    platform: str | None = None
    arch: str | None = None
    channel: str = model.STABLE
    os_version: str | None = None
    php_version: str | None = None
    wp_version: str | None = None
    by_hand: bool = False
    needs_signature: bool = False


class Subject(Struct, frozen=True, gc=False):
    """The subject of a check: a license and one of its devices. With ``needs_place``, the device must hold a
    place whatever the terms are.
    """

    license: License | None = None
    activation: Activation | None = None
    is_key_rotated: bool = False
    needs_place: bool = False


class UpdateFacts(Struct, frozen=True, kw_only=True, gc=False):
    """All inputs of the gate. ``license`` is None if none was named; ``activation`` is the record of the
    device, if one was named. With ``needs_place``, the device must hold a place whatever the terms are.
    ``channels`` are those of the product besides ``stable``, from the most to the least stable.
    """

    now: datetime
    updates: model.Updates = model.Updates.LICENSED
    channels: tuple[str, ...] = ()
    scheme: VersionScheme = VersionScheme.LOOSE
    releases: model.ProductReleases = model.ProductReleases()
    license: License | None = None
    is_key_unknown: bool = False
    is_other_product: bool = False
    is_key_rotated: bool = False
    is_device_named: bool = False
    activation: Activation | None = None
    needs_place: bool = False
    asked: Asked = Asked()

    @property
    def terms(self) -> Terms:
        """The license's terms; the default ones without a license."""
        return Terms() if self.license is None else license_rules.terms_of(self.license)


class Verdict(NamedTuple):
    """The result of one rule for a release: its code, whether it passes, and the reason."""

    code: UpdateCode
    passed: bool
    detail: str


class Decision(Struct, frozen=True, gc=False):
    """The answer to a check: all findings, the newest covered release, and the newest one that is not
    covered. ``is_refused`` means that the product, the license or the device is refused, whatever is
    published.
    """

    codes: tuple[UpdateCode, ...]
    offered: model.Known | None = None
    file: model.ReleaseFile | None = None
    not_covered: model.Known | None = None
    is_refused: bool = False

    @property
    def code(self) -> UpdateCode:
        """The first finding."""
        return self.codes[0]


def decide(facts: UpdateFacts) -> Decision:
    """Decide what to offer to a program. Its current version may be unknown, yanked or newer than all."""
    refused = find_refusal_of_caller(facts)
    if refused is not None:
        return Decision((refused,), is_refused=True)
    newer = _newer(facts)
    if not newer:
        return Decision((UpdateCode.UP_TO_DATE,))
    offered, not_covered = None, None
    for one in newer:
        refusal = _find_refusal(facts, one)
        if refusal is None:
            offered = one
            break
        if not_covered is None and refusal is UpdateCode.NEWER_NOT_COVERED:
            not_covered = one
    codes = () if offered is newer[0] else _list_refusals(facts, newer[0])
    if offered is None:
        return Decision(codes, not_covered=not_covered)
    file = choose_file(_list_fitting(facts, offered), facts.asked.platform, facts.asked.arch)
    return Decision((UpdateCode.UPDATE_AVAILABLE, *codes), offered, file, not_covered)


#: The most releases that a site sees.
_MAX_SHOWN = 10
#: Callers with these codes see no release.
_HIDING = (UpdateCode.NOT_OFFERED, UpdateCode.PRODUCT_MISMATCH, UpdateCode.KEY_ROTATED)


def list_shown(facts: UpdateFacts, decision: Decision) -> tuple[model.Known, ...]:
    """Return the release that a site shows as the newest, and earlier ones, newest first: what it is offered,
    or what a license in force would get. Empty for an unknown key, and if the site should stay at its
    version, as its requirements are not met.
    """
    newest, is_hidden = decision.offered or decision.not_covered, decision.code in _HIDING
    if facts.is_key_unknown or is_hidden:
        return ()
    if newest is None and not decision.is_refused and decision.code is not UpdateCode.UP_TO_DATE:
        return ()
    channels = [one for one in list_channels(facts, facts.asked.channel) if _has_channel(facts, one)]
    found = [
        one
        for one in facts.releases.releases
        if one.release.state is model.ReleaseState.PUBLISHED
        and one.release.channel in channels
        and (newest is None or one.rank <= newest.rank)
    ]
    return tuple(found[:_MAX_SHOWN])


def find_refusal_of_caller(facts: UpdateFacts) -> UpdateCode | None:
    """Return the code of the first rule about product, license or device that fails."""
    return next((one.code for one in _of_caller(facts) if not one.passed), None)


def _list_refusals(facts: UpdateFacts, newest: model.Known) -> tuple[UpdateCode, ...]:
    """Return why the newest release is not offered."""
    codes = [one.code for one in _of_release(facts, newest) if not one.passed]
    if UpdateCode.NEWER_NOT_COVERED in codes and facts.terms.after_expiry is AfterExpiry.REFUSE:
        codes.append(UpdateCode.EXPIRED)
    return tuple(codes)


def explain(facts: UpdateFacts, known: model.Known) -> list[Verdict]:
    """Return the results of all rules about a release, in order; rules that do not apply pass."""
    return [*_of_caller(facts), *_of_release(facts, known)]


def may_download(facts: UpdateFacts, known: model.Known) -> UpdateCode | None:
    """Return why a download is refused, or None; the rollout, the required earlier version and the platform
    are not checked again. Without a device, it is a download by a customer, whose device may be new.
    """
    later = (
        UpdateCode.FINGERPRINT_REQUIRED,
        UpdateCode.HELD_BACK_BY_ROLLOUT,
        UpdateCode.MUST_UPDATE_FIRST,
        UpdateCode.NO_FILE_FOR_PLATFORM,
    )
    found = (one.code for one in explain(facts, known) if not one.passed and one.code not in later)
    return next(found, None)


def _list_fitting(facts: UpdateFacts, known: model.Known) -> list[model.ReleaseFile]:
    asked = facts.asked
    return [
        one
        for one in known.files
        if fits(one, asked.platform, asked.arch) and (one.signature is not None or not asked.needs_signature)
    ]


def list_channels(facts: UpdateFacts, channel: str) -> tuple[str, ...]:
    """The channel and all more stable ones; only ``stable`` if the product does not have the channel."""
    every = (model.STABLE, *facts.channels)
    return every[: every.index(channel) + 1] if channel in every else (model.STABLE,)


def _newer(facts: UpdateFacts) -> list[model.Known]:
    """Return the published releases above the current version in the requested channels, newest first."""
    channels = list_channels(facts, facts.asked.channel)
    current = facts.releases.find(facts.asked.app_version)
    key = None if current is not None else find_key(facts.scheme, facts.asked.app_version)
    return [
        one
        for one in facts.releases.releases
        if one.release.state is model.ReleaseState.PUBLISHED
        and one.release.channel in channels
        and _is_above(one, current, key)
    ]


def _is_above(one: model.Known, current: model.Known | None, key: VersionKey | None) -> bool:
    if current is not None:
        return one.rank > current.rank
    return key is None or one.key > key


def _find_refusal(facts: UpdateFacts, known: model.Known) -> UpdateCode | None:
    return next((one.code for one in _of_release(facts, known) if not one.passed), None)


def _of_caller(facts: UpdateFacts) -> Iterator[Verdict]:
    """Apply the rules about the product, the license and the device."""
    code, license, is_licensed = UpdateCode, facts.license, facts.updates is model.Updates.LICENSED
    yield Verdict(code.NOT_OFFERED, facts.updates is not model.Updates.CLOSED, "The product offers updates.")
    is_known = license is not None or (facts.updates is model.Updates.OPEN and not facts.is_key_unknown)
    yield Verdict(code.UNKNOWN_LICENSE, is_known, "The license exists.")
    yield Verdict(code.PRODUCT_MISMATCH, not facts.is_other_product, "The license is for this product.")
    status = None if license is None or not is_licensed else license.status
    yield Verdict(code.DISABLED, status != Status.DISABLED, "The license is not disabled.")
    yield Verdict(code.INACTIVE, status != Status.INACTIVE, "The license is not inactive.")
    yield Verdict(code.KEY_ROTATED, not facts.is_key_rotated, "The key was not replaced.")
    needs_place = is_licensed and (facts.terms.device is DeviceRule.REQUIRED or facts.needs_place)
    has_place = facts.activation is not None and facts.activation.deactivated_at is None
    is_named = facts.is_device_named or facts.needs_place
    yield Verdict(code.FINGERPRINT_REQUIRED, not needs_place or is_named, "A device is named.")
    holds = not needs_place or not is_named or has_place
    yield Verdict(code.NOT_ACTIVATED, holds, "The device holds its place.")


def _of_release(facts: UpdateFacts, known: model.Known) -> Iterator[Verdict]:
    """Apply the rules about a release."""
    code, release = UpdateCode, known.release
    is_published = release.state is model.ReleaseState.PUBLISHED
    yield Verdict(code.NOT_PUBLISHED, is_published, "The release is published.")
    allowed = _has_channel(facts, release.channel)
    yield Verdict(code.CHANNEL_NOT_ALLOWED, allowed, f"The license has the channel {release.channel}.")
    held = facts.terms.entitlements
    missing = [one for one in release.entitlements if one not in held] if release.entitlements else []
    detail = ", ".join(missing) if missing else "The license has the features that the release requires."
    yield Verdict(code.ENTITLEMENT_MISSING, not missing, detail)
    yield Verdict(code.NEWER_NOT_COVERED, _is_covered(facts, release), "The license covers the release.")
    has_file = bool(_list_fitting(facts, known))
    yield Verdict(code.NO_FILE_FOR_PLATFORM, has_file, "The release has a file for the platform.")
    unmet = " ".join(_find_unmet(facts, release)) if release.requires else ""
    yield Verdict(code.REQUIREMENTS_NOT_MET, not unmet, unmet or "The platform is new enough.")
    can_follow = _can_follow(facts, release)
    step = release.min_from_version
    detail = (
        "Any version can be updated to it." if step is None else f"The program has version {step} or newer."
    )
    yield Verdict(code.MUST_UPDATE_FIRST, can_follow, detail)
    detail = f"The rollout of {release.rollout.percent} % has reached the device."
    yield Verdict(code.HELD_BACK_BY_ROLLOUT, _is_reached(facts, release), detail)


def _has_channel(facts: UpdateFacts, channel: str) -> bool:
    """Whether the license has a channel, which includes more stable ones; open updates have all."""
    if channel == model.STABLE or facts.updates is model.Updates.OPEN:
        return True
    return any(channel in list_channels(facts, one) for one in facts.terms.channels)


def _is_covered(facts: UpdateFacts, release: model.Release) -> bool:
    license = facts.license
    if facts.updates is model.Updates.OPEN or license is None or license.expires_at is None:
        return True
    terms = facts.terms
    if facts.now < license_rules.expiry_after(license.expires_at, terms.grace_days):
        return True
    if terms.after_expiry is AfterExpiry.ALLOW or release.is_free_for_expired:
        return True
    is_older = release.released_at is not None and release.released_at <= license.expires_at
    return terms.after_expiry is AfterExpiry.OLDER_VERSIONS and is_older


def _find_unmet(facts: UpdateFacts, release: model.Release) -> Iterator[str]:
    """Yield the requirements that the program's platform does not meet; unknown versions pass."""
    asked = facts.asked
    known = {"os": asked.os_version, "php": asked.php_version, "wp": asked.wp_version}
    for name, least in release.requires.items():
        version = asked.os_version if name == asked.platform else known.get(name)
        key = find_key(VersionScheme.LOOSE, version)
        if key is not None and key < version_key(VersionScheme.LOOSE, least):
            yield f"It requires {name} {least}."


def _can_follow(facts: UpdateFacts, release: model.Release) -> bool:
    if release.min_from_version is None:
        return True
    key = find_key(facts.scheme, facts.asked.app_version)
    least = find_key(facts.scheme, release.min_from_version)
    return key is None or least is None or key >= least


def _is_reached(facts: UpdateFacts, release: model.Release) -> bool:
    """Whether the rollout includes this device, or without one, this license."""
    percent = release.rollout.percent
    if percent >= 100 or facts.asked.by_hand or release.is_critical:
        return True
    if facts.activation is not None:
        place = f"activation:{facts.activation.id}"
    elif facts.license is not None:
        place = f"license:{facts.license.id}"
    else:
        return False
    return rollout_place(release.id, place) < percent


def rollout_place(release_id: int, place: str) -> float:
    """Return the position of a device in the rollout of a release: from 0 up to, not including, 100."""
    digest = hashlib.sha256(f"{release_id}:{place}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32 * 100


def ends_tokens(before: License, after: License) -> bool:
    """Whether a change of a license ends its update tokens: it was disabled, or got a new key."""
    is_disabled = after.status == Status.DISABLED != before.status
    return is_disabled or before.key != after.key
