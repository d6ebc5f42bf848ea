"""The records and parameters of v2 as types, each field with a description and an example.

``wire`` writes the records, and the OpenAPI document is made from all types. A parameter's type is what a
JSON body may hold; the handlers read parameters, and refuse wrong values in the words of the contract.
"""

# Annotations are evaluated when the document is made: at import, they would take as long as all else here.
from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from keywright.core.examples import EXAMPLE_KEY, EXAMPLE_TOKEN
from keywright.core.parsing import MAX_COUNT, MAX_ID, MAX_LABEL_LENGTH, MAX_META_BYTES, MAX_USER_AGENT_LENGTH
from keywright.licensing.activations.model import ActivationSource
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH
from keywright.licensing.licenses.model import LicenseSource, Status

MAX_GENERATED = 10_000
MAX_PER_PAGE = 1000
MAX_TEXT_LENGTH = 255


def _about(description: str, *examples: object) -> Meta:
    return Meta(description=description, examples=list(examples) or None)


def _integer(least: int, most: int) -> Meta:
    return Meta(ge=least, le=most, extra_json_schema={"format": "int32" if most <= MAX_COUNT else "int64"})


def _like(pattern: str, max_length: int | None = None, min_length: int | None = None) -> Meta:
    # Meta(pattern=…) would compile the pattern at import, though nothing is decoded with it.
    return Meta(extra_json_schema={"pattern": pattern}, max_length=max_length, min_length=min_length)


def _names(numbers: type[IntEnum]) -> str:
    return ", ".join(f"{one.value} {'API' if one.name == 'API' else one.name.lower()}" for one in numbers)


def _one_of(numbers: type[IntEnum]) -> Meta:
    return Meta(extra_json_schema={"enum": [one.value for one in numbers]})


_NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
_NO_NULL_CHARACTER = r"^[^\u0000]*$"
_DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_HOUR, _MINUTES = "([01][0-9]|2[0-3])", ":[0-5][0-9]"
_ISO_TIME = rf"T{_HOUR}{_MINUTES}({_MINUTES}(\.[0-9]+)?)?(Z|[+-][01][0-9]{_MINUTES})?"

Id = Annotated[int, _integer(1, MAX_ID)]
Number = Annotated[int, _integer(0, MAX_ID)]
Count = Annotated[int, _integer(0, MAX_COUNT)]
Positive = Annotated[int, _integer(1, MAX_COUNT)]
Balance = Annotated[int, _integer(-MAX_COUNT, MAX_COUNT)]
#: A number as text: published typed clients read it so.
Digits = Annotated[str, _like("^(0|[1-9][0-9]{0,18})$")]
Time = Annotated[str, _like("^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$")]
Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH)]
Token = Annotated[str, _like("^[0-9a-f]{40}$")]
Label = Annotated[str, Meta(max_length=MAX_LABEL_LENGTH)]
UserAgent = Annotated[str, Meta(max_length=MAX_USER_AGENT_LENGTH)]
Nothing = Annotated[list[None], Meta(max_length=0, description="Always empty.")]

# --- records ------------------------------------------------------------------------------------------

_CREATED, _UPDATED = "2026-01-12 09:30:05", "2026-03-02 17:04:41"
CreatedAt = Annotated[Time, _about("Creation time, in UTC.", _CREATED)]
UpdatedAt = Annotated[Time, _about("Time of the last change, in UTC; at first, `createdAt`.", _UPDATED)]


class Activation(Struct, gc=False):
    """One place taken on a license."""

    id: Annotated[Id, _about("The activation's number in this installation.", 501)]
    token: Annotated[Token, _about("The name of this place: 40 lower-case hex characters.", EXAMPLE_TOKEN)]
    license_id: Annotated[Id, _about("The license's `id`.", 42)]
    label: Annotated[Label | None, _about("The label that its call sent.", "Front desk")]
    source: Annotated[int, _one_of(ActivationSource), _about(f"The origin: {_names(ActivationSource)}.", 2)]
    ip_address: Annotated[str, _about("The client's address at the activation.", "203.0.113.7")]
    user_agent: Annotated[UserAgent, _about("The client's `User-Agent`, or an empty text.", "Plugin/2.1")]
    meta_data: Annotated[
        Mapping[str, str] | None, _about("The `meta` that its call sent.", {"os": "linux", "version": "2.1"})
    ]
    created_at: Annotated[Time, _about("Creation time, in UTC.", _UPDATED)]
    updated_at: Annotated[Time | None, _about("Time of the last deactivation or reactivation, in UTC.", None)]
    deactivated_at: Annotated[
        Time | None, _about("Time of the deactivation, in UTC; null while it is active.", None)
    ]


