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

#: So much longer than what is signed is recorded, in days: a device costs at most one commit a day.
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
    """Give a device its place: the one it has, the one it gave up, that of the device which it replaces, or a
    new one; what is not sent again is kept. ``seen`` has the new devices of as many days as the terms name.
    ``find_room`` is asked on a full license for the device that gives its place. A site on a host that the
    terms do not count takes no place, while there are not too many; a program of another kind never does so.

    Raises what ``require_activatable`` does, ``FingerprintRequired``, ``LimitReached`` and
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
    """A new place for a device, or the one that it gave up; the caller knows that it is free."""
    if own is None:
        taken = activation_rules.with_place_taken(license, now, is_counted=is_counted)
        return Placement(taken, PlaceChange.NEW, is_counted=is_counted)
    license, own = activation_rules.take_back(license, own, now, is_counted=is_counted)
    return Placement(license, PlaceChange.TAKEN_BACK, describe(own, device, now))


def _count(license: License, own: Activation, device: Device, now: datetime) -> Placement:
    """A site that took no place takes one, as a program of another kind activates it. Raises
    ``LimitReached``.
    """
    license_rules.require_free_place(license)
    license, own = activation_rules.deactivate(license, own, now)
    license, own = activation_rules.take_back(license, own, now)
    return Placement(license, PlaceChange.MOVED, describe(own, device, now))


def find_own(records: Iterable[Activation], fingerprint: str | None, token: str | None) -> Activation | None:
    """The record of the device: the one with its fingerprint, or else the one with the token, unless that is
    another device's.
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
    """Give up the place of a device with this record; the last value is whether it held one.

    Raises ``UnknownDevice`` without a record; never looks at status or expiry.
    """
    if activation is None:
        raise UnknownDevice
    if activation.deactivated_at is not None:
        return license, activation, False
    return *activation_rules.deactivate(license, activation, now), True


def describe(activation: Activation, device: Device, now: datetime) -> Activation:
    """The record with what the device states about itself; the same one where nothing is new. A fingerprint
    is set where there is none, never replaced.
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
    """The record of a device that gets an answer which is good until ``ends_at``, None for one that is not
    signed; the same record where that is known already. Where devices that are unseen are replaced, also an
    answer that is not signed counts, for the moment: ``last_seen`` comes minutes late.
    """
    known = activation.offline_until
    if ends_at is None and terms.when_full is WhenFull.REPLACE_UNSEEN:
        ends_at = now
    if known is not None and (ends_at is None or known >= ends_at):
        return activation
    until = now if ends_at is None else license_rules.expiry_after(ends_at, _AHEAD_DAYS)
    if known is None:
        # Something may have been signed before that was recorded.
        until = max(until, license_rules.expiry_after(now, terms.offline_days))
    return replace(activation, offline_until=until)


def find_unseen(
    terms: Terms, holders: Iterable[Holder], *, changed_at: datetime | None, now: datetime
) -> Activation | None:
    """The device whose place a new one takes on a full license: of those that were not seen for the terms'
    days, and have nothing that is good for longer, the one that was not seen for the longest time. None
    before the terms have asked for it for these days: ``changed_at`` is since when they do, None from the
    start.
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
    """Whether nothing that was signed for the device is still good; unknown where it never called over v3."""
    return activation.offline_until is not None and activation.offline_until <= now


def _make_room(
    license: License, find_room: Callable[[], Activation | None], now: datetime
) -> tuple[License, Activation | None]:
    """The license with a free place, and the record of the device that gave it. Raises ``LimitReached``."""
    try:
        license_rules.require_free_place(license)
    except LimitReached:
        # Where the limit was lowered, one place less does not make one free.
        holder = None if license_rules.is_over_limit(license) else find_room()
        if holder is None:
            raise
        return activation_rules.deactivate(license, holder, now)
    return license, None


def _find_replaced(device: Device, known: KnownRecords) -> Activation | None:
    """The record of another device that holds a place, which this device can take over."""
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
    """Whether a device without a record counts as a new one. Raises ``TooManyNewDevices``."""
    allowance = terms.new_devices
    if allowance is None:
        return False
    days = timedelta(days=allowance.per_days)
    recent = {one.fingerprint: one.seen_at for one in seen if one.seen_at > now - days}
    if device.fingerprint in recent:
        return False
    if len(recent) >= allowance.count:
        # So many have to be older than the days first that fewer than the count are left.
        free_at = sorted(recent.values())[-allowance.count] + days
        seconds = max(1, int((free_at - now).total_seconds()))
        raise TooManyNewDevices(allowance.count, allowance.per_days, seconds)
    return True


def _keep(
    license: License, own: Activation, replaced: Activation | None, device: Device, now: datetime
) -> Placement:
    """The device has its place; that of the device which it replaces is given up."""
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
    """The place of the replaced device becomes this one's, so that none needs to be free."""
    if own is None:
        moved = describe(replace(replaced, fingerprint=None), device, now)
        return Placement(license, PlaceChange.MOVED, moved, is_new_device=is_new)
    license, released = activation_rules.deactivate(license, replaced, now)
    license, own = activation_rules.take_back(license, own, now)
    return Placement(license, PlaceChange.MOVED, describe(own, device, now), released)
