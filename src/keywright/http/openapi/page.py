"""The pages of the API: the reference, made from the OpenAPI document, and the landing page."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from keywright.http.openapi import curl
from keywright.http.openapi.document import ADDRESSES

_TEMPLATES = Path(__file__).with_name("templates")
_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_MARKS = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
_NAME_IN_PATH = re.compile(r"(\{\w+\})")
_NAME_IN_JSON = re.compile(r'^(\s*)("[^"]+")(?=:)', re.MULTILINE)
#: Headers of every answer.
_COMMON_HEADERS = ("Cache-Control", "X-Content-Type-Options")
#: Statuses whose reasons belong to the operation; every call may meet the others.
_OWN_STATUSES = ("403", "404")
_NO_ROUTE = "rest_no_route"


class Field(NamedTuple):
    """A parameter or a field of a record, as a row of a table."""

    name: str
    type: str
    description: str
    place: str = ""
    is_required: bool = False


class Reason(NamedTuple):
    """A reason for a failure, as a row of a table."""

    status: str
    message: str
    code: str
    description: str


class Call(NamedTuple):
    """An operation, with all methods that do the same at its path."""

    path: str
    methods: list[str]
    operation: dict[str, Any]
    parameters: list[Field]
    headers: list[str]
    reasons: list[Reason]
    curl: str


class Record(NamedTuple):
    """A record's fields; those of a part of the record ``whole`` are only the fields that differ."""

    name: str
    description: str
    fields: list[Field]
    whole: str = ""
    missing: tuple[str, ...] = ()


def render_reference(document: Mapping[str, Any], base: str) -> str:
    """The page about the interface; ``base`` is the URL of the interface as callers write it."""
    document = _with_components(document)
    calls = _calls(document, base)
    groups = [
        (tag, [call for call in calls if tag["name"] in call.operation["tags"]]) for tag in document["tags"]
    ]
    return render(
        "reference.html",
        document=document,
        groups=groups,
        addresses=ADDRESSES,
        records=_records(document),
        reasons=_all_reasons(document),
    )


def render(template: str, **context: Any) -> str:
    """A page from its template. Its style is inside, and needs ``security_policy``."""
    return _environment().get_template(template).render(style=_style(), **context)


@cache
def security_policy() -> str:
    """The Content-Security-Policy of a page: its own style, and nothing else from anywhere."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@cache
def _style() -> str:
    return (_TEMPLATES / "page.css").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        anchor=lambda name: name.lower().replace(" ", "-"),
        split_json=lambda value: _split(_NAME_IN_JSON, json.dumps(value, indent=2, ensure_ascii=False)),
        split_marks=lambda text: _split(_MARKS, text),
        split_names=lambda path: _split(_NAME_IN_PATH, path),
    )
    return environment


def _split(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, ...]]:
    """The text before each match, together with the groups of the match; they are empty at the end."""
    step = pattern.groups + 1
    parts = [*pattern.split(text), *([""] * pattern.groups)]
    return (tuple(parts[start : start + step]) for start in range(0, len(parts), step))


def _with_components(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its shared bodies and responses put where it refers to them."""

    def resolve(part: Any) -> Any:
        match part:
            case {"$ref": str(ref)} if not ref.startswith("#/components/schemas/"):
                _, _, kind, name = ref.split("/")
                return resolve(document["components"][kind][name])
            case dict():
                return {name: resolve(one) for name, one in part.items()}
            case list():
                return [resolve(one) for one in part]
        return part

    resolved: dict[str, Any] = resolve(document)
    return resolved


def _calls(document: dict[str, Any], base: str) -> list[Call]:
    """The operations; methods that do the same at a path are one call."""
    methods: dict[tuple[str, str], list[str]] = {}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                name = item[method]["operationId"].partition("_by_")[0]
                is_about_address = ADDRESSES in item[method]["tags"]
                methods.setdefault((path, "" if is_about_address else name), []).append(method)
    return [_call(document, path, same, base) for (path, _), same in methods.items()]


def _call(document: dict[str, Any], path: str, methods: list[str], base: str) -> Call:
    item = document["paths"][path]
    operation = item[methods[0]]
    parameters = [*item.get("parameters", []), *operation.get("parameters", [])]
    bodies = [item[one]["requestBody"]["content"] for one in methods if "requestBody" in item[one]]
    body: dict[str, Any] = bodies[0] if bodies else {}
    responses = operation["responses"]
    reasons = [
        one for status in _OWN_STATUSES for one in _reasons(responses, status) if one.code != _NO_ROUTE
    ]
    return Call(
        path,
        methods,
        operation,
        [_parameter(one, body) for one in parameters],
        [name for name in responses["200"].get("headers", ()) if name not in _COMMON_HEADERS],
        reasons,
        curl.line(base + path, methods[0], operation, parameters, body),
    )


def _parameter(parameter: dict[str, Any], body: dict[str, Any]) -> Field:
    """One row for a parameter, wherever it may be sent."""
    name, place = parameter["name"], parameter["in"]
    in_body = body.get("application/x-www-form-urlencoded", {}).get("schema", {})
    return Field(
        name,
        _type(parameter["schema"]),
        parameter["description"],
        "query or body" if place == "query" and name in in_body.get("properties", ()) else place,
        parameter.get("required", False) or name in in_body.get("required", ()),
    )


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a schema's values in words."""
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2]).lower()
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}s"
    return str(schema["type"]).replace("string", "text")


def _reasons(responses: dict[str, Any], status: str) -> list[Reason]:
    content = responses.get(status, {}).get("content", {}).get("application/json", {})
    return [
        Reason(status, one["value"]["message"], one["value"]["code"], one["description"])
        for one in content.get("examples", {}).values()
    ]


def _all_reasons(document: dict[str, Any]) -> list[Reason]:
    """Each reason for a failure of any operation, once."""
    reasons = {
        (one.status, one.message): one
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
        for status in operation["responses"]
        if status != "200"
        for one in _reasons(operation["responses"], status)
    }
    return sorted(reasons.values(), key=lambda one: one.status)


def _records(document: dict[str, Any]) -> Iterator[Record]:
    """The records, the largest first; of one that is a part of an earlier one, the difference."""
    shown: dict[str, dict[str, Field]] = {}
    schemas = document["components"]["schemas"].items()
    for name, schema in sorted(schemas, key=lambda one: -len(one[1]["properties"])):
        fields = {
            field: Field(field, _type(one), one.get("description", ""))
            for field, one in schema["properties"].items()
        }
        whole = next((one for one in shown if fields.keys() <= shown[one].keys()), "")
        if whole:
            missing = tuple(field for field in shown[whole] if field not in fields)
            other = [one for field, one in fields.items() if one.type != shown[whole][field].type]
            yield Record(name, schema["description"], other, whole, missing)
        else:
            shown[name] = fields
            yield Record(name, schema["description"], list(fields.values()))