class _License(Struct, rename="camel", gc=False):
    """The fields that every answer about a license begins with."""

    id: Annotated[Id, _about("The license's number in this installation.", 42)]
    order_id: Annotated[Number | None, _about("The order's number in your shop; stored, not checked.", 1042)]
    product_id: Annotated[Number | None, _about("The product's number in your shop.", 7)]
    user_id: Annotated[Number | None, _about("The customer's number in your shop.", 311)]
    license_key: Annotated[
        Key, _about("The license key. Case matters: keys are compared byte for byte.", EXAMPLE_KEY)
    ]
    expires_at: Annotated[
        Time | None,
        _about(
            "Expiry time, in UTC: the license is valid up to, not including, this time. Null: no end.",
            "2027-12-31 00:00:00",
        ),
    ]
    valid_for: Annotated[
        Count | None,
        _about("Days of validity, from the first activation on, which sets `expiresAt` if it is null.", None),
    ]
    source: Annotated[int, _one_of(LicenseSource), _about(f"The origin: {_names(LicenseSource)}.", 3)]
    status: Annotated[int, _one_of(Status), _about(f"As set by a person or a shop: {_names(Status)}.", 3)]
    times_activated: Annotated[
        Count, _about("Number of places taken, which is the number of active activations.", 1)
    ]
    times_activated_max: Annotated[Positive | None, _about("Number of places. Null: no limit.", 3)]
    created_at: CreatedAt


class License(_License, rename="camel", gc=False):
    """A license without its activations."""

    created_by: Annotated[Number, _about("Number of the API key that created it; 0: created otherwise.", 1)]
    updated_at: UpdatedAt
    updated_by: Annotated[Number | None, _about("Number of the API key that last changed it.", None)]


_Activations = Annotated[list[Activation], _about("Its activations, oldest first.")]


class LicenseWithActivations(License, rename="camel", gc=False):
    """A license with its activations, deactivated ones included."""

    activation_data: _Activations


class ValidatedLicense(License, rename="camel", gc=False):
    """A license as validation reports it."""

    remaining_activations: Annotated[
        Balance | None,
        _about("Number of free places; negative if the limit is below the places taken. Null: no limit.", 2),
    ]
    activation_data: _Activations


class ActivatedLicense(_License, rename="camel", gc=False):
    """A license with the activation that the call has created or reactivated."""

    updated_at: UpdatedAt
    activation_data: Annotated[Activation, _about("The activation.")]


class DeactivatedLicense(_License, rename="camel", gc=False):
    """A license with what the call has deactivated."""

    updated_at: UpdatedAt
    activation_data: Annotated[
        Activation | list[Activation], _about("With `token`, one activation; without, an array of them.")
    ]


class Generator(Struct, rename="camel"):
    """A recipe for license keys. Four of its numbers are text, as typed clients of the format expect."""

    id: Annotated[Id, _about("The generator's number in this installation.", 3)]
    name: Annotated[str, _about("A name for people.", "Plugin, one year")]
    charset: Annotated[str, _about("The characters that keys are drawn from.", "BCDFGHJKMPQRTVWXY2346789")]
    chunks: Annotated[Positive, _about("Number of runs of random characters in a key.", 4)]
    chunk_length: Annotated[Positive, _about("Number of characters in a run.", 5)]
    times_activated_max: Annotated[
        Digits | None, _about("Number of places of its licenses. Null: no limit.", "3")
    ]
    separator: Annotated[str | None, _about("The text between two runs.", "-")]
    prefix: Annotated[str | None, _about("The text before the first run.", "PRO-")]
    suffix: Annotated[str | None, _about("The text after the last run.", None)]
    expires_in: Annotated[
        Digits | None,
        _about(
            "Days of validity of its licenses, from their first activation on. Null: no such limit.", "365"
        ),
    ]
    created_at: CreatedAt
    created_by: Annotated[Digits | None, _about("Number of the API key that created it.", "1")]
    updated_at: UpdatedAt
    updated_by: Annotated[Digits | None, _about("Number of the API key that last changed it.", None)]


