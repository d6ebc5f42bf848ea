"""Builds the OpenAPI 3.1 document of v3 from its routes, its types and the table of problems."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import NODEFAULT, UNSET, inspect

from keywright import __version__
from keywright.config import Settings
from keywright.core.errors.problems import PROBLEMS
from keywright.http.middleware.routing import Right
from keywright.http.openapi import schemas
from keywright.http.openapi.schemas import Schema
from keywright.http.openapi.update_frameworks import TAG, build_paths
from keywright.http.v3.answers import PAGES
from keywright.http.v3.route import JSON_TYPE, Route
from keywright.http.v3.routes import ROUTES
from keywright.http.v3.schemas import Problem

_TIME = "2026-11-22T08:54:00Z"
_OF_TYPE: dict[type[inspect.Type], Any] = {
    inspect.AnyType: "…",
    inspect.BoolType: True,
    inspect.DateTimeType: _TIME,
    inspect.FloatType: 1.5,
    inspect.NoneType: None,
    inspect.StrType: "…",
}


def example_of(kind: Any) -> Any:
    """Return an example of a type as JSON: each member's first example, else a value that its type allows."""
    return _example(inspect.type_info(kind))


def _example(node: inspect.Type) -> Any:
    match node:
        case inspect.Metadata():
            examples = (node.extra_json_schema or {}).get("examples")
            return msgspec.to_builtins(examples[0]) if examples else _example(node.type)
        case inspect.StructType():
            return {one.encode_name: _example(one.type) for one in node.fields if not _is_optional(one)}
        case inspect.ListType():
            return [_example(node.item_type)]
        case inspect.DictType():
            return {}
        case inspect.UnionType():
            return _example(node.types[0])
    return _simple_example(node)


def _simple_example(node: inspect.Type) -> Any:
    match node:
        case inspect.LiteralType():
            return node.values[0]
        case inspect.EnumType():
            return next(iter(node.cls)).value
        case inspect.IntType():
            return node.ge or 1
    return _OF_TYPE[type(node)]


def _is_optional(field: inspect.Field) -> bool:
    """Whether an answer may leave the member out."""
    has_default = field.default is not NODEFAULT or field.default_factory is not NODEFAULT
    return field.default is UNSET or not (field.required or has_default)


_INTRODUCTION = Path(__file__).with_name("templates") / "v3.md"
CLIENT, META = "Client calls", "Meta"
_TAGS = {
    CLIENT: "The calls of shipped programs. The license key is the credential: no secret is shipped inside a "
    "program.",
    META: "The interface itself, and the API key that calls it.",
    "Signing keys": "The public keys that verify signed answers.",
    "Products": "What you sell.",
    "Policies": "The recipes for licenses: their terms and the format of their keys.",
    "Jobs": "Long-running work that a call starts.",
    "Customers": "The people and companies that have licenses.",
    "Licenses": "Licenses, with their activations, leases and usage.",
    "Events": "What happened, in order.",
    "Webhooks": "URLs that are notified of events.",
    "Connections": "Shops whose sales create licenses.",
    "Usage": "The usage that the meters of licenses count, by period.",
    TAG: "The calls of apps that update with Electron, Velopack, Sparkle or Tauri.",
}
_PROBLEM_TYPE, _FORM = "application/problem+json", "application/x-www-form-urlencoded"
_SECURITY_SCHEMES: Schema = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of an API key: `kw_` and 80 hex characters.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "The consumer key as user name, the consumer secret as password.",
    },
}
#: ``bearer`` comes last because generated clients that get only a token use the last scheme.
_API_KEY: list[Schema] = [{"basic": []}, {"bearer": []}]
#: The problems that every call may answer with.
_ANY = (
    "not_found method_not_allowed not_acceptable invalid_parameter too_many_requests internal_error busy "
    "database_unavailable shutting_down"
).split()
_WITH_BODY = ["malformed_body", "body_too_large", "unsupported_media_type", "invalid"]
_OF_CHANGES = ["idempotency_key_in_use", "idempotency_key_reused", "fate_unknown"]
_WITH_KEY = ["credentials_missing", "credentials_invalid", "not_permitted"]


def _header(name: str, description: str) -> Schema:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


