"""The records of the answers as JSON schemas: fields, order and types are those of ``wire``."""

from collections.abc import Mapping
from enum import IntEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

from keywright.core.parsing import MAX_COUNT, MAX_ID, MAX_LABEL_LENGTH, MAX_USER_AGENT_LENGTH
from keywright.http.v2.messages import PROBLEMS
from keywright.http.v2.wire import ActivationOut, GeneratorOut, LicenseOut
from keywright.licensing.activations.model import ActivationSource
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH
from keywright.licensing.licenses.model import LicenseSource, Status

Schema = dict[str, Any]

MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"


def ref(name: str) -> Schema:
    """A reference to a schema of this document."""
    return {"$ref": f"#/components/schemas/{name}"}


def success(data: Schema) -> Schema:
    """The envelope of a success."""
    properties = {"success": {"const": True, "description": "Always `true`."}, "data": data}
    return {"type": "object", "required": ["success", "data"], "properties": properties}


def failure(status: int, codes: list[str]) -> Schema:
    """The one body of every failure, narrowed to this status and these codes."""
    narrowed = {"code": {"enum": codes}, "data": {"properties": {"status": {"const": status}}}}
    return {"allOf": [ref("Failure"), {"properties": narrowed}]}


def meaning(numbers: type[IntEnum]) -> str:
    """What the numbers stand for, in words."""
    return ", ".join(f"{one.value} {_in_words(one)}" for one in numbers)


def _in_words(one: IntEnum) -> str:
    return one.name if one.name == "API" else one.name.lower()


def _number(description: str, least: int = 0, most: int = MAX_ID) -> Schema:
    return {"description": description, "minimum": least, "maximum": most, "format": "int64"}


def _count(description: str, least: int = 0, most: int = MAX_COUNT) -> Schema:
    return {"description": description, "minimum": least, "maximum": most, "format": "int32"}


def _digits(description: str) -> Schema:
    """A number that is written as a text, as typed clients of the format expect it."""
    return {"description": f"{description} A text of digits.", "pattern": "^(0|[1-9][0-9]{0,18})$"}


def _moment(description: str) -> Schema:
    return {"description": description, "pattern": MOMENT}


def _choice(description: str, numbers: type[IntEnum]) -> Schema:
    return {
        "description": f"{description}: {meaning(numbers)}.",
        "enum": [one.value for one in numbers],
    }


_CHANGED_BY = "The number of the API key that changed it last, or null."
_MADE_AT = "When it was made, in UTC."

#: What is known of a field beside its type.
_LICENSE: dict[str, Schema] = {
    "id": _number("The license's number in this installation.", 1),
    "orderId": _number("The order's number in your shop, or null. It is kept, not checked."),
    "productId": _number("The product's number in your shop, or null."),
    "userId": _number("The customer's number in your shop, or null."),
    "licenseKey": {
        "description": "The license key. Keys are compared byte for byte: case matters.",
        "minLength": 1,
        "maxLength": MAX_KEY_LENGTH,
    },
    "expiresAt": _moment("In UTC; the license is good up to, not including, this moment. Null: forever."),
    "validFor": _count(
        "Days, or null. While `expiresAt` is null, the first activation sets it to then plus that many days."
    ),
    "source": _choice("Where the license came from", LicenseSource),
    "status": _choice("What a person or a shop decided", Status),
    "timesActivated": _count("How many places are taken: the number of active records."),
    "timesActivatedMax": _count("How many places there are, or null: no limit.", 1),
    "createdAt": _moment(_MADE_AT),
    "createdBy": _number("The number of the API key that made it; 0: it was made in another way."),
    "updatedAt": _moment("When it was changed last; until the first change, this is `createdAt`."),
    "updatedBy": _number(_CHANGED_BY),
    "remainingActivations": _count(
        "Free places, or null: no limit. Below zero after the limit was set below what is taken.",
        -MAX_COUNT,
    ),
    "activationData": {"description": "The activation, or activations, that the answer is about."},
}
_ACTIVATION: dict[str, Schema] = {
    "id": _number("The activation's number in this installation.", 1),
    "token": {
        "description": "What names this place from now on: 40 lower-case hex characters.",
        "pattern": "^[0-9a-f]{40}$",
    },
    "license_id": _number("The license's `id`.", 1),
    "label": {"description": "The text that was sent with it, or null.", "maxLength": MAX_LABEL_LENGTH},
    "source": _choice("Where the activation came from", ActivationSource),
    "ip_address": {"description": "The client's address when it was made."},
    "user_agent": {
        "description": "The client's `User-Agent` when it was made; empty when it sent none.",
        "maxLength": MAX_USER_AGENT_LENGTH,
    },
    "meta_data": {"description": "The texts that were sent with it, by name, or null."},
    "created_at": _moment(_MADE_AT),
    "updated_at": _moment("When it was deactivated or reactivated last, in UTC, or null."),
    "deactivated_at": _moment("When its place was given up, in UTC; null while it is active."),
}
_GENERATOR: dict[str, Schema] = {
    "id": _number("The generator's number in this installation.", 1),
    "name": {"description": "What people call it."},
    "charset": {"description": "The characters that keys are drawn from."},
    "chunks": _count("How many runs of drawn characters a key has.", 1),
    "chunkLength": _count("How many characters a run has.", 1),
    "timesActivatedMax": _digits("How many places its licenses have, or null: no limit."),
    "separator": {"description": "What stands between two runs, or null."},
    "prefix": {"description": "What stands before the first run, or null."},
    "suffix": {"description": "What stands after the last run, or null."},
    "expiresIn": _digits(
        "Days that its licenses are good for, counted from their first activation, or null: always."
    ),
    "createdAt": _moment(_MADE_AT),
    "createdBy": _digits("The number of the API key that made it, or null."),
    "updatedAt": _moment("When it was changed last, in UTC."),
    "updatedBy": _digits(_CHANGED_BY),
}
_AUTHORS = {"createdBy", "updatedBy"}
_ONE = ref("Activation")
_MANY = {"type": "array", "items": _ONE, "description": "Its activations, oldest first."}


