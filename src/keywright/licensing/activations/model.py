"""Activations, licenses with their activations, views of both for programs, and commands about them."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, ClassVar

import msgspec

from keywright.core.command import Command, Cost, Query
from keywright.licensing.licenses.model import License, LicenseCommand, LicenseFilter
from keywright.licensing.updates.model import Updates
from keywright.licensing.updates.versions import VersionScheme


class NamedProduct(msgspec.Struct, frozen=True, gc=False):
    """A product; an ID that no product has is shown without code and name."""

    id: int
    code: str | None = None
    name: str | None = None
    renew_url: str | None = None
    updates: Updates = Updates.LICENSED
    channels: tuple[str, ...] = ()
    version_scheme: VersionScheme = VersionScheme.LOOSE
    #: Changes whenever the releases on offer or the notices do; None until one is published.
    releases_changed: int | None = None
    external_id: str | None = None
    url: str | None = None
    #: The text of a JSON object.
    metadata: str | None = None

    def link_to_renew(self, license_ref: str) -> str | None:
        """Return the URL at which the license with this ref is renewed."""
        return None if self.renew_url is None else self.renew_url.replace("{license_ref}", license_ref)


class NamedPolicy(msgspec.Struct, frozen=True, gc=False):
    """A policy; the name is None if it was deleted."""

    id: int
    name: str | None = None


class LicenseView(msgspec.Struct, frozen=True, gc=False):
    """A license, the names of what it refers to, and the current use of its meters, by meter."""

    license: License
    product: NamedProduct | None = None
    policy: NamedPolicy | None = None
    usage: Mapping[str, int] = {}


class ActivationSource(IntEnum):
    """The origin of an activation. The values are those of the wire format."""

    WEB = 1
    API = 2
    MIGRATION = 3


class Activation(msgspec.Struct, frozen=True, gc=False):
    """One place taken on a license; given up while ``deactivated_at`` is set.

    ``fingerprint`` is unique within a license; activations over v2 have none, and the values of their
    ``meta_data`` are texts. ``offline_until`` is the latest expiry of what was signed for the device: None
    until it has called over v3, ``created_at`` if nothing was signed. ``is_counted`` is false for a site that
    takes no place, as the terms did not count its host when it was activated.
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
    is_counted: bool = True

    @property
    def runs_until(self) -> datetime | None:
        """The moment until which the device may run without the server; None if nothing was signed for it."""
        until = self.offline_until
        return None if until is None or until <= self.created_at else until


class Holder(msgspec.Struct, frozen=True, gc=False):
    """A device that holds a place, and when it was last seen, or else activated."""

    activation: Activation
    seen_at: datetime


class Device(msgspec.Struct, frozen=True, gc=False):
    """What a program reports about its device; None for what it does not report."""

    fingerprint: str | None = None
    name: str | None = None
    platform: str | None = None
    app_version: str | None = None
    metadata: Mapping[str, Any] | None = None


class KnownRecords(msgspec.Struct, frozen=True, gc=False):
    """A license's records of a device: its own, by fingerprint or else by token, and that of the device it
    replaces.
    """

    own: Activation | None = None
    replaced: Activation | None = None


class SeenDevice(msgspec.Struct, frozen=True, gc=False):
    """A device that was new to a license, by its fingerprint, or by its token if it has none."""

    seen_at: datetime
    fingerprint: str


class PlaceChange(StrEnum):
    """The effect of an activation by a device: none, as it had its place; it took its place back; it took
    over the place of another device; it took a new place.
    """

    KEPT = "kept"
    TAKEN_BACK = "taken_back"
    MOVED = "moved"
    NEW = "new"


class Placement(msgspec.Struct, frozen=True, gc=False):
    """The outcome of an activation by a device.

    ``activation`` is the changed record, or None if a new one is to be made; ``released`` is a record whose
    place was given up for it. ``is_new_device`` means that a ``SeenDevice`` is to be stored.
    """

    license: License
    change: PlaceChange
    activation: Activation | None = None
    released: Activation | None = None
    is_new_device: bool = False
    #: Whether a new record takes a place.
    is_counted: bool = True


class DevicePlace(msgspec.Struct, frozen=True, gc=False):
    """The license with the place of a device, and how the device got it. ``removed`` is the device that had
    it, if programs may see devices.
    """

    view: LicenseView
    activation: Activation
    change: PlaceChange
    removed: Activation | None = None
    update_token: str | None = None


