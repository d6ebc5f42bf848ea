"""The OpenAPI 3.1 document of v2, made from its routes, its types and the catalog of refusals."""

import inspect
from http import HTTPStatus
from pathlib import Path
from typing import Any

from keywright import __version__
from keywright.config import Settings
from keywright.core.examples import EXAMPLE_KEY
from keywright.http.openapi import schemas
from keywright.http.openapi.refusals import catalog
from keywright.http.openapi.responses import HEADERS, responses
from keywright.http.openapi.schemas import Schema
from keywright.http.v2 import routes
from keywright.http.v2 import schemas as wire_types

_INTRODUCTION = Path(__file__).with_name("templates") / "v2.md"
_OPEN = "The core calls need only the license key."
_CLOSED = "On this server, the core calls need an API key, too."

CORE, LICENSES, GENERATORS, ADDRESSES = "Core calls", "Licenses", "Generators", "Methods of an address"
_TAGS = {
    CORE: "The calls of a licensed program. The license key is the credential: no secret is shipped inside a "
    "program.",
    LICENSES: "The calls of a shop. They need an API key.",
    GENERATORS: "A generator is a recipe for license keys: `prefix`, then `chunks` runs of `chunk_length` "
    "characters drawn from `charset` with `separator` between them, then `suffix`. They need an API key.",
    ADDRESSES: "For browsers and proxies: OPTIONS answers with the methods of an address, without "
    "credentials. HEAD answers with the headers of GET, where GET changes nothing.",
}


def _in_query(name: str, description: str) -> Schema:
    return {"type": "apiKey", "in": "query", "name": name, "description": description}


_API_KEY: list[Schema] = [{"basicAuth": []}, {"consumerKey": [], "consumerSecret": []}]
_SECURITY_SCHEMES: Schema = {
    "basicAuth": {
        "type": "http",
        "scheme": "basic",
        "description": "The consumer key as user name, the consumer secret as password.",
    },
    "consumerKey": _in_query("consumer_key", "The consumer key: `ck_` and 40 hex characters."),
    "consumerSecret": _in_query("consumer_secret", "The consumer secret: `cs_` and 40 hex characters."),
}
_KEY: Schema = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": "The license key, percent-encoded once.",
    "schema": {"type": "string", "minLength": 1},
    "example": EXAMPLE_KEY,
}
_ID: Schema = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The generator's number.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1, "format": "int64"},
    "example": 3,
}
_IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes it safe to repeat the call: for 48 hours, the same call with the same key gets the "
    "first answer again, with `Idempotency-Replayed: true`, and changes nothing. Use a new key, such as a "
    "UUID, for each new call.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]*$"},
}
#: Statuses whose answers are different in each operation.
_OWN = frozenset({"200", "400", "401", "404"})


def build(settings: Settings) -> dict[str, Any]:
    """The document for an installation with these settings. Slow: keep it."""
    base = f"/{settings.api_root}/{settings.namespace}/v2"
    builder = _Builder(is_open=not settings.require_api_key)
    paths = {path_of(address): builder.path(address) for address in routes.ADDRESSES}
    introduction = _INTRODUCTION.read_text(encoding="utf-8").format(
        base=base,
        root=f"/{settings.api_root}",
        route=f"{settings.namespace}/v2",
        core_rule=_CLOSED if settings.require_api_key else _OPEN,
    )
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Keywright license API, v2",
            "summary": "Activate, validate and deactivate license keys, and manage them.",
            "description": introduction,
            "version": __version__,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": base, "description": "This server"}],
        "tags": [{"name": name, "description": description} for name, description in _TAGS.items()],
        "paths": paths,
        "components": builder.components | {"headers": HEADERS, "securitySchemes": _SECURITY_SCHEMES},
    }


def path_of(address: routes.Address) -> str:
    """The address as a path template."""
    name = "{key}" if address.words[0] == "licenses" else "{id}"
    return "".join(f"/{name if word is None else word}" for word in address.words)


