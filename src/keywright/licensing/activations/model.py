"""Activations, and licenses together with theirs."""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

import msgspec

from keywright.licensing.licenses.model import License
from keywright.licensing.views import LicenseView


class ActivationSource(IntEnum):
    """The origin of an activation. The numbers are the wire format's."""

    WEB = 1
    API = 2
    MIGRATION = 3


class Activation(msgspec.Struct, frozen=True, gc=False):
    """One place taken on a license; given up while ``deactivated_at`` is set.

    Within a license, no two have the same ``fingerprint``; activations over v2 have none, and the values of
    their ``meta_data`` are texts. What was signed for the device is good until ``offline_until`` at the
    latest; None until it has called over v3, ``created_at`` where nothing was signed.
    """

    id: int
    token: str
    license_id: int
    label: str | None
    source: int
    ip_address: str
    user_agent: str
    meta_data: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime | None
    deactivated_at: datetime | None
    fingerprint: str | None = None
    platform: str | None = None
    app_version: str | None = None
    offline_until: datetime | None = None

    @property
    def runs_until(self) -> datetime | None:
        """Until when the device may run without the server; None where nothing was signed for it."""
        until = self.offline_until
        return None if until is None or until <= self.created_at else until


class Holder(msgspec.Struct, frozen=True, gc=False):
    """A device that holds a place, and when it was last seen, as far as that is known."""

    activation: Activation
    seen_at: datetime


class Device(msgspec.Struct, frozen=True, gc=False):
    """What a program says of its device; None was not said."""

    fingerprint: str | None = None
    name: str | None = None
    platform: str | None = None
    app_version: str | None = None
    metadata: Mapping[str, Any] | None = None


class KnownRecords(msgspec.Struct, frozen=True, gc=False):
    """A license's records of a device: the device's own, by fingerprint or else by token; that of the device
    which it replaces.
    """

    own: Activation | None = None
    replaced: Activation | None = None


class SeenDevice(msgspec.Struct, frozen=True, gc=False):
    """A device that was new to a license, by its fingerprint; by its token, where it has none."""

    seen_at: datetime
    fingerprint: str


class PlaceChange(StrEnum):
    """What an activation by a device did: nothing, as it had its place; took that back; moved another
    device's place; took a new one.
    """

    KEPT = "kept"
    TAKEN_BACK = "taken_back"
    MOVED = "moved"
    NEW = "new"


class Placement(msgspec.Struct, frozen=True, gc=False):
    """The outcome of an activation by a device.

    ``activation`` is the record as it is now, None where a new one is to be made; ``released`` is a record
    whose place was given up for it. ``is_new_device`` says that a ``SeenDevice`` is to be kept.
    """

    license: License
    change: PlaceChange
    activation: Activation | None = None
    released: Activation | None = None
    is_new_device: bool = False


class DevicePlace(msgspec.Struct, frozen=True, gc=False):
    """The license with the place that a device was given, and how. ``removed`` is the device that had it,
    where programs may see devices.
    """

    view: LicenseView
    activation: Activation
    change: PlaceChange
    removed: Activation | None = None


class ReleasedPlace(msgspec.Struct, frozen=True, gc=False):
    """The license with the record of a device that holds no place now; ``was_active`` says if it did."""

    view: LicenseView
    activation: Activation
    was_active: bool


class LicenseRecord(msgspec.Struct, frozen=True, gc=False):
    """A license together with the activations that an outcome is about."""

    license: License
    activations: tuple[Activation, ...] = ()


class RecordLimits(msgspec.Struct, frozen=True):
    """The limits on activations kept and shown: a license keeps at least ``kept`` of those that were given up
    (see ``rules.surplus``); an answer lists at most ``listed``.
    """

    kept: int = 100
    listed: int = 1000
    #: Whether deleted licenses are kept for a while, to be brought back.
    keeps_deleted: bool = True


class LicensePage(msgspec.Struct, frozen=True):
    """One page of a list; ``total`` counts all that match."""

    records: tuple[LicenseRecord, ...]
    total: int