class ReleasedPlace(msgspec.Struct, frozen=True, gc=False):
    """The license with the record of a device without a place; ``was_active`` tells whether it had one."""

    view: LicenseView
    activation: Activation
    was_active: bool


class LicenseRecord(msgspec.Struct, frozen=True, gc=False):
    """A license with the activations that an outcome reports."""

    license: License
    activations: tuple[Activation, ...] = ()


class RecordLimits(msgspec.Struct, frozen=True):
    """The limits on activations stored and shown: a license keeps at least ``kept`` of those given up (see
    ``rules.surplus``); an answer lists at most ``listed``.
    """

    kept: int = 100
    listed: int = 1000
    #: Whether deleted licenses can be restored for a while.
    keeps_deleted: bool = True


class LicensePage(msgspec.Struct, frozen=True):
    """One page of a list; ``total`` counts all matches."""

    records: tuple[LicenseRecord, ...]
    total: int


class Activate(LicenseCommand, frozen=True, kw_only=True):
    """Take a new place."""

    label: str | None = None
    meta_data: Mapping[str, str] | None = None


class Reactivate(LicenseCommand, frozen=True, kw_only=True):
    """Take back the place with this token."""

    token: str


class Deactivate(LicenseCommand, frozen=True, kw_only=True):
    """Give up the place with this token."""

    token: str


class DeactivateAll(LicenseCommand, frozen=True, kw_only=True):
    """Give up every place."""


class ReleaseAll(DeactivateAll, frozen=True, kw_only=True):
    """Give up every place, if any is taken."""


class KeepOffline(LicenseCommand, frozen=True, kw_only=True):
    """Record, before it is sent, that the device with this token gets an answer that is valid until
    ``ends_at``; None for an unsigned answer.
    """

    token: str
    ends_at: datetime | None


class ReleaseActivation(LicenseCommand, frozen=True, kw_only=True):
    """Give up the place of the activation with this ID, if it has one."""

    activation_id: int
    #: Like ``precondition``, which checks the license.
    activation_precondition: Callable[[Activation], None] | None = None


class ProgramCommand(LicenseCommand, frozen=True, kw_only=True):
    """A request of a program over v3. It names the license by its key, and optionally its device, by
    fingerprint or token; its product, by ID or code; and when it was built. ``is_signed`` states that the
    answer is signed.
    """

    device: Device = Device()
    token: str | None = None
    product: int | str | None = None
    built_at: datetime | None = None
    is_signed: bool = False

    @property
    def is_device_named(self) -> bool:
        """Whether it names a device."""
        return self.device.fingerprint is not None or self.token is not None


class ActivateDevice(ProgramCommand, frozen=True, kw_only=True):
    """Give the device its place, unless it has it. ``replaces`` is the device's former fingerprint.
    ``remove`` is the ID of the device that loses its place on a full license, if the terms let programs
    choose. With ``lists_devices``, a refusal at the limit lists the devices that hold the places.
    """

    replaces: str | None = None
    remove: int | None = None
    lists_devices: bool = False
    wants_update_token: bool = False
    is_site: ClassVar[bool] = False


class DeactivateDevice(ProgramCommand, frozen=True, kw_only=True):
    """Give up the place of the device."""


class SaveLastSeen(Command, frozen=True, kw_only=True):
    """Store when activations were last seen, in seconds since 1970, by license and activation; activation 0
    is a validation of the license. ``versions`` are those of programs that report another one than when they
    were activated.
    """

    cost = Cost.ALONE
    is_internal = True

    seen: Mapping[tuple[int, int], int]
    versions: Mapping[tuple[int, int], str] = {}


class Validate(Query, frozen=True, kw_only=True):
    """Report the license with all its activations, or with the active one that has this token. With
    ``refused_at``, a license expired, inactive or disabled at that moment is refused.
    """

    key: str
    token: str | None = None
    only_product_id: int | None = None
    refused_at: datetime | None = None


class ValidateAlone(Validate, frozen=True, kw_only=True):
    """``Validate``, also for a license with so many records that no other call should wait for it."""

    cost = Cost.LARGE


class FindLicenses(Query, frozen=True, kw_only=True):
    """The next ``limit`` matching licenses after this ID, oldest first: a list read in chunks."""

    cost = Cost.LIST

    where: LicenseFilter
    after_id: int
    limit: int


class ListLicenses(Query, frozen=True, kw_only=True):
    """Page ``page`` (from 1) of the matching licenses, oldest first, and how many match."""

    cost = Cost.LIST

    where: LicenseFilter
    page: int
    per_page: int
