"""The rules of activations by a device, which has at most one place on a license. Pure."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from keywright.core.errors import FingerprintRequired, LimitReached, TooManyNewDevices, UnknownDevice
from keywright.licensing.activations import rules as activation_rules
from keywright.licensing.activations.model import (
    Activation,
    Device,
    Holder,
    KnownRecords,
    PlaceChange,
    Placement,
    SeenDevice,
)
from keywright.licensing.activations.sites import is_uncounted
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License
from keywright.licensing.terms.model import DeviceRule, Terms, WhenFull

#: The margin in days recorded beyond what is signed, so that a device causes at most one commit a day.
_AHEAD_DAYS = 1


def _find_no_room() -> None:
    return None


def activate_device(
    license: License,
    device: Device,
    known: KnownRecords,
    *,
    seen: Iterable[SeenDevice] = (),
    built_at: datetime | None,
    now: datetime,
    find_room: Callable[[], Activation | None] = _find_no_room,
    is_site: bool = False,
) -> Placement:
    """Give a device its place: the one it has, the one it gave up, that of the device it replaces, or a new
    one; values that are not sent again are kept. ``seen`` has the new devices within the terms' number of
    days. ``find_room`` is called on a full license for the device that loses its place. A site on a host that
    the terms do not count takes no place, up to the maximum of such sites; a program of another kind always
    takes one.

    Raises what ``require_activatable`` raises, ``FingerprintRequired``, ``LimitReached`` and
    ``TooManyNewDevices``.
    """
    terms = license_rules.terms_of(license)
    license_rules.require_activatable(license, terms, now, built_at)
    own, replaced = known.own, _find_replaced(device, known)
    _require_fingerprint(terms, device, own)
    if own is not None and own.deactivated_at is None:
        if own.is_counted or is_site:
            return _keep(license, own, replaced, device, now)
        return _count(license, own, device, now)
    if is_site and is_uncounted(terms, device.fingerprint) and license.uncounted_count < terms.max_uncounted:
        return _place(license, own, device, now, is_counted=False)
    released = None
    if replaced is None:
        license, released = _make_room(license, find_room, now)
    is_new = own is None and _is_new(terms, device, seen, now)
    if replaced is not None:
        return _move(license, own, replaced, device, now, is_new=is_new)
    return replace(_place(license, own, device, now), released=released, is_new_device=is_new)


def _place(
    license: License, own: Activation | None, device: Device, now: datetime, *, is_counted: bool = True
) -> Placement:
    """Give a device a new place, or the one that it gave up; the caller knows that a place is free."""
    if own is None:
        taken = activation_rules.with_place_taken(license, now, is_counted=is_counted)
        return Placement(taken, PlaceChange.NEW, is_counted=is_counted)
    license, own = activation_rules.take_back(license, own, now, is_counted=is_counted)
    return Placement(license, PlaceChange.TAKEN_BACK, describe(own, device, now))


def _count(license: License, own: Activation, device: Device, now: datetime) -> Placement:
    """Let a site without a place give up its record and take it back with a place, as a program of another
    kind activates it. Raises ``LimitReached``.
    """
    license_rules.require_free_place(license)
    license, own = activation_rules.deactivate(license, own, now)
    license, own = activation_rules.take_back(license, own, now)
    return Placement(license, PlaceChange.TAKEN_BACK, describe(own, device, now))


def find_own(records: Iterable[Activation], fingerprint: str | None, token: str | None) -> Activation | None:
    """Return the record of the device: the one with its fingerprint, else the one with its token unless that
    belongs to another device.
    """
    by_token = None
    for one in records:
        if fingerprint is not None and one.fingerprint == fingerprint:
            return one
        if one.token == token:
            by_token = one
    is_others = by_token is not None and None not in (fingerprint, by_token.fingerprint)
    return None if is_others else by_token


def deactivate_device(
    license: License, activation: Activation | None, now: datetime
) -> tuple[License, Activation, bool]:
    """Give up the place of the device with this record; the last value is whether it held one.

    Raises ``UnknownDevice`` without a record; status and expiry do not matter.
    """
    if activation is None:
        raise UnknownDevice
    if activation.deactivated_at is not None:
        return license, activation, False
    return *activation_rules.deactivate(license, activation, now), True


def describe(activation: Activation, device: Device, now: datetime) -> Activation:
    """Update the record with what the device reports; returns the same record if nothing is new. A
    fingerprint is set if there is none, never replaced.
    """
    described = replace(
        activation,
        fingerprint=activation.fingerprint or device.fingerprint,
        label=activation.label if device.name is None else device.name,
        platform=activation.platform if device.platform is None else device.platform,
        app_version=activation.app_version if device.app_version is None else device.app_version,
        meta_data=activation.meta_data if device.metadata is None else device.metadata,
    )
    return activation if described == activation else replace(described, updated_at=now)


def keep_offline(activation: Activation, terms: Terms, ends_at: datetime | None, now: datetime) -> Activation:
    """Update the record of a device that gets an answer valid until ``ends_at``, or with None an unsigned
    answer; returns the same record if that is already covered. If the terms replace unseen devices, an
    unsigned answer counts too, as of now: ``last_seen`` is minutes late.
    """
    known = activation.offline_until
    if ends_at is None and terms.when_full is WhenFull.REPLACE_UNSEEN:
        ends_at = now
    if known is not None and (ends_at is None or known >= ends_at):
        return activation
    until = now if ends_at is None else license_rules.expiry_after(ends_at, _AHEAD_DAYS)
    if known is None:
        # An answer may have been signed before this was recorded.
        until = max(until, license_rules.expiry_after(now, terms.offline_days))
    return replace(activation, offline_until=until)


def find_unseen(
    terms: Terms, holders: Iterable[Holder], *, changed_at: datetime | None, now: datetime
) -> Activation | None:
    """Return the device whose place a new one takes on a full license: of the devices unseen for the terms'
    number of days, without a signed answer that is still valid, the one unseen for longest. None until the
    terms have required this for as many days: ``changed_at`` is since when, None from the start.
    """
    if terms.when_full is not WhenFull.REPLACE_UNSEEN or terms.unseen_days is None:
        return None
    until = now - timedelta(days=terms.unseen_days)
    if changed_at is not None and changed_at > until:
        return None
    unseen = [one for one in holders if one.seen_at <= until and _is_over(one.activation, now)]
    longest = min(unseen, key=lambda one: (one.seen_at, one.activation.id), default=None)
    return None if longest is None else longest.activation


def _is_over(activation: Activation, now: datetime) -> bool:
    """Whether no signed answer of the device is still valid; false if unknown: it never called over v3."""
    return activation.offline_until is not None and activation.offline_until <= now


def _make_room(
    license: License, find_room: Callable[[], Activation | None], now: datetime
) -> tuple[License, Activation | None]:
    """The license with a free place, and the record of the device that lost it. Raises ``LimitReached``."""
    try:
        license_rules.require_free_place(license)
    except LimitReached:
        # After the limit was lowered, giving up one place may not free one.
        holder = None if license_rules.is_over_limit(license) else find_room()
        if holder is None:
            raise
        return activation_rules.deactivate(license, holder, now)
    return license, None


def _find_replaced(device: Device, known: KnownRecords) -> Activation | None:
    """Return the record of another device whose place this device can take over."""
    own, replaced = known.own, known.replaced
    if replaced is None or replaced.deactivated_at is not None or not replaced.is_counted:
        return None
    if own is None:
        return replaced if device.fingerprint is not None else None
    return None if own.token == replaced.token else replaced


def _require_fingerprint(terms: Terms, device: Device, own: Activation | None) -> None:
    is_known = device.fingerprint is not None or (own is not None and own.fingerprint is not None)
    if terms.device is DeviceRule.REQUIRED and not is_known:
        raise FingerprintRequired


def _is_new(terms: Terms, device: Device, seen: Iterable[SeenDevice], now: datetime) -> bool:
    """Whether a device without a record counts as new. Raises ``TooManyNewDevices``."""
    allowance = terms.new_devices
    if allowance is None:
        return False
    days = timedelta(days=allowance.per_days)
    recent = {one.fingerprint: one.seen_at for one in seen if one.seen_at > now - days}
    if device.fingerprint in recent:
        return False
    if len(recent) >= allowance.count:
        # Retry when so many have left the period that fewer than ``count`` remain.
        free_at = sorted(recent.values())[-allowance.count] + days
        seconds = max(1, int((free_at - now).total_seconds()))
        raise TooManyNewDevices(allowance.count, allowance.per_days, seconds)
    return True


def _keep(
    license: License, own: Activation, replaced: Activation | None, device: Device, now: datetime
) -> Placement:
    """Keep the device's place; give up that of the device which it replaces."""
    released = None
    if replaced is not None:
        license, released = activation_rules.deactivate(license, replaced, now)
    return Placement(license, PlaceChange.KEPT, describe(own, device, now), released)


def _move(
    license: License,
    own: Activation | None,
    replaced: Activation,
    device: Device,
    now: datetime,
    *,
    is_new: bool,
) -> Placement:
    """Transfer the place of the replaced device to this one; no place needs to be free."""
    if own is None:
        moved = describe(replace(replaced, fingerprint=None), device, now)
        return Placement(license, PlaceChange.MOVED, moved, is_new_device=is_new)
    license, released = activation_rules.deactivate(license, replaced, now)
    license, own = activation_rules.take_back(license, own, now)
    return Placement(license, PlaceChange.MOVED, describe(own, device, now), released)