class Methods(Struct):
    """The methods of an address."""

    methods: Annotated[list[str], _about("As in `Allow`.")]


_StatusOfCode = Annotated[dict[str, int], Meta(extra_json_schema={"required": ["status"]})]


class FailureData(Struct):
    """The status, message and code of a failure again, for clients that look here."""

    status: Annotated[int, _about("The HTTP status.")]
    errors: Annotated[dict[str, list[str]], _about("The message by its code.")]
    error_data: Annotated[dict[str, _StatusOfCode], _about("The status by its code.")]
    params: Annotated[
        dict[str, str] | UnsetType, _about("With `rest_invalid_param`: the reason, by wrong parameter.")
    ] = UNSET


class Failure(Struct):
    """The body of every failure."""

    success: Annotated[bool, Meta(description="Always `false`.", extra_json_schema={"const": False})]
    code: Annotated[str, _about("The reason, for programs.")]
    message: Annotated[str, _about("The reason, for people.")]
    data: Annotated[FailureData, _about("Details.")]


# --- parameters ---------------------------------------------------------------------------------------

# Digits in a text are as good as a number; null is no value.
_NumberOrText = Number | Annotated[str, _like("^[0-9]{1,19}$")] | UnsetType | None
_CountOrText = Count | Annotated[str, _like("^[0-9]{1,19}$")] | UnsetType | None
_Length = Annotated[int, _integer(1, MAX_KEY_LENGTH)] | Annotated[str, _like("^[1-9][0-9]{0,2}$")] | UnsetType
_Amount = Annotated[int, _integer(1, MAX_GENERATED)] | Annotated[str, _like("^[1-9][0-9]{0,4}$")]
_PageSize = Annotated[int, _integer(1, MAX_PER_PAGE)] | UnsetType
_Text = Annotated[str, _like(_NO_CONTROLS, max_length=MAX_TEXT_LENGTH)] | UnsetType | None
_Filled = Annotated[str, _like(_NO_CONTROLS, min_length=1, max_length=MAX_TEXT_LENGTH)] | UnsetType
_FilledName = Annotated[str, _like(_NO_NULL_CHARACTER, min_length=1, max_length=MAX_TEXT_LENGTH)] | UnsetType
_Label = Annotated[str, _like(_NO_NULL_CHARACTER, max_length=MAX_LABEL_LENGTH)] | UnsetType | None
_AnyText = Annotated[str, _like(_NO_NULL_CHARACTER)]
_Time = (
    Annotated[str, _like(f"^({_DATE}( {_HOUR}{_MINUTES}({_MINUTES})?|{_ISO_TIME})?)?$")] | UnsetType | None
)
_STATUSES = [*(one.name.lower() for one in Status), *(one.value for one in Status)]
_Status = Annotated[Any | UnsetType, Meta(extra_json_schema={"enum": _STATUSES})]

LicenseKey = Annotated[
    _Filled,
    _about(
        "1 to 255 characters, no control characters. White space around it is removed, and a number in "
        "JSON is read as its text.",
        EXAMPLE_KEY,
    ),
]
LicenseStatus = Annotated[
    _Status,
    _about(
        f"The name, in any case, or the number: {_names(Status)}. A new license is active by default.",
        "active",
    ),
]
OrderId = Annotated[_NumberOrText, _about("The order's number in your shop; stored, not checked.", 1042)]
ProductId = Annotated[_NumberOrText, _about("The product's number in your shop.", 7)]
UserId = Annotated[_NumberOrText, _about("The customer's number in your shop.", 311)]
Name = Annotated[_FilledName, _about("A name for people.", "Plugin, one year")]
Charset = Annotated[_Filled, _about("The characters that keys are drawn from.", "BCDFGHJKMPQRTVWXY2346789")]
Chunks = Annotated[_Length, _about("Number of runs of random characters in a key.", 4)]
ChunkLength = Annotated[_Length, _about("Number of characters in a run.", 5)]