def schemas() -> dict[str, Schema]:
    """Every schema that the document names."""
    return {
        "ValidatedLicense": _license("A license as validation reports it.", set(), _MANY),
        "LicenseWithActivations": _license(
            "A license with all its activations, deactivated ones included.",
            {"remainingActivations"},
            _MANY,
        ),
        "License": _license("A license without its activations.", {"activationData", "remainingActivations"}),
        "ActivatedLicense": _license(
            "A license with the one activation that the call was about.",
            {*_AUTHORS, "remainingActivations"},
            _ONE,
        ),
        "DeactivatedLicense": _license(
            "A license with the activations that the call ended.",
            {*_AUTHORS, "remainingActivations"},
            _MANY,
        ),
        "Activation": _record("One place taken on a license.", ActivationOut, _ACTIVATION),
        "Generator": _record("A recipe that makes license keys.", GeneratorOut, _GENERATOR),
        "Failure": _failure(),
    }


def _license(description: str, left_out: set[str], activation_data: Schema | None = None) -> Schema:
    record = _record(description, LicenseOut, _LICENSE)
    properties = {name: one for name, one in record["properties"].items() if name not in left_out}
    if activation_data is not None:
        properties["activationData"] = activation_data
    return record | {"required": list(properties), "properties": properties}


def _record(description: str, struct: type[msgspec.Struct], known: Mapping[str, Schema]) -> Schema:
    """An object with the struct's fields, all of them required."""
    properties = {
        field.encode_name: _json_type(field.type) | known[field.encode_name]
        for field in msgspec.structs.fields(struct)
    }
    return {
        "type": "object",
        "description": description,
        "required": list(properties),
        "properties": properties,
    }


def _json_type(annotation: Any) -> Schema:
    """The JSON type of what a field holds; whether it may be left out is another question."""
    if get_origin(annotation) in (Union, UnionType):
        parts = [one for one in get_args(annotation) if one is not UnsetType]
        types = [_json_type(one) for one in parts]
        if len(types) == 1:
            return types[0]
        if {"type": "null"} in types and len(types) == 2:
            kind = next(one for one in types if one != {"type": "null"})
            return kind | {"type": [kind["type"], "null"]}
        return {"oneOf": types}
    if get_origin(annotation) is list:
        return {"type": "array", "items": _json_type(get_args(annotation)[0])}
    return _SIMPLE[annotation]


_SIMPLE: dict[Any, Schema] = {
    int: {"type": "integer"},
    str: {"type": "string"},
    type(None): {"type": "null"},
    Mapping[str, str]: {"type": "object", "additionalProperties": {"type": "string"}},
    ActivationOut: _ONE,
}


def _failure() -> Schema:
    codes = list(dict.fromkeys(problem.code for problem in PROBLEMS.values()))
    texts = {"type": "array", "items": {"type": "string"}}
    by_code = {"type": "object", "required": ["status"], "properties": {"status": {"type": "integer"}}}
    data = {
        "type": "object",
        "description": "The status once more; with `rest_invalid_param`, in `params`, what is wrong with "
        "which parameter; message and status by code, for clients that look there.",
        "required": ["status", "errors", "error_data"],
        "properties": {
            "status": {"type": "integer", "description": "The HTTP status once more."},
            "params": {
                "type": "object",
                "description": "With `rest_invalid_param` only: what is wrong with which parameter.",
                "additionalProperties": {"type": "string"},
            },
            "errors": {
                "type": "object",
                "description": "The message by its code, for clients that look here.",
                "additionalProperties": texts,
            },
            "error_data": {
                "type": "object",
                "description": "The status by the code.",
                "additionalProperties": by_code,
            },
        },
    }
    properties = {
        "success": {"const": False, "description": "Always `false`."},
        "code": {"type": "string", "enum": codes, "description": "What went wrong, for programs."},
        "message": {"type": "string", "description": "What went wrong, for people."},
        "data": data,
    }
    return {
        "type": "object",
        "description": "Why there is no success.",
        "required": list(properties),
        "properties": properties,
    }
