"""The OpenAPI 3.1 document of the v2 interface, put together from the code's own tables."""

from typing import Any

from keywright import __version__
from keywright.config import Settings
from keywright.http.openapi import examples, inputs, responses, sharing
from keywright.http.openapi.operations import ADDRESSES, GROUPS, OPERATIONS
from keywright.http.openapi.schemas import Schema, schemas
from keywright.http.v2 import routes

_INTRODUCTION = """\
Keywright decides whether a program may run: its license key is activated, validated, deactivated and \
reactivated here.

## The way of a license

A shop creates a license with a key and a number of places. The program that it was sold with activates \
it once on every machine: that takes a place and answers a **token**, which the program keeps. From then \
on it validates with key and token. When it moves to another machine it deactivates its token, and may \
reactivate it later. Nobody ever takes more places than there are, however many call at once.

## Addresses

Every address begins with the server's base, `{base}` here. A key in an address is percent-encoded once, \
`/` as `%2F`. Doubled and trailing slashes do no harm, and `/?rest_route=/{route}/…` and \
`/index.php{base}/…` are the same as the plain form. Unknown parameters are ignored, but for the body of a \
change to a license. `GET {base}` and `GET {root}` answer without credentials with an index as WordPress \
has it (`name`, `namespaces`, and `routes` with their methods): a test of the connection.

## Credentials

{core_rule} All others need an API key: a consumer key (`ck_…`) and a consumer secret (`cs_…`), which \
`keywright apikey create` makes. Send them as HTTP Basic, or as `consumer_key` and `consumer_secret` in \
the query, which win. A key may `read` (GET), `write` (all other methods) or both, or it is a `client`'s, \
which makes core calls only, where wanted for one product only. Credentials that are sent are checked \
everywhere.

## Answers

Every answer is JSON. A success has status 200 and `{{"success": true, "data": …}}`; a failure never has \
status 200, and says in `code` and `message` what went wrong. Moments are `YYYY-MM-DD HH:MM:SS` in UTC. \
A success for a change is answered only when the change is durable.

## Parameters

They come from the query, a form, a multipart form or a JSON object, with every method, and the body wins; \
a body with GET or DELETE counts when it says its `Content-Type`. A parameter that a call knows and that \
comes twice, as a list or as a map (`token[]=T`, but for `meta`), is refused with 400, and so is JSON that \
is no object; nothing, `{{}}`, `[]` and `null` carry no parameters.

A POST with `X-HTTP-Method-Override` or with the parameter `_method` (`PUT`, `PATCH`, `DELETE` or `POST`) is \
that method.

## Repeated calls

A call that got no answer may be sent again with the same `Idempotency-Key` header: it happens once, and \
the first answer is given again.\
"""
_OPEN = "The core calls need no credentials but the license key."
_CLOSED = "On this server, the core calls need an API key, too."

_API_KEY: list[Schema] = [{"basicAuth": []}, {"consumerKey": [], "consumerSecret": []}]
_SECURITY_SCHEMES: Schema = {
    "basicAuth": {
        "type": "http",
        "scheme": "basic",
        "description": "The consumer key as the user's name, the consumer secret as the password.",
    },
    "consumerKey": {
        "type": "apiKey",
        "in": "query",
        "name": "consumer_key",
        "description": "The consumer key: `ck_` and 40 hex characters.",
    },
    "consumerSecret": {
        "type": "apiKey",
        "in": "query",
        "name": "consumer_secret",
        "description": "The consumer secret: `cs_` and 40 hex characters.",
    },
}
_KEY: Schema = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": "The license key, percent-encoded once.",
    "schema": {"type": "string", "minLength": 1},
    "example": examples.KEY,
}
_ID: Schema = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The generator's number.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1, "format": "int64"},
    "example": 3,
}


def build(settings: Settings) -> dict[str, Any]:
    """The document for an installation with these settings. Takes some milliseconds: keep it."""
    base = f"/{settings.api_root}/{settings.namespace}/v2"
    paths = {path_of(address): _path(address, settings) for address in routes.ADDRESSES}
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Keywright license API, v2",
            "summary": "Activate, validate and deactivate license keys, and manage them.",
            "description": _introduction(settings, base),
            "version": __version__,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": base, "description": "This server"}],
        "tags": [{"name": name, "description": words} for name, words in GROUPS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            **sharing.shared(paths),
            "headers": responses.HEADERS,
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def path_of(address: routes.Address) -> str:
    """The address as a path template."""
    name = "{key}" if address.words[0] == "licenses" else "{id}"
    return "".join(f"/{name if word is None else word}" for word in address.words)


def _introduction(settings: Settings, base: str) -> str:
    return _INTRODUCTION.format(
        base=base,
        root=f"/{settings.api_root}",
        route=f"{settings.namespace}/v2",
        core_rule=_CLOSED if settings.require_api_key else _OPEN,
    )


def _path(address: routes.Address, settings: Settings) -> Schema:
    item: Schema = {}
    if None in address.words:
        item["parameters"] = [_KEY if address.words[0] == "licenses" else _ID]
    for method in address.methods:
        if method in address.actions:
            item[method.lower()] = _operation(address, method, settings)
        else:
            item[method.lower()] = _about_address(address, method, settings)
    return item


def _operation(address: routes.Address, method: str, settings: Settings) -> Schema:
    action = address.actions[method]
    said = OPERATIONS[action.operation]
    parameters = inputs.query_parameters(said.takes)
    if action.changes:
        parameters.append(inputs.IDEMPOTENCY_KEY)
    operation: Schema = {
        "operationId": _operation_id(address, method, action),
        "tags": [said.group],
        "summary": said.summary,
        "description": said.description,
        "parameters": parameters,
    }
    if method != "GET" and said.takes:
        only_these = action.operation == "update_license"
        operation["requestBody"] = inputs.body(said.takes, said.required, said.example, only_these=only_these)
    return operation | {
        "security": _security(address, settings),
        "responses": responses.responses(address, method),
    }


def _operation_id(address: routes.Address, method: str, action: routes.Action) -> str:
    """The operation's name; with the method where another one does the same."""
    first = next(name for name, one in address.actions.items() if one is action)
    return action.operation if method == first else f"{action.operation}_by_{method.lower()}"


def _about_address(address: routes.Address, method: str, settings: Settings) -> Schema:
    """HEAD and OPTIONS."""
    name = "_".join(word or "one" for word in address.words)
    operation: Schema = {"operationId": f"{method.lower()}_{name}", "tags": [ADDRESSES]}
    if method == "HEAD":
        said = OPERATIONS[address.actions["GET"].operation]
        operation |= {
            "summary": f"{said.summary}: headers only",
            "description": "As GET, without the body.",
            "parameters": inputs.query_parameters(said.takes),
            "security": _security(address, settings),
        }
    else:
        operation |= {
            "summary": "Methods",
            "description": "Which methods this address has; also the answer to a browser's CORS preflight.",
            "security": [],
        }
    return operation | {"responses": responses.responses(address, method)}


def _security(address: routes.Address, settings: Settings) -> list[Schema]:
    is_open = address.is_core and not settings.require_api_key
    return [{}, *_API_KEY] if is_open else _API_KEY
