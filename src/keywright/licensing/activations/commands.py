"""Take, take back, give up and report places on a license."""

from collections.abc import Callable, Mapping
from datetime import datetime

from keywright.core.command import Command, Cost, Query
from keywright.licensing.activations.model import Activation, Device
from keywright.licensing.licenses.commands import LicenseCommand
from keywright.licensing.licenses.model import LicenseFilter


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


class DeactivateDevice(ProgramCommand, frozen=True, kw_only=True):
    """Give up the place of the device."""


class SaveLastSeen(Command, frozen=True, kw_only=True):
    """Store when these were seen, in seconds since 1970, by license and activation; activation 0 is a
    validation of the license.
    """

    cost = Cost.ALONE
    is_internal = True

    seen: Mapping[tuple[int, int], int]


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
