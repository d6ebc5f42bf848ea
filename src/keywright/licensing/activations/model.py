"""Activations, licenses together with theirs, views of both for programs, and the commands about them."""

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
    """A product; a number that no product has is shown without code and name."""

    id: int
    code: str | None = None
    name: str | None = None
    renew_url: str | None = None
    updates: Updates = Updates.LICENSED
    channels: tuple[str, ...] = ()
    version_scheme: VersionScheme = VersionScheme.LOOSE
    #: Differs whenever what its releases offer does, or its notices; None while none was published.
    releases_changed: int | None = None
    external_id: str | None = None
    url: str | None = None
    #: The text of a JSON object.
    metadata: str | None = None

    def link_to_renew(self, license_ref: str) -> str | None:
        """Where the license with this ref is renewed."""
        return None if self.renew_url is None else self.renew_url.replace("{license_ref}", license_ref)


class NamedPolicy(msgspec.Struct, frozen=True, gc=False):
    """A policy; None is the name of one that was deleted."""

    id: int
    name: str | None = None


class LicenseView(msgspec.Struct, frozen=True, gc=False):
    """A license, the names of what it refers to, and the use of its meters now, by meter."""

    license: License
    product: NamedProduct | None = None
    policy: NamedPolicy | None = None
    usage: Mapping[str, int] = {}


class ActivationSource(IntEnum):
    """The origin of an activation. The numbers are the wire format's."""

    WEB = 1
    API = 2
    MIGRATION = 3


class Activation(msgspec.Struct, frozen=True, gc=False):
    """One place taken on a license; given up while ``deactivated_at`` is set.

    Within a license, no two have the same ``fingerprint``; activations over v2 have none, and the values of
    their ``meta_data`` are texts. What was signed for the device is good until ``offline_until`` at the
    latest; None until it has called over v3, ``created_at`` where nothing was signed. A site on a host that
    the terms did not count when it was activated takes no place: it is not ``is_counted``.
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
        """Until when the device may run without the server; None where nothing was signed for it."""
        until = self.offline_until
        return None if until is None or until <= self.created_at else until


class Holder(msgspec.Struct, frozen=True, gc=False):
    """A device that holds a place, and when it was last seen, where that is known."""

    activation: Activation
    seen_at: datetime


class Device(msgspec.Struct, frozen=True, gc=False):
    """What a program states about its device; None where it does not."""

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
    whose place was given up for it. ``is_new_device`` means that a ``SeenDevice`` is to be kept.
    """

    license: License
    change: PlaceChange
    activation: Activation | None = None
    released: Activation | None = None
    is_new_device: bool = False
    #: Whether a new record takes a place.
    is_counted: bool = True


class DevicePlace(msgspec.Struct, frozen=True, gc=False):
    """The license with the place that a device was given, and how. ``removed`` is the device that had it,
    where programs may see devices.
    """

    view: LicenseView
    activation: Activation
    change: PlaceChange
    removed: Activation | None = None
    update_token: str | None = None


class ReleasedPlace(msgspec.Struct, frozen=True, gc=False):
    """The license with the record of a device that holds no place now; ``was_active`` is whether it did."""

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
    #: Whether deleted licenses are kept for a while, to be restored.
    keeps_deleted: bool = True


class LicensePage(msgspec.Struct, frozen=True):
    """One page of a list; ``total`` counts all that match."""

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
    """Record, before it leaves, that the device with this token gets an answer that is good until
    ``ends_at``; None is one that is not signed.
    """

    token: str
    ends_at: datetime | None


class ReleaseActivation(LicenseCommand, frozen=True, kw_only=True):
    """Give up the place of the activation with this id, if it has one."""

    activation_id: int
    #: Like ``precondition``, which is about the license.
    activation_precondition: Callable[[Activation], None] | None = None


class ProgramCommand(LicenseCommand, frozen=True, kw_only=True):
    """A request of a program over v3: it names the license by its key; perhaps its device, by a fingerprint
    or a token; its product, by number or code; and when it was built. ``is_signed`` states that the
    answer is.
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
    """Give the device its place, which it may have already; ``replaces`` is the fingerprint that it had
    before. ``remove`` is the ID of the device that gives its place on a full license, where the terms let
    programs choose. With ``lists_devices``, a refusal at the limit names those that hold the places.
    """

    replaces: str | None = None
    remove: int | None = None
    lists_devices: bool = False
    wants_update_token: bool = False
    is_site: ClassVar[bool] = False


class DeactivateDevice(ProgramCommand, frozen=True, kw_only=True):
    """Give up the place of the device."""


class SaveLastSeen(Command, frozen=True, kw_only=True):
    """Store when these were seen, in seconds since 1970, by license and activation; activation 0 is a
    validation of the license. ``versions`` are those of programs that state another one than when they were
    activated.
    """

    cost = Cost.ALONE
    is_internal = True

    seen: Mapping[tuple[int, int], int]
    versions: Mapping[tuple[int, int], str] = {}


class Validate(Query, frozen=True, kw_only=True):
    """Report the license with all its activations, or with the active one that has this token. With
    ``refused_at``, one that is expired, inactive or disabled then is refused.
    """

    key: str
    token: str | None = None
    only_product_id: int | None = None
    refused_at: datetime | None = None


class ValidateAlone(Validate, frozen=True, kw_only=True):
    """The same, also for a license that has so many records that no other call should wait for it."""

    cost = Cost.LARGE


class FindLicenses(Query, frozen=True, kw_only=True):
    """The next ``limit`` matching licenses after this id, oldest first: a list read piece by piece."""

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
