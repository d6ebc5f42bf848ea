"""Schemas of client calls, and of leases and usage."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from keywright.core.fields import EXAMPLE_KEY, EXAMPLE_TOKEN, Id, Parse, Time, about
from keywright.core.nouns import ListQuery
from keywright.core.parsing import MAX_ID, parse_metadata, parse_text
from keywright.http.v3.fields import ClientBody, LicenseKey
from keywright.licensing.terms.model import MAX_DAYS, MAX_SECONDS, MIN_LEASE_SECONDS
from keywright.licensing.terms.rules import MAX_ENTITLEMENTS
from keywright.licensing.updates.notices import AnsweredNotice
from keywright.licensing.validation import Code
from keywright.signing.explanation import ClientLicense, RemovedDevice

MAX_TEXT, _MAX_TOKEN, _MAX_CODE, _MAX_LEASE_ID = 255, 64, 64, 32
_EXAMPLE_TIME = "2026-11-22T08:54:00Z"
_FINGERPRINT = "device-7f3a9c0e12b4"


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    parse_metadata(value)
    return value


Fingerprint = Annotated[str, Meta(min_length=8, max_length=256)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Token = Annotated[str, Meta(min_length=1, max_length=_MAX_TOKEN)]
ProductName = Annotated[int, Meta(ge=1, le=MAX_ID)] | Annotated[str, Meta(min_length=1, max_length=64)]
Days = Annotated[int, Meta(ge=1, le=MAX_DAYS)]
Entitlement = Annotated[str, Meta(min_length=1, max_length=_MAX_CODE)]


class ProgramCall(ClientBody):
    """Members that are common to client calls."""

    license_key: Annotated[LicenseKey, about("The license key.", EXAMPLE_KEY)]
    fingerprint: Annotated[
        Fingerprint | None, about("An opaque identifier of the device, such as an HMAC.", _FINGERPRINT)
    ] = None
    token: Annotated[Token | None, about("The `token` of the device's activation.", None)] = None
    product: Annotated[
        ProductName | None, about("The `id` or `code` of the program's product.", "photo-editor")
    ] = None
    app_version: Annotated[Text | None, about("The program's version.", "4.2.0")] = None
    built_at: Annotated[Time | None, about("When the program was built.", _EXAMPLE_TIME)] = None
    nonce: Annotated[Text | None, about("Returned unchanged in the answer.", None)] = None


class Validate(ProgramCall):
    """The body of `validate`."""

    entitlements: Annotated[
        list[Entitlement],
        Meta(max_length=MAX_ENTITLEMENTS),
        about("The features that the license must include.", ["export"]),
    ] = field(default_factory=list)
    lease_id: Annotated[
        Annotated[str, Meta(max_length=_MAX_LEASE_ID)] | None,
        about("The `id` of the lease that the program holds."),
    ] = None
    days: Annotated[
        Days | None, about("How long a signed answer is valid, at most `offline_days`.", None)
    ] = None


class MakeFile(ProgramCall, kw_only=True):
    """The body of a call that creates a license file."""

    days: Annotated[Days | None, about("How long the file is valid, at most `offline_days`.", 14)] = None


class Activate(ProgramCall):
    """The body of `activate`."""

    name: Annotated[Text | None, about("The device's name, for people to read.", "Anna's laptop")] = None
    platform: Annotated[Text | None, about("The device's operating system.", "macOS 26")] = None
    metadata: Annotated[
        Annotated[dict[str, Any], Parse(_check_metadata)] | None,
        about("Data to store with the activation: at most 64 keys, 16 KiB and 4 levels.", None),
    ] = None
    replaces: Annotated[
        Fingerprint | None, about("The device's previous fingerprint, whose place it takes over.", None)
    ] = None
    remove: Annotated[
        Id | None, about("The device to remove if the license is full: its `id` in `devices`.", None)
    ] = None
    update_token: Annotated[bool, about("Whether to create an update token for the device.", False)] = False


class Deactivate(ProgramCall):
    """The body of `deactivate`."""


class ClientActivation(Struct):
    """An activation, as the program on that device sees it."""

    id: Annotated[Id, about("The activation's ID.", 90)]
    token: Annotated[str, about("Identifies this activation in later calls.", EXAMPLE_TOKEN)]
    fingerprint: Annotated[str | None, about("The device's fingerprint.", _FINGERPRINT)]
    name: Annotated[str | None, about("The device's name.", "Anna's laptop")]
    platform: Annotated[str | None, about("The device's operating system.", "macOS 26")]
    app_version: Annotated[str | None, about("The version that the program reported last.", "4.2.0")]
    metadata: Annotated[Mapping[str, Any], about("Data that the program stores with the activation.", {})]
    created_at: Annotated[datetime, about("When the place was first taken.", _EXAMPLE_TIME)]
    last_seen_at: Annotated[datetime, about("When the device last called, which is now.", _EXAMPLE_TIME)]
    deactivated_at: Annotated[
        datetime | None, about("When it was deactivated; null while it is active.", None)
    ]


class Validation(Struct):
    """Whether the license is valid, with all findings."""

    valid: Annotated[bool, about("Whether no finding blocks.", True)]
    code: Annotated[Code, about("The first finding.", "valid")]
    codes: Annotated[tuple[Code, ...], about("All findings, in rank order.", ["valid"])]
    detail: Annotated[str, about("A sentence about the first finding.", "The license is valid.")]
    license: Annotated[
        ClientLicense | None,
        about("The license; null if the key is unknown, replaced, or for another product."),
    ]
    activation: Annotated[ClientActivation | None, about("The device's activation, if it ever had one.")]
    entitlements: Annotated[tuple[str, ...], about("The features that the license includes.", ["export"])]
    checked_at: Annotated[datetime, about("When the server checked this.", _EXAMPLE_TIME)]
    next_check_at: Annotated[
        datetime | None, about("When to validate again; null if the key is unknown.", _EXAMPLE_TIME)
    ]
    nonce: Annotated[str | None, about("The `nonce` of the call.", None)]
    notices: Annotated[
        tuple[AnsweredNotice, ...],
        about("Notices about the program's version, the most severe first; at most 5.", []),
    ]


class Activated(Struct):
    """The activation of the device, and its license."""

    activation: ClientActivation
    license: ClientLicense
    entitlements: Annotated[tuple[str, ...], about("The features that the license includes.", ["export"])]
    is_new: Annotated[bool, about("Whether a new place was taken.", True)]
    removed: Annotated[
        RemovedDevice | None, about("The device that lost its place, if programs may see devices.", None)
    ]
    nonce: Annotated[str | None, about("The `nonce` of the call.", None)]
    update_token: Annotated[
        str | None, about("A token to check for updates and download them; shown only once.", None)
    ] = None


class Deactivated(Struct):
    """The activation that was deactivated, and its license."""

    activation: ClientActivation
    license: ClientLicense
    was_active: Annotated[bool, about("Whether the device was active until now.", True)]
    nonce: Annotated[str | None, about("The `nonce` of the call.", None)]


EXAMPLE_LEASE = "5b0e8c2f9d7a41e3b6c4d8f01a2b3c4d"
_LEASE_TIME, _EXAMPLE_END, _EXAMPLE_HALF = (f"2026-11-22T{one}:00Z" for one in ("08:54", "09:04", "08:59"))
_MAX_METER_NAME, _MAX_AMOUNT = 64, 1_000_000

MeterName = Annotated[str, Meta(max_length=_MAX_METER_NAME)]
LeaseId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


def _parse_holder(holder: str) -> str:
    parse_text(holder, MAX_TEXT)
    return holder


Holder = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT), Parse(_parse_holder)]
_Seconds = Annotated[int, Meta(ge=MIN_LEASE_SECONDS, le=MAX_SECONDS)]


class TakeLease(ProgramCall, kw_only=True):
    """The body of a call that takes a lease."""

    holder: Annotated[Holder, about("The holder, such as a user or a process.", "anna@studio-3")]
    seconds: Annotated[_Seconds | None, about("The duration in seconds, at most `lease_seconds`.", 600)] = (
        None
    )


class RenewLease(ProgramCall, kw_only=True):
    """The body of a call that renews a lease."""

    lease_id: Annotated[LeaseId, about("The lease's `id`.", EXAMPLE_LEASE)]
    seconds: Annotated[
        _Seconds | None, about("The duration from now in seconds, at most `lease_seconds`.", 600)
    ] = None


class ReleaseLease(ProgramCall, kw_only=True):
    """The body of a call that releases a lease."""

    lease_id: Annotated[LeaseId, about("The lease's `id`.", EXAMPLE_LEASE)]


class ClientLease(Struct):
    """A lease, as its holder sees it."""

    id: Annotated[str, about("Identifies this lease in later calls.", EXAMPLE_LEASE)]
    expires_at: Annotated[datetime, about("When it expires unless it is renewed.", _EXAMPLE_END)]
    renew_at: Annotated[datetime, about("When to renew it: after half of its duration.", _EXAMPLE_HALF)]


class TakenLease(Struct):
    """A lease that was taken, or extended for the same holder."""

    lease: ClientLease
    license: ClientLicense
    nonce: Annotated[str | None, about("The `nonce` of the call.", None)]


class RenewedLease(Struct):
    """A renewed lease."""

    lease: ClientLease
    was_lost: Annotated[bool, about("Whether it had expired and was taken again.", False)]
    license: ClientLicense
    nonce: Annotated[str | None, about("The `nonce` of the call.", None)]


class ReleasedLease(Struct):
    """The result of releasing a lease."""

    was_held: Annotated[bool, about("Whether it was held until now.", True)]
    license: ClientLicense
    nonce: Annotated[str | None, about("The `nonce` of the call.", None)]


class Lease(Struct):
    """A lease, as the vendor sees it."""

    id: Annotated[str, about("The lease's ID.", EXAMPLE_LEASE)]
    holder: Annotated[str, about("The holder, as the program reported it.", "anna@studio-3")]
    activation_id: Annotated[Id | None, about("The device's activation, if it has one.", 90)]
    is_held: Annotated[bool, about("Whether it is held now; an expired lease is not.", True)]
    created_at: Annotated[datetime, about("When it was taken.", _LEASE_TIME)]
    renewed_at: Annotated[datetime, about("When it was last renewed.", _LEASE_TIME)]
    expires_at: Annotated[datetime, about("When it expires.", _EXAMPLE_END)]


class RecordUsage(ProgramCall, kw_only=True):
    """The body of a call that records usage."""

    meter: Annotated[MeterName, about("The name of one of the license's meters.", "exports")]
    amount: Annotated[Annotated[int, Meta(ge=1, le=_MAX_AMOUNT)], about("The amount to add.", 1)] = 1


class UsageQuery(ListQuery):
    """Filters of the usage periods of one license."""

    since: Annotated[Time | None, about("Only periods that start at this time or later.")] = field(
        default=None, name="from"
    )
    until: Annotated[Time | None, about("Only periods that start before this time.")] = field(
        default=None, name="to"
    )
    meter: Annotated[MeterName | None, about("Only periods of this meter.", "exports")] = None


class AllUsageQuery(ListQuery):
    """Filters of the usage periods of all licenses."""

    period_from: Annotated[Time | None, about("Only periods that start at this time or later.")] = None
    period_to: Annotated[Time | None, about("Only periods that start before this time.")] = None
    product_id: Annotated[Id | None, about("Only periods of licenses for this product.", 17)] = None
    meter: Annotated[MeterName | None, about("Only periods of this meter.", "exports")] = None
    is_closed: Annotated[bool | None, about("Only closed periods, or only open ones.", True)] = None


class UsagePeriod(Struct):
    """The usage of one meter of a license in one period."""

    license_id: Annotated[Id, about("The license, which may have been deleted.", 4711)]
    meter: Annotated[str, about("The meter's name.", "exports")]
    period_start: Annotated[datetime, about("When the period started.", "2026-11-01T00:00:00Z")]
    period_end: Annotated[
        datetime | None, about("When the period ends; null means never.", "2026-12-01T00:00:00Z")
    ]
    used: Annotated[int, about("The amount used.", 130)]
    limit: Annotated[
        int | None,
        about(
            "The meter's limit, or its last limit in a closed period; null if the meter no longer exists.",
            100,
        ),
    ]
    overage: Annotated[int, about("The amount above the limit.", 30)]
    is_closed: Annotated[bool, about("Whether the period is closed: nothing more is counted in it.", True)]


class Usage(Struct):
    """The usage of a meter in the current period."""

    meter: Annotated[str, about("The meter's name.", "exports")]
    used: Annotated[int, about("The amount used in this period.", 12)]
    limit: Annotated[int, about("The amount that may be used in a period.", 100)]
    resets_at: Annotated[
        datetime | None, about("When the next period starts; null means never.", _LEASE_TIME)
    ]
