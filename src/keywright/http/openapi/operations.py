"""The operations in words: what each does, what it takes, and how it may be refused."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from keywright.core import errors as e
from keywright.http.openapi import inputs
from keywright.http.openapi.inputs import Field
from keywright.http.openapi.refusals import Errors
from keywright.http.openapi.schemas import Schema, ref


class Operation(NamedTuple):
    """One operation; ``data`` is the schema of what it answers, ``refusals`` are its own, ``example`` is
    what its example sends.
    """

    group: str
    summary: str
    description: str
    answer: str
    data: Schema
    refusals: Errors
    takes: tuple[Field, ...] = ()
    required: tuple[str, ...] = ()
    example: Mapping[str, Any] = MappingProxyType({})


CORE, LICENSES, GENERATORS, ADDRESSES = "Core calls", "Licenses", "Generators", "What an address allows"
GROUPS = {
    CORE: "What a licensed program calls. The license key is the credential: nothing secret has to be "
    "shipped inside a program.",
    LICENSES: "What a shop calls. All of these need an API key.",
    GENERATORS: "A generator is a recipe that makes license keys: `prefix`, then `chunks` runs of "
    "`chunk_length` characters drawn from `charset` with `separator` between them, then `suffix`. All of "
    "these need an API key.",
    ADDRESSES: "For browsers and proxies: OPTIONS says which methods an address has, without credentials. "
    "HEAD answers with the headers of GET, where GET changes nothing.",
}

_MANY_LICENSES: Schema = {"type": "array", "items": ref("LicenseWithActivations")}
_NOTHING: Schema = {"type": "array", "maxItems": 0, "description": "Always empty."}
_BAD_GENERATOR: Errors = (e.GeneratorFieldInvalid, e.GeneratorFieldNotInteger)

OPERATIONS: dict[str, Operation] = {
    "activate": Operation(
        CORE,
        "Activate or reactivate",
        "Takes a place on the license: `timesActivated` goes up by one, and the answer holds the new "
        "activation with its `token`. Keep the token: it names this place in every later call.\n\n"
        "With `token`, the place of that deactivated activation is taken back instead: it counts like a "
        "new one, and `deactivated_at` is null again.\n\n"
        "Refused, looked at in this order: unknown key, expired, inactive or disabled, then the token, "
        "then the limit.",
        "The place is taken, durably.",
        ref("ActivatedLicense"),
        (
            e.UnknownLicense,
            e.LicenseExpired,
            e.LicenseInactive,
            e.LicenseDisabled,
            e.UnknownToken,
            e.AlreadyActivated,
            e.LimitReached,
            e.TooManyChanges,
            e.NoReadPermission,
        ),
        takes=inputs.ACTIVATION,
        example={"label": "Front desk", "meta": {"os": "linux", "version": "2.1"}},
    ),
    "validate": Operation(
        CORE,
        "Validate",
        "Reports the license and changes nothing. `activationData` holds all its activations, "
        "deactivated ones included, or with `token` the active one that has it.\n\n"
        "An expired, inactive or disabled license is reported like any other: look at `expiresAt` and "
        "`status`.",
        "What is known of the license.",
        ref("ValidatedLicense"),
        (e.UnknownLicense, e.TokenNotActive, e.NoReadPermission),
        takes=(inputs.TOKEN,),
        example={"token": inputs.TOKEN.example},
    ),
    "deactivate": Operation(
        CORE,
        "Deactivate",
        "Gives up the place with this `token`: `timesActivated` goes down by one. Without a token, every "
        "place of the license is given up.\n\n"
        "This works for expired, inactive and disabled licenses, too.",
        "The place, or every place, is given up, durably. `activationData` is one object with a token, and "
        "an array without one.",
        {"oneOf": [ref("ActivatedLicense"), ref("DeactivatedLicense")]},
        (e.UnknownLicense, e.TokenNotActive, e.NothingActive, e.NoReadPermission),
        takes=(inputs.TOKEN,),
        example={"token": inputs.TOKEN.example},
    ),
    "list_licenses": Operation(
        LICENSES,
        "List licenses",
        "Without `page` and `per_page`: all licenses that match, oldest first. With either: one page, and "
        "headers that say how many there are and where the next one is.",
        "The licenses.",
        _MANY_LICENSES,
        (e.NoLicenses, e.NoReadPermission),
        takes=inputs.LISTING,
    ),
    "create_license": Operation(
        LICENSES,
        "Create a license",
        "`license_key` is required, in the body or in the query.",
        "The license is made, durably.",
        ref("License"),
        (e.InvalidLicenseKey, e.LicenseKeyTaken, e.InvalidStatus, e.NoWritePermission),
        takes=inputs.LICENSE,
        required=("license_key",),
        example={
            "license_key": "KW7Q-2MXD-94TB-VH3C",
            "order_id": 1042,
            "product_id": 7,
            "user_id": 311,
            "expires_at": "2027-12-31",
            "times_activated_max": 3,
        },
    ),
    "get_license": Operation(
        LICENSES,
        "Get a license",
        "One license with all its activations.",
        "The license.",
        ref("LicenseWithActivations"),
        (e.UnknownLicense, e.NoReadPermission),
    ),
    "update_license": Operation(
        LICENSES,
        "Change a license",
        "Changes the fields that are sent and no others. PUT, PATCH and POST do the same.\n\n"
        "`id`, `hash`, `times_activated`, `source`, `created_at`, `created_by`, `updated_at` and "
        "`updated_by` may not be written: with one of them, or with an unknown field in the body, nothing "
        "is.",
        "The license after the change.",
        ref("License"),
        (
            e.UnknownLicense,
            e.NothingToChange,
            e.FieldNotWritable,
            e.InvalidStatus,
            e.InvalidLicenseKey,
            e.LicenseKeyTaken,
            e.NoWritePermission,
        ),
        takes=inputs.LICENSE,
        example={"expires_at": "2028-12-31", "times_activated_max": 5},
    ),
    "delete_license": Operation(
        LICENSES,
        "Delete a license",
        "Deletes the license and its activations.",
        "It is gone, durably.",
        _NOTHING,
        (e.UnknownLicense, e.NoWritePermission),
    ),
    "list_generators": Operation(
        GENERATORS,
        "List generators",
        "Every generator, oldest first.",
        "The generators.",
        {"type": "array", "items": ref("Generator")},
        (e.NoGenerators, e.NoReadPermission),
    ),
    "create_generator": Operation(
        GENERATORS,
        "Create a generator",
        "`name`, `charset`, `chunks` and `chunk_length` are required, in the body or in the query. Its keys "
        "may have at most 255 characters.",
        "The generator is made, durably.",
        ref("Generator"),
        (e.GeneratorFieldMissing, *_BAD_GENERATOR, e.NoWritePermission),
        takes=inputs.GENERATOR,
        required=("name", "charset", "chunks", "chunk_length"),
        example={
            "name": "Plugin, one year",
            "charset": "BCDFGHJKMPQRTVWXY2346789",
            "chunks": 4,
            "chunk_length": 5,
            "times_activated_max": 3,
            "separator": "-",
            "prefix": "PRO-",
            "expires_in": 365,
        },
    ),
    "get_generator": Operation(
        GENERATORS,
        "Get a generator",
        "One generator.",
        "The generator.",
        ref("Generator"),
        (e.UnknownGenerator, e.NoReadPermission),
    ),
    "update_generator": Operation(
        GENERATORS,
        "Change a generator",
        "Changes the fields that are sent and no others. PUT, PATCH and POST do the same. Licenses that "
        "were made before stay as they are.",
        "The generator after the change.",
        ref("Generator"),
        (e.UnknownGenerator, e.NothingToChange, *_BAD_GENERATOR, e.NoWritePermission),
        takes=inputs.GENERATOR,
        example={"times_activated_max": 5},
    ),
    "delete_generator": Operation(
        GENERATORS,
        "Delete a generator",
        "The licenses that it made stay.",
        "It is gone, durably.",
        _NOTHING,
        (e.UnknownGenerator, e.NoWritePermission),
    ),
    "generate": Operation(
        GENERATORS,
        "Generate licenses",
        "Makes `amount` licenses with new keys, all or none.",
        "The licenses are made, durably.",
        {"type": "array", "items": ref("License")},
        (e.UnknownGenerator, e.InvalidStatus, e.NoWritePermission),
        takes=inputs.GENERATION,
        required=("amount",),
        example={"amount": 1, "order_id": 1042, "product_id": 7, "user_id": 311},
    ),
}
