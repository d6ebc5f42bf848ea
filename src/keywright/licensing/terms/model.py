"""The terms of a license: copied from its policy when it is made, and changed for one license at a time."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Starts(StrEnum):
    """The moment from which ``valid_for_days`` is counted."""

    CREATION = "creation"
    FIRST_ACTIVATION = "first_activation"


class AfterExpiry(StrEnum):
    """What an expired license still allows: nothing, everything, or builds made before the expiry."""

    REFUSE = "refuse"
    ALLOW = "allow"
    OLDER_VERSIONS = "older_versions"


class DeviceRule(StrEnum):
    """Whether a fingerprint is needed to activate."""

    OPTIONAL = "optional"
    REQUIRED = "required"


class Transferable(StrEnum):
    """How often a license may be handed on to another customer."""

    NO = "no"
    ONCE = "once"
    ALWAYS = "always"


class WhenFull(StrEnum):
    """What a new device on a full license meets: a refusal, or the place of a device unseen for long."""

    REFUSE = "refuse"
    REPLACE_UNSEEN = "replace_unseen"


class Period(StrEnum):
    """A meter counts per calendar period in UTC, or per month or year from the creation of the license;
    ``license`` never starts again.
    """

    DAY = "day"
    MONTH = "month"
    YEAR = "year"
    LICENSE_MONTH = "license_month"
    LICENSE_YEAR = "license_year"
    LICENSE = "license"


class Overage(StrEnum):
    """Use beyond a meter's limit is refused, or counted."""

    REFUSE = "refuse"
    ALLOW = "allow"


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """So many within any ``per_days`` times 24 hours."""

    count: int
    per_days: int


class Meter(msgspec.Struct, frozen=True, gc=False):
    """The limit of something that is counted in a period."""

    limit: int
    per: Period
    overage: Overage = Overage.REFUSE


class Terms(msgspec.Struct, frozen=True, gc=False):
    """The terms of a license. ``None`` is no limit; ``max_leases`` None offers no leases; ``portal_removals``
    None is as often as the customer likes, its count 0 never. ``unseen_days`` is set with ``replace_unseen``,
    an allowance with ``devices_visible``.
    """

    max_activations: int | None = None
    valid_for_days: int | None = None
    starts: Starts = Starts.CREATION
    grace_days: int = 0
    after_expiry: AfterExpiry = AfterExpiry.REFUSE
    device: DeviceRule = DeviceRule.OPTIONAL
    max_leases: int | None = None
    lease_seconds: int = 600
    offline_days: int = 14
    next_check_seconds: int = 86_400
    portal_removals: Allowance | None = None
    new_devices: Allowance | None = None
    entitlements: tuple[str, ...] = ()
    meters: Mapping[str, Meter] = msgspec.field(default_factory=dict)
    trial: bool = False
    claimable: bool = False
    transferable: Transferable = Transferable.NO
    transfer_after_days: int = 30
    when_full: WhenFull = WhenFull.REFUSE
    unseen_days: int | None = None
    devices_visible: bool = False
