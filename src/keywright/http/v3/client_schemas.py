"""The bodies and answers of client calls."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from keywright.core.examples import EXAMPLE_KEY, EXAMPLE_TOKEN
from keywright.core.fields import Id, Parse, Time, about
from keywright.core.parsing import MAX_ID, parse_metadata
from keywright.http.v3.fields import ClientBody, LicenseKey
from keywright.licensing.terms.model import MAX_DAYS
from keywright.licensing.terms.rules import MAX_ENTITLEMENTS
from keywright.licensing.validation import Code
from keywright.signing.client_license import ClientLicense, RemovedDevice

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
    """The members that every client call may have."""

    license_key: Annotated[LicenseKey, about("The license key.", EXAMPLE_KEY)]
    fingerprint: Annotated[
        Fingerprint | None, about("The device; opaque, such as an HMAC.", _FINGERPRINT)
    ] = None
    token: Annotated[Token | None, about("The device's place, by its `token`.", None)] = None
    product: Annotated[
        ProductName | None, about("The program's product, by `id` or `code`.", "photo-editor")
    ] = None
    app_version: Annotated[Text | None, about("The program's version.", "4.2.0")] = None
    built_at: Annotated[Time | None, about("When this build was made.", _EXAMPLE_TIME)] = None
    nonce: Annotated[Text | None, about("The answer has the same.", None)] = None


class Validate(ProgramCall):
    """The body of `validate`."""

    entitlements: Annotated[
        list[Entitlement], Meta(max_length=MAX_ENTITLEMENTS), about("All of these must be held.", ["export"])
    ] = field(default_factory=list)
    lease_id: Annotated[
        Annotated[str, Meta(max_length=_MAX_LEASE_ID)] | None, about("The lease that the program holds.")
    ] = None
    days: Annotated[Days | None, about("The life of a signed answer, at most `offline_days`.", None)] = None


class MakeFile(ProgramCall, kw_only=True):
    """The body of a call that makes a license file."""

    days: Annotated[Days | None, about("The life of the file, at most `offline_days`.", 14)] = None


class Activate(ProgramCall):
    """The body of `activate`."""

    name: Annotated[Text | None, about("The device's name for people.", "Anna's laptop")] = None
    platform: Annotated[Text | None, about("Its operating system.", "macOS 26")] = None
    metadata: Annotated[
        Annotated[dict[str, Any], Parse(_check_metadata)] | None,
        about("At most 64 keys, 16 KiB and 4 levels.", None),
    ] = None
    replaces: Annotated[
        Fingerprint | None, about("The fingerprint that this device had before: its place moves.", None)
    ] = None
    remove: Annotated[
        Id | None, about("On a full license, the device to remove, by its `id` in `devices`.", None)
    ] = None
    update_token: Annotated[bool, about("Whether the device gets an update token, too.", False)] = False


class Deactivate(ProgramCall):
    """The body of `deactivate`."""


class ClientActivation(Struct):
    """A device's place, as its program sees it."""

    id: Annotated[Id, about("The activation's number.", 90)]
    token: Annotated[str, about("Names this place in later calls.", EXAMPLE_TOKEN)]
    fingerprint: Annotated[str | None, about("The device.", _FINGERPRINT)]
    name: Annotated[str | None, about("The device's name.", "Anna's laptop")]
    platform: Annotated[str | None, about("Its operating system.", "macOS 26")]
    app_version: Annotated[str | None, about("The version that was activated.", "4.2.0")]
    metadata: Annotated[Mapping[str, Any], about("What the program keeps here.", {})]
    created_at: Annotated[datetime, about("When the place was first taken.", _EXAMPLE_TIME)]
    last_seen_at: Annotated[datetime, about("When the device last called: now.", _EXAMPLE_TIME)]
    deactivated_at: Annotated[datetime | None, about("When it was given up; null while it is held.", None)]


class Validation(Struct):
    """Whether the license may be used, and everything found."""

    valid: Annotated[bool, about("Whether nothing found blocks.", True)]
    code: Annotated[Code, about("The first finding.", "valid")]
    codes: Annotated[tuple[Code, ...], about("All findings, in rank order.", ["valid"])]
    detail: Annotated[str, about("A sentence about the first.", "The license is valid.")]
    license: Annotated[ClientLicense | None, about("null for an unknown, foreign or replaced key.")]
    activation: Annotated[ClientActivation | None, about("The device's place, if it ever had one.")]
    entitlements: Annotated[tuple[str, ...], about("The features that the license includes.", ["export"])]
    checked_at: Annotated[datetime, about("When this was decided.", _EXAMPLE_TIME)]
    next_check_at: Annotated[
        datetime | None, about("When to ask again; null for an unknown key.", _EXAMPLE_TIME)
    ]
    nonce: Annotated[str | None, about("The one that was sent.", None)]


class Activated(Struct):
    """The device's place."""

    activation: ClientActivation
    license: ClientLicense
    entitlements: Annotated[tuple[str, ...], about("The features that the license includes.", ["export"])]
    is_new: Annotated[bool, about("Whether a new place was taken.", True)]
    removed: Annotated[
        RemovedDevice | None, about("The device that gave its place, where programs may see devices.", None)
    ]
    nonce: Annotated[str | None, about("The one that was sent.", None)]
    update_token: Annotated[
        str | None, about("What asks for updates, and downloads them; shown this once.", None)
    ] = None


class Deactivated(Struct):
    """The place that was given up."""

    activation: ClientActivation
    license: ClientLicense
    was_active: Annotated[bool, about("Whether the device held its place until now.", True)]
    nonce: Annotated[str | None, about("The one that was sent.", None)]
