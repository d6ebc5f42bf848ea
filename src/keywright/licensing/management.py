"""Licenses as the management API shows them, with their leases, usage and last validation."""

from collections.abc import Collection, Mapping
from datetime import datetime

import msgspec

from keywright.core.command import Command, Cost, Query
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License, LicenseCommand


class ManagedLicense(msgspec.Struct, frozen=True, gc=False):
    """A license with the number of its leases that are held, the current use of its meters, when it was last
    validated, if known, the address given for a trial, and the reference to it in a shop's checkout.
    """

    license: License
    leases: int = 0
    usage: Mapping[str, int] = {}
    last_validated_at: datetime | None = None
    trial_email: str | None = None
    license_ref: str = ""


class ManagedActivation(msgspec.Struct, frozen=True, gc=False):
    """An activation, and when it was last seen, if known."""

    activation: Activation
    last_seen_at: datetime | None = None


class ActivationPage(msgspec.Struct, frozen=True):
    """Activations of a license, and one more if there is a next page. ``total`` is the number of matches;
    None if it was not requested.
    """

    activations: tuple[ManagedActivation, ...]
    total: int | None = None


class GetLicense(Query, frozen=True, kw_only=True):
    """A license as the management API shows it ``now``; ``only_product_id`` as in ``LicenseCommand``."""

    license_id: int
    now: datetime
    only_product_id: int | None = None


class OfLicense(Query, frozen=True, kw_only=True):
    """A query about the activations of a license, which may have to scan all of them."""

    cost = Cost.LIST

    license_id: int
    only_product_id: int | None = None


class GetActivation(OfLicense, frozen=True, kw_only=True):
    """The activation with this ID."""

    activation_id: int


class ListActivations(OfLicense, frozen=True, kw_only=True):
    """The next ``limit`` activations and one more, by creation and ID, after a position (seconds, ID).
    ``is_active`` None matches any.
    """

    limit: int
    after: tuple[int, int] | None = None
    is_descending: bool = True
    is_active: bool | None = None
    is_counted: bool = False


class ChangeAndShow(Command, frozen=True, kw_only=True):
    """A change of a license whose outcome is the license as the management API shows it."""

    change: LicenseCommand

    @property
    def parts(self) -> Collection[Command]:
        """The change."""
        return (self.change,)

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses that the change locks."""
        return self.change.locks