class _Builder:
    """Builds the paths, and collects the components that they share."""

    def __init__(self, *, is_open: bool) -> None:
        """``is_open``: the core calls need no API key."""
        self._is_open = is_open
        actions = [action for address in routes.ADDRESSES for action in address.actions.values()]
        types = [*(action.gives for action in actions), wire_types.Methods, wire_types.Failure]
        self._data, records = schemas.components(types)
        codes = list(dict.fromkeys(one.body["code"] for one in catalog().values()))
        records["Failure"]["properties"]["code"]["enum"] = codes
        self.components: dict[str, Schema] = {"schemas": records, "requestBodies": {}, "responses": {}}

    def path(self, address: routes.Address) -> Schema:
        """The operations at an address."""
        item: Schema = {}
        if None in address.words:
            item["parameters"] = [_KEY if address.words[0] == "licenses" else _ID]
        return item | {method.lower(): self._operation(address, method) for method in address.methods}

    def _operation(self, address: routes.Address, method: str) -> Schema:
        action = address.actions.get("GET" if method == "HEAD" else method)
        if action is None:
            operation, data = _about_methods(address), self._data[wire_types.Methods]
        else:
            operation, data = self._about(address, method, action), self._data[action.gives]
        own = _pascal_case(operation["operationId"])
        for status, answer in responses(address, method, data).items():
            name = _pascal_case(HTTPStatus(int(status)).phrase)
            name = name if status not in _OWN else own + name
            operation["responses"][status] = self._share("responses", name, own, answer)
        if "requestBody" in operation:
            operation["requestBody"] = self._share("requestBodies", own, own, operation["requestBody"])
        return operation

    def _about(self, address: routes.Address, method: str, action: routes.Action) -> Schema:
        summary, description = _documentation(action)
        parameters = schemas.parameters(action.takes)
        operation: Schema = {
            "operationId": _operation_id(address, method, action),
            "tags": [_tag(address)],
            "summary": summary,
            "description": description,
            "parameters": [_query_parameter(*one) for one in parameters["properties"].items()],
            "security": [{}, *_API_KEY] if address.is_core and self._is_open else _API_KEY,
            "responses": {},
        }
        if method == "HEAD":
            operation["tags"] = [ADDRESSES]
            operation["summary"] += ": headers only"
            operation["description"] = "As GET, without the body."
        if action.changes:
            operation["parameters"].append(_IDEMPOTENCY_KEY)
        if method not in ("GET", "HEAD") and parameters["properties"]:
            operation["requestBody"] = _body(parameters, action)
        return operation

    def _share(self, kind: str, name: str, own: str, part: Schema) -> Schema:
        """A reference to this component. An equal one is used again, and a name for one component only."""
        shared = self.components[kind]
        same = next((known for known, one in shared.items() if one == part), None)
        if same is None:
            same = own + name if name in shared else name
            shared[same] = part
        return {"$ref": f"#/components/{kind}/{same}"}


def _about_methods(address: routes.Address) -> Schema:
    return {
        "operationId": "_".join(["options", *(word or "one" for word in address.words)]),
        "tags": [ADDRESSES],
        "summary": "Methods",
        "description": "Answers with the methods of this address; also to a browser's CORS preflight.",
        "security": [],
        "responses": {},
    }


def _operation_id(address: routes.Address, method: str, action: routes.Action) -> str:
    """The operation's name; with the method if another method does the same."""
    if method == "HEAD":
        return "_".join(["head", *(word or "one" for word in address.words)])
    first = next(name for name, one in address.actions.items() if one is action)
    return action.operation if method == first else f"{action.operation}_by_{method.lower()}"


def _documentation(action: routes.Action) -> tuple[str, str]:
    """Summary and description: the first paragraph and the others of the handler's docstring."""
    paragraphs = (inspect.getdoc(action.answer) or "").split("\n\n")
    summary, *description = (paragraph.replace("\n", " ") for paragraph in paragraphs)
    return summary.rstrip("."), "\n\n".join(description)


def _tag(address: routes.Address) -> str:
    if address.is_core:
        return CORE
    return LICENSES if address.words[0] == "licenses" else GENERATORS


def _query_parameter(name: str, schema: Schema) -> Schema:
    schema = schemas.as_text(schema)
    parameter = {
        "name": name,
        "in": "query",
        "description": schema.pop("description"),
        "example": schema.pop("examples")[0],
        "schema": schema,
    }
    if schema["type"] == "object":
        parameter |= {"style": "deepObject", "explode": True}
    return parameter


def _body(parameters: Schema, action: routes.Action) -> Schema:
    form = schemas.as_form(parameters)
    by_url: Schema = {"schema": form}
    if "meta" in form["properties"]:
        by_url["encoding"] = {"meta": {"style": "deepObject", "explode": True}}
    return {
        "description": "The body takes precedence over the query.",
        "content": {
            "application/json": {"schema": parameters, "example": dict(action.example)},
            "application/x-www-form-urlencoded": by_url,
            "multipart/form-data": {"schema": form},
        },
    }


def _pascal_case(words: str) -> str:
    return "".join(word.capitalize() for word in words.replace("_", " ").split())
