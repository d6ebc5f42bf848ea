"""Terms: what a license allows."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from keywright.core.fields import about
from keywright.core.parsing import MAX_COUNT

#: Maximum of ``new_devices``: each activation reads that many devices.
MAX_NEW_DEVICES = 1_000
#: A hundred years.
MAX_DAYS = 36_500
#: Ten years.
MAX_UNSEEN_DAYS = 3_650
#: A year.
MAX_SECONDS = 31_536_000
MIN_LEASE_SECONDS, MAX_LEASES = 10, 10_000
#: Maximum of ``max_uncounted``: activations of a license that take no place.
MAX_UNCOUNTED = 50


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
    """What happens to a new device on a full license: it is refused, or replaces a device unseen for long."""

    REFUSE = "refuse"
    REPLACE_UNSEEN = "replace_unseen"


class Period(StrEnum):
    """The period of a meter: a calendar period in UTC, a month or year counted from the license's creation,
    or with ``license`` the whole life of the license.
    """

    DAY = "day"
    MONTH = "month"
    YEAR = "year"
    LICENSE_MONTH = "license_month"
    LICENSE_YEAR = "license_year"
    LICENSE = "license"


class Overage(StrEnum):
    """Whether use beyond a meter's limit is refused or counted."""

    REFUSE = "refuse"
    ALLOW = "allow"


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """At most `count` within any `per_days` times 24 hours."""

    count: Annotated[int, about("The maximum number.", 3)]
    per_days: Annotated[int, about("The number of days.", 30)]


class Meter(msgspec.Struct, frozen=True, gc=False):
    """The limit of something that is counted in a period."""

    limit: Annotated[int, about("The maximum usage in each period.", 1000)]
    per: Annotated[
        Period, about("The period: of the calendar in UTC, or counted from the license's creation.", "month")
    ]
    overage: Annotated[Overage, about("Whether usage beyond the limit is refused or allowed.", "refuse")] = (
        Overage.REFUSE
    )


_METERS = {"pages": {"limit": 1000, "per": "month", "overage": "refuse"}}
_DAYS, _COUNT = (0, MAX_DAYS), (1, MAX_COUNT)