_IDEMPOTENCY_KEY = _header(
    "Idempotency-Key",
    "Makes it safe to repeat the call: for at least 24 hours, the same call with the same key gets the first "
    "answer again, with `Idempotency-Replayed: true`. Use a new key, such as a UUID, for each new call.",
)
_IF_MATCH = _header(
    "If-Match", "The `ETag` that you know: if the current one differs, nothing is changed (412)."
)


def build(settings: Settings, routes: Sequence[Route] = ROUTES) -> dict[str, Any]:
    """Build the document for an installation with these settings. Slow, so cache the result."""
    base = f"/{settings.v3_root}"
    builder = _Builder(routes, is_open=not settings.require_api_key)
    paths: dict[str, Schema] = defaultdict(dict)
    for route in routes:
        paths[route.public_path][route.method.lower()] = builder.build_operation(route)
    tags = dict.fromkeys(_tag(one) for one in sorted(routes, key=lambda one: not one.is_client))
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Keywright license API, v3",
            "summary": "Client calls of shipped programs, and the management API of vendors.",
            "description": _INTRODUCTION.read_text(encoding="utf-8").format(base=base),
            "version": __version__,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": base, "description": "This server"}],
        "tags": [{"name": tag, "description": _TAGS.get(tag, tag)} for tag in (*tags, TAG)],
        "paths": paths | build_paths(),
        "components": {
            "schemas": builder.records,
            "examples": {code: _example_of_problem(code) for code in PROBLEMS},
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


class _Builder:
    """Builds the operations; ``records`` holds the schemas that they share."""

    def __init__(self, routes: Sequence[Route], *, is_open: bool) -> None:
        """``is_open``: whether client calls work without an API key."""
        self._is_open = is_open
        bodies = [one.body.struct for one in routes if one.body is not None]
        queries = [one.query.struct for one in routes if one.query is not None]
        answers = [one for route in routes for one in (route.gives, route.or_gives) if one is not None]
        self._schemas, records = schemas.components([*bodies, *answers, Problem])
        self.records = schemas.inline_enums(records)
        schemas.state_what_is_optional(self.records, [self._schemas[one] for one in bodies])
        schemas.name_open_objects(self.records)
        self._queries = {
            one: schemas.inline_enums(schemas.components([one])[1])[one.__name__]["properties"]
            for one in queries
        }
        self.records["Problem"]["properties"]["code"]["enum"] = list(PROBLEMS)

    def build_operation(self, route: Route) -> Schema:
        """Build the operation of a route."""
        summary, *description = route.text.split("\n\n")
        operation: Schema = {
            "operationId": route.operation,
            "tags": [_tag(route)],
            "summary": summary.rstrip("."),
            "description": "\n\n".join(one.replace("\n", " ") for one in description),
            "parameters": self._parameters(route),
            "security": self._security(route),
            "responses": self._responses(route),
        }
        if route.body is not None:
            schema = self._schemas[route.body.struct]
            content: Schema = {JSON_TYPE: {"schema": schema, "example": dict(route.example)}}
            if route.is_client:
                content[_FORM] = {"schema": schema}
            operation["requestBody"] = {"required": route.needs_body, "content": content}
        return operation

    def _security(self, route: Route) -> list[Schema]:
        if route.right is Right.NONE:
            return []
        return [{}, *_API_KEY] if route.is_client and self._is_open else _API_KEY

    def _parameters(self, route: Route) -> list[Schema]:
        parameters = [_path_parameter(route, *one) for one in route.parameters]
        if route.query is not None:
            properties = self._queries[route.query.struct]
            parameters += [_query_parameter(name, schema) for name, schema in properties.items()]
        if route.method in ("POST", "PATCH") and route.changes:
            parameters.append(_IDEMPOTENCY_KEY)
        if route.method in ("PATCH", "DELETE"):
            parameters.append(_IF_MATCH)
        return parameters

    def _responses(self, route: Route) -> Schema:
        responses = {str(one): self._success(route, one) for one in (route.status, *route.also)}
        by_status: dict[int, list[str]] = defaultdict(list)
        for code in sorted(problems_of(route), key=list(PROBLEMS).index):
            by_status[PROBLEMS[code].status].append(code)
        return responses | {str(status): _failure(codes) for status, codes in sorted(by_status.items())}

    def _success(self, route: Route, status: int) -> Schema:
        response: Schema = {"description": HTTPStatus(status).phrase}
        content: Schema = {}
        if route.gives is not None:
            kinds = [self._schemas[one] for one in (route.gives, route.or_gives) if one is not None]
            schema = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
            content[JSON_TYPE] = {"schema": schema, "example": example_of(route.gives)}
            content |= {one: {"schema": {"type": "string"}} for one in route.produces if one != JSON_TYPE}
        elif route.produces != (JSON_TYPE,):
            content |= {one: {"schema": {"type": "string"}} for one in route.produces}
        if content:
            response["content"] = content
        if status == HTTPStatus.CREATED:
            described = {"description": "The path of the created resource.", "schema": {"type": "string"}}
            response["headers"] = {"Location": described}
        return response


def problems_of(route: Route) -> set[str]:
    """Return every problem code that the route may answer with."""
    codes = {*_ANY, *route.refusals}
    if route.body is not None:
        codes.update(_WITH_BODY)
    if route.right is not Right.NONE:
        codes.update(_WITH_KEY)
    if not route.is_client:
        codes.add("unknown_parameter")
    if route.changes:
        codes.update(_OF_CHANGES)
    if route.method in ("PATCH", "DELETE"):
        codes.add("changed_meanwhile")
    return codes


def example_url(route: Route, base: str) -> str:
    """Return the URL of the route's example call; ``base`` is the URL of the interface."""
    words = {name: _example_word(route, name) for name, _ in route.parameters}
    is_query = route.body is None and route.example
    query = f"?{urlencode({name: _to_text(one) for name, one in route.example.items()})}" if is_query else ""
    return base + route.public_path.format(**words) + query


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tag(route: Route) -> str:
    if route.is_client:
        return CLIENT
    first = route.words[0] if route.words else None
    return META if first in (None, "me") else str(first).replace("-", " ").capitalize()


def _example_word(route: Route, name: str) -> Any:
    is_text = dict(route.parameters)[name]
    return route.example_path.get(name, "8d0f3b6e52c94a17a1c05de98b7f2463" if is_text else 17)


def _path_parameter(route: Route, name: str, is_text: bool) -> Schema:
    integer = {"type": "integer", "minimum": 1, "format": "int64"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"The {name.removesuffix('_id').replace('_', ' ')}'s `id`.",
        "schema": {"type": "string"} if is_text else integer,
        "example": _example_word(route, name),
    }


def _query_parameter(name: str, schema: Schema) -> Schema:
    schema = schemas.as_text(schema)
    description, examples = schema.pop("description", ""), schema.pop("examples", [None])
    parameter = {"name": name, "in": "query", "description": description, "schema": schema}
    return parameter if examples[0] is None else parameter | {"example": examples[0]}


def _failure(codes: list[str]) -> Schema:
    """Build the response of one status, with an example for each code that it may have."""
    examples = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
    content = {_PROBLEM_TYPE: {"schema": schemas.ref("Problem"), "examples": examples}}
    return {"description": HTTPStatus(PROBLEMS[codes[0]].status).phrase, "content": content}


def _example_of_problem(code: str) -> Schema:
    problem = PROBLEMS[code]
    return {
        "summary": problem.title,
        "description": problem.meaning,
        "value": {
            "type": f"{PAGES}/{code}",
            "title": problem.title,
            "status": problem.status,
            "detail": problem.detail or f"{problem.title}.",
            "code": code,
        },
    }


#: A key that every YAML parser reads as a text without quotes.
_PLAIN_KEY = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_$/][\w$/{}+.-]*", re.IGNORECASE)


def write_yaml(value: Any) -> str:
    """Write an object or a list as a YAML document."""
    return "".join(f"{line}\n" for line in _write_lines(value))


def _write_lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        entries = ((f"{_write_key(name)}:", one) for name, one in value.items())
    else:
        entries = (("-", one) for one in value)
    for start, one in entries:
        if not one or not isinstance(one, dict | list):
            yield f"{start} {json.dumps(one, ensure_ascii=False)}"
        else:
            yield start
            yield from (f"  {line}" for line in _write_lines(one))


def _write_key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
