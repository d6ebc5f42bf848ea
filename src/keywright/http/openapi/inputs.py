"""What calls take: parameters, and the forms and JSON objects that hold them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keywright.core.parsing import MAX_COUNT, MAX_ID, MAX_LABEL_LENGTH, MAX_META_BYTES
from keywright.http.openapi.schemas import Schema, meaning
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH
from keywright.licensing.licenses.model import Status

_NO_NULL_CHARACTER = r"^[^\u0000]*$"
_NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
_MOST_AT_ONCE = 10_000
_MOST_PER_PAGE = 1000


class Field(NamedTuple):
    """One parameter: how it looks as a text (query and forms), and as a value in a JSON object."""

    name: str
    description: str
    as_text: Schema
    as_json: Schema
    example: Any


def _whole(name: str, description: str, example: int, *, least: int = 0, most: int = MAX_ID) -> Field:
    limits = {"minimum": least, "maximum": most, "format": "int64" if most > MAX_COUNT else "int32"}
    # Digits in a text are as good as a number; null is no value.
    as_json = {"type": ["integer", "string", "null"], **limits, "pattern": "^[0-9]{1,19}$"}
    return Field(name, description, {"type": "integer", **limits}, as_json, example)


def _needed(name: str, description: str, example: int, *, most: int) -> Field:
    """A number from 1 that may not be empty."""
    limits = {"minimum": 1, "maximum": most, "format": "int32"}
    as_json = {"type": ["integer", "string"], **limits, "pattern": f"^[1-9][0-9]{{0,{len(str(most)) - 1}}}$"}
    return Field(name, description, {"type": "integer", **limits}, as_json, example)


def _text(name: str, description: str, example: str, *, most: int, pattern: str, least: int = 0) -> Field:
    schema: Schema = {"type": "string", "maxLength": most, "pattern": pattern}
    if least:
        schema["minLength"] = least
        return Field(name, description, schema, schema, example)
    return Field(name, description, schema, schema | {"type": ["string", "null"]}, example)


_STATUS_NAMES = [one.name.lower() for one in Status]
_TIME = (
    r"^([0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"( ([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?"
    r"|T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?(Z|[+-][01][0-9]:[0-5][0-9])?)?)?$"
)
_TEXTS: Schema = {
    "propertyNames": {"pattern": _NO_NULL_CHARACTER},
    "additionalProperties": {"type": "string", "pattern": _NO_NULL_CHARACTER},
}

TOKEN = Field(
    "token",
    "The activation that is meant, by the token that its activation answered.",
    {"type": "string"},
    {"type": ["string", "null"]},
    "8d0f3b6e52c94a17a1c05de98b7f24630c5e1d9a",
)
_LABEL = _text(
    "label",
    "What a person would call this place: a host name, a site. It is kept with the activation.",
    "Front desk",
    most=MAX_LABEL_LENGTH,
    pattern=_NO_NULL_CHARACTER,
)
_META = Field(
    "meta",
    "More texts to keep with the activation, by name: `meta[os]=linux&meta[version]=2.1` in a query or a "
    f"form, an object in JSON; at most {MAX_META_BYTES} bytes as JSON.",
    {"type": "object", **_TEXTS},
    {"type": ["object", "null"], **_TEXTS},
    {"os": "linux", "version": "2.1"},
)
_STATUS = Field(
    "status",
    f"The name, in any case, or the number: {meaning(Status)}. A new license is `active` unless you say "
    "otherwise.",
    {"type": "string", "enum": [*_STATUS_NAMES, *(str(one.value) for one in Status)]},
    {"enum": [*_STATUS_NAMES, *(one.value for one in Status)]},
    "active",
)
_ORDER = _whole("order_id", "The order's number in your shop. It is kept, not checked.", 1042)
_PRODUCT = _whole("product_id", "The product's number in your shop.", 7)
_USER = _whole("user_id", "The customer's number in your shop.", 311)

ACTIVATION = (TOKEN, _LABEL, _META)
LICENSE = (
    _text(
        "license_key",
        "The key, 1 to 255 characters without control characters. White space around it is cut off; a number "
        "in JSON is taken as its text.",
        "KW7Q-2MXD-94TB-VH3C",
        most=MAX_KEY_LENGTH,
        least=1,
        pattern=_NO_CONTROLS,
    ),
    _ORDER,
    _PRODUCT,
    _USER,
    _STATUS,
    Field(
        "expires_at",
        "When the license ends: `YYYY-MM-DD HH:MM[:SS]`, `YYYY-MM-DD` (that day at 00:00:00), or ISO 8601 "
        "with `T`. An offset is honoured, without one it is UTC; fractions of a second are dropped. Null or "
        "empty: never. Setting it clears `valid_for`.",
        {"type": "string", "pattern": _TIME},
        {"type": ["string", "null"], "pattern": _TIME},
        "2027-12-31 00:00:00",
    ),
    _whole(
        "valid_for",
        "Days that the license is good for, counted from its first activation. Null or 0: not counted.",
        365,
        most=MAX_COUNT,
    ),
    _whole(
        "times_activated_max",
        "How many places there are. Null or 0: no limit.",
        3,
        most=MAX_COUNT,
    ),
)
GENERATOR = (
    _text("name", "What people call it.", "Plugin, one year", most=255, least=1, pattern=_NO_NULL_CHARACTER),
    _text(
        "charset",
        "The characters that keys are drawn from.",
        "BCDFGHJKMPQRTVWXY2346789",
        most=255,
        least=1,
        pattern=_NO_CONTROLS,
    ),
    _needed("chunks", "How many runs of drawn characters a key has.", 4, most=MAX_KEY_LENGTH),
    _needed("chunk_length", "How many characters a run has.", 5, most=MAX_KEY_LENGTH),
    _whole(
        "times_activated_max",
        "How many places its licenses have. Null or 0: no limit.",
        3,
        most=MAX_COUNT,
    ),
    _text("separator", "What stands between two runs.", "-", most=255, pattern=_NO_CONTROLS),
    _text("prefix", "What stands before the first run.", "PRO-", most=255, pattern=_NO_CONTROLS),
    _text("suffix", "What stands after the last run.", "", most=255, pattern=_NO_CONTROLS),
    _whole(
        "expires_in",
        "Days that its licenses are good for, counted from their first activation. Null or 0: not counted.",
        365,
        most=MAX_COUNT,
    ),
)
GENERATION = (
    _needed("amount", f"How many licenses to make, 1 to {_MOST_AT_ONCE}.", 1, most=_MOST_AT_ONCE),
    _STATUS,
    _ORDER,
    _PRODUCT,
    _USER,
)
LISTING = (
    _needed("page", "Which page, from 1. Without `page` and `per_page`: all licenses.", 1, most=MAX_COUNT),
    _needed(
        "per_page", "How many licenses a page has; 10 unless you say otherwise.", 50, most=_MOST_PER_PAGE
    ),
    _STATUS._replace(description=f"Only licenses with this status: {meaning(Status)}."),
    _PRODUCT._replace(description="Only licenses of this product."),
    _ORDER._replace(description="Only licenses of this order."),
    _USER._replace(description="Only licenses of this customer."),
)

IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes a repetition harmless: for 48 hours, the same call with the same key is "
    "answered what it was answered first, with `Idempotency-Replayed: true`, and changes nothing more. "
    "Take a new one, such as a UUID, for every new call.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]*$"},
}


def query_parameters(fields: Sequence[Field]) -> list[Schema]:
    """The fields as parameters of the query."""
    return [_query_parameter(field) for field in fields]


def _query_parameter(field: Field) -> Schema:
    parameter = {
        "name": field.name,
        "in": "query",
        "description": field.description,
        "schema": field.as_text,
        "example": field.example,
    }
    if field.as_text["type"] == "object":
        parameter |= {"style": "deepObject", "explode": True}
    return parameter


def body(
    fields: Sequence[Field], required: Sequence[str], example: Mapping[str, Any], *, only_these: bool
) -> Schema:
    """The fields as a JSON object, as a form, and as a multipart form.

    Unknown fields are refused with ``only_these``, and ignored without.
    """
    closed: Schema = {"additionalProperties": False} if only_these else {}
    form = _object([(field, field.as_text) for field in fields], required) | closed
    in_json = _object([(field, field.as_json) for field in fields], required) | closed
    written: Schema = {"schema": form}
    if any(field.as_text["type"] == "object" for field in fields):
        written["encoding"] = {"meta": {"style": "deepObject", "explode": True}}
    return {
        "description": "What is sent here wins over the query.",
        "content": {
            "application/json": {"schema": in_json, "example": dict(example)},
            "application/x-www-form-urlencoded": written,
            "multipart/form-data": {"schema": form},
        },
    }


def _object(fields: Sequence[tuple[Field, Schema]], required: Sequence[str]) -> Schema:
    properties = {field.name: schema | {"description": field.description} for field, schema in fields}
    schema: Schema = {"type": "object", "properties": properties}
    return schema | {"required": list(required)} if required else schema