class NoParameters(Struct):
    """None."""


class TokenParameters(Struct):
    """The parameters of validate and deactivate."""

    token: Annotated[
        str | UnsetType | None, _about("The token of the activation that the call is about.", EXAMPLE_TOKEN)
    ] = UNSET


class ActivationParameters(TokenParameters):
    """The parameters of activate."""

    label: Annotated[
        _Label,
        _about(
            "A name for this place, such as a host name or a site. It is stored with the activation.",
            "Front desk",
        ),
    ] = UNSET
    meta: Annotated[
        dict[_AnyText, _AnyText] | UnsetType | None,
        _about(
            "More texts to store with the activation, by name: `meta[os]=linux&meta[version]=2.1` in a query "
            f"or a form, an object in JSON; at most {MAX_META_BYTES} bytes as JSON.",
            {"os": "linux", "version": "2.1"},
        ),
    ] = UNSET


class LicenseParameters(Struct, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a change to a license."""

    license_key: LicenseKey = UNSET
    order_id: OrderId = UNSET
    product_id: ProductId = UNSET
    user_id: UserId = UNSET
    status: LicenseStatus = UNSET
    expires_at: Annotated[
        _Time,
        _about(
            "Expiry time: `YYYY-MM-DD HH:MM[:SS]`, `YYYY-MM-DD` (at 00:00:00) or ISO 8601 with `T`; UTC "
            "unless it has an offset; fractions of a second are dropped. Null or empty: no end. Setting it "
            "clears `valid_for`.",
            "2027-12-31 00:00:00",
        ),
    ] = UNSET
    valid_for: Annotated[
        _CountOrText, _about("Days of validity, from the first activation on. Null or 0: no such limit.", 365)
    ] = UNSET
    times_activated_max: Annotated[_CountOrText, _about("Number of places. Null or 0: no limit.", 3)] = UNSET


class NewLicense(LicenseParameters, kw_only=True, forbid_unknown_fields=False):
    """The parameters of a new license."""

    license_key: LicenseKey


class GeneratorParameters(Struct, kw_only=True):
    """The parameters of a change to a generator."""

    name: Name = UNSET
    charset: Charset = UNSET
    chunks: Chunks = UNSET
    chunk_length: ChunkLength = UNSET
    times_activated_max: Annotated[
        _CountOrText, _about("Number of places of its licenses. Null or 0: no limit.", 3)
    ] = UNSET
    separator: Annotated[_Text, _about("The text between two runs.", "-")] = UNSET
    prefix: Annotated[_Text, _about("The text before the first run.", "PRO-")] = UNSET
    suffix: Annotated[_Text, _about("The text after the last run.", "")] = UNSET
    expires_in: Annotated[
        _CountOrText,
        _about(
            "Days of validity of its licenses, from their first activation on. Null or 0: no such limit.", 365
        ),
    ] = UNSET


class NewGenerator(GeneratorParameters, kw_only=True):
    """The parameters of a new generator."""

    name: Name
    charset: Charset
    chunks: Chunks
    chunk_length: ChunkLength


class GenerationParameters(Struct):
    """The parameters of generate."""

    amount: Annotated[_Amount, _about(f"Number of licenses to create, 1 to {MAX_GENERATED}.", 1)]
    status: LicenseStatus = UNSET
    order_id: OrderId = UNSET
    product_id: ProductId = UNSET
    user_id: UserId = UNSET


class ListParameters(Struct):
    """The parameters of a list of licenses."""

    page: Annotated[
        Positive | UnsetType,
        _about("The page, from 1. Without `page` and `per_page`, all licenses are listed.", 1),
    ] = UNSET
    per_page: Annotated[_PageSize, _about("Number of licenses on a page. The default is 10.", 50)] = UNSET
    status: Annotated[_Status, _about(f"Only licenses with this status: {_names(Status)}.", "active")] = UNSET
    product_id: Annotated[_NumberOrText, _about("Only licenses of this product.", 7)] = UNSET
    order_id: Annotated[_NumberOrText, _about("Only licenses of this order.", 1042)] = UNSET
    user_id: Annotated[_NumberOrText, _about("Only licenses of this customer.", 311)] = UNSET