class Terms(msgspec.Struct, frozen=True, gc=False):
    """The terms of a license."""

    # The bounds apply to input: stored terms may predate them. ``replace_unseen`` requires ``unseen_days``,
    # ``devices_visible`` an allowance.

    max_activations: Annotated[
        int | None,
        about(
            "The maximum number of places; without it, no limit.",
            3,
            label="Limit",
            none="no limit",
            bounds=_COUNT,
            option=("--max-activations", "--max"),
        ),
    ] = None
    valid_for_days: Annotated[
        int | None,
        about(
            "The validity in days; without it, the license never expires.",
            365,
            label="Valid for days",
            bounds=_COUNT,
        ),
    ] = None
    starts: Annotated[Starts, about("When the days begin.", "creation", label="Days counted from")] = (
        Starts.CREATION
    )
    grace_days: Annotated[
        int,
        about(
            "Days after the expiry during which the license is still valid.",
            7,
            label="Days of grace",
            bounds=_DAYS,
        ),
    ] = 0
    after_expiry: Annotated[
        AfterExpiry,
        about(
            "What an expired license still allows: nothing, everything, or builds made before the expiry.",
            "refuse",
            label="After the expiry",
        ),
    ] = AfterExpiry.REFUSE
    device: Annotated[
        DeviceRule, about("Whether an activation requires a fingerprint.", "optional", label="Fingerprint")
    ] = DeviceRule.OPTIONAL
    max_leases: Annotated[
        int | None,
        about(
            "The maximum number of leases at a time; without it, the license offers none.",
            None,
            label="Leases",
            bounds=(1, MAX_LEASES),
        ),
    ] = None
    lease_seconds: Annotated[
        int,
        about(
            "The maximum duration of a lease.",
            600,
            label="Lease duration in seconds",
            bounds=(MIN_LEASE_SECONDS, MAX_SECONDS),
        ),
    ] = 600
    offline_days: Annotated[
        int,
        about(
            "Days for which a signed answer can be valid; with 0, it cannot be stored.",
            14,
            label="Days offline",
            bounds=_DAYS,
        ),
    ] = 14
    next_check_seconds: Annotated[
        int,
        about(
            "When a program should validate again.",
            86_400,
            label="Seconds to the next check",
            bounds=(1, MAX_SECONDS),
        ),
    ] = 86_400
    portal_removals: Annotated[
        Allowance | None,
        about(
            "How often customers may remove a device themselves; without it, as often as they like.",
            None,
            label="Removals by the customer",
            none="any number",
            bounds=(0, MAX_COUNT),
        ),
    ] = None
    new_devices: Annotated[
        Allowance | None,
        about(
            "How many new devices may be activated; without it, any number.",
            None,
            label="New devices",
            none="any number",
            bounds=(1, MAX_NEW_DEVICES),
        ),
    ] = None
    entitlements: Annotated[
        tuple[str, ...],
        about(
            "The codes of the features that the license includes.", ["export", "pro"], label="Entitlements"
        ),
    ] = ()
    channels: Annotated[
        tuple[str, ...],
        about(
            "The update channels; each includes all more stable ones.", ["stable"], label="Update channels"
        ),
    ] = ("stable",)
    meters: Annotated[Mapping[str, Meter], about("The meters, by name.", _METERS, label="Meters")] = (
        msgspec.field(default_factory=dict)
    )
    trial: Annotated[
        bool,
        about(
            "Whether programs can start trials: one per device and product, ever.",
            False,
            label="Trial",
            none="no",
            option=("--trial/--no-trial",),
        ),
    ] = False
    claimable: Annotated[
        bool,
        about(
            "Whether a customer with the key can claim the license in the portal, while it has no customer.",
            False,
            label="Can be claimed",
            none="no",
            option=("--claimable/--not-claimable",),
        ),
    ] = False
    transferable: Annotated[
        Transferable,
        about(
            "How often a customer may transfer the license.",
            "once",
            label="Transfer by the customer",
            none="no",
        ),
    ] = Transferable.NO
    transfer_after_days: Annotated[
        int,
        about(
            "Days after its creation or last transfer before the license can be transferred.",
            30,
            label="Transfer after days",
            bounds=_DAYS,
        ),
    ] = 30
    when_full: Annotated[
        WhenFull,
        about("What happens to a new device on a full license.", "refuse", label="When all places are taken"),
    ] = WhenFull.REFUSE
    unseen_days: Annotated[
        int | None,
        about(
            "Days unseen after which `replace_unseen` replaces a device.",
            None,
            label="Unseen days",
            bounds=(1, MAX_UNSEEN_DAYS),
        ),
    ] = None
    devices_visible: Annotated[
        bool,
        about(
            "Whether programs can show the devices of a full license, and remove one.",
            False,
            label="Choose in the program",
            none="no",
            option=("--devices-visible/--no-devices-visible",),
        ),
    ] = False
    uncounted_hosts: Annotated[
        tuple[str, ...],
        about(
            "The hosts of WordPress sites that take no place; `*` matches anything.",
            ["localhost", "*.local", "*.test", "staging.*"],
            label="Hosts that take no place",
        ),
    ] = ()
    max_uncounted: Annotated[
        int,
        about(
            "The maximum number of such sites.", 10, label="Maximum of such sites", bounds=(0, MAX_UNCOUNTED)
        ),
    ] = 10


_METER = re.compile(r"([^=\s]+)\s*=\s*(\d+)\s*/\s*(\w+)(?:\s*:\s*(allow|refuse))?")
_ALLOWANCE = re.compile(r"(\d+)\s*/\s*(\d+)")


def parse_meter(text: str) -> tuple[str, dict[str, Any]]:
    """Parse ``NAME=LIMIT/PERIOD``, optionally with ``:allow`` or ``:refuse``, into the name and the meter's
    members. Raises ``ValueError``.
    """
    match = _METER.fullmatch(text.strip())
    if match is None:
        raise ValueError("must look like exports=100/month, or exports=100/month:allow if more is allowed")
    name, limit, period, overage = match.groups()
    meter = {"limit": int(limit), "per": period}
    return name, meter | ({"overage": overage} if overage else {})


def parse_allowance(text: str) -> dict[str, int]:
    """Parse ``COUNT/DAYS`` into its members. Raises ``ValueError``."""
    match = _ALLOWANCE.fullmatch(text.strip())
    if match is None:
        raise ValueError("must look like 3/30, for 3 within 30 days")
    return {"count": int(match[1]), "per_days": int(match[2])}
