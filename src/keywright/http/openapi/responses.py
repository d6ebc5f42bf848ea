"""The answers that an operation may give, by status: its success, and every refusal that it may meet."""

from collections.abc import Mapping, Set
from http import HTTPStatus
from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec import to_builtins

from keywright.core import errors as e
from keywright.http.middleware.routing import Right
from keywright.http.openapi.examples import SUCCESSES
from keywright.http.openapi.refusals import ANY_CALL, ANY_CHANGE, ANY_REQUEST, Refusal, describe, members
from keywright.http.openapi.schemas import Schema, ref
from keywright.http.v2 import routes
from keywright.http.v2.messages import NO_SAYINGS
from keywright.http.v2.schemas import ListParameters

#: Statuses of answers that are stored for repeated calls.
_STORED = frozenset({200, 400, 404})
_ALWAYS = frozenset({"cache-control", "x-content-type-options"})
_PAGED = frozenset({"x-wp-total", "x-wp-totalpages", "link"})


def _header(
    description: str, example: str | int | None = None, *, required: bool = True, **schema: Any
) -> Schema:
    header: Schema = {"description": description, "schema": {"type": "string", **schema}}
    if required:
        header["required"] = True
    return header if example is None else header | {"example": example}


_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
HEADERS: dict[str, Schema] = {
    "Cache-Control": _header("No answer may be stored.", const="no-store"),
    "X-Content-Type-Options": _header("The content type must not be guessed.", const="nosniff"),
    "Allow": _header("The methods of this address.", "GET, POST, OPTIONS", minLength=1),
    "Retry-After": _header("Seconds to wait before the next attempt.", 1, **_COUNT),
    "WWW-Authenticate": _header(
        "The way to send credentials; if they are missing or invalid.",
        'Basic realm="Keywright", charset="UTF-8"',
        required=False,
    ),
    "Idempotency-Replayed": _header(
        "`true` if this is the stored answer to a repeated call.", const="true", required=False
    ),
    "X-WP-Total": _header("On a page: the number of licenses that match.", 120, required=False, **_COUNT),
    "X-WP-TotalPages": _header("On a page: the number of pages.", 3, required=False, **_COUNT),
    "Link": _header(
        "On a page: links to the previous and the next page (RFC 8288).",
        '</wp-json/lmfwc/v2/licenses?per_page=50&page=2>; rel="next"',
        required=False,
    ),
}


def errors_of(address: routes.Address, method: str) -> set[type[e.KeywrightError]]:
    """Every error that this method may meet at this address."""
    errors = set(ANY_REQUEST)
    if None in address.words:
        errors.add(e.NoSuchAddress)
    action = address.actions.get("GET" if method == "HEAD" else method)
    if action is None:
        return errors
    errors |= members(ANY_CALL) - set(ANY_CHANGE) | members(action.refusals)
    errors.add(e.NoWritePermission if action.right is Right.WRITE else e.NoReadPermission)
    if action.changes:
        errors |= set(ANY_CHANGE)
    if method == "GET" and action.changes:
        errors.add(e.PrefetchRefused)
    return errors


def responses(address: routes.Address, method: str, data: Schema) -> Schema:
    """The responses of this method at this address, success first; ``data`` is the schema of its data."""
    action = address.actions.get("GET" if method == "HEAD" else method)
    is_stored = action is not None and action.changes
    answers = {"200": _options(address, data) if action is None else _success(action, data)}
    for status, refusals in _by_status(address, method).items():
        answers[str(status)] = _failure(status, refusals, is_stored=is_stored and status in _STORED)
    if method == "HEAD":
        return {status: one | {"content": {}} for status, one in answers.items()}
    return answers


def _success(action: routes.Action, data: Schema) -> Schema:
    headers = {"idempotency-replayed"} if action.changes else set()
    if action.takes is ListParameters:
        headers |= _PAGED
    examples = SUCCESSES[action.operation]
    return _answer(
        "The change is made and durable." if action.changes else "Success.", headers, data, examples
    )


def _options(address: routes.Address, data: Schema) -> Schema:
    return _answer("The methods.", {"allow"}, data, {"methods": {"methods": address.methods}})


def _answer(description: str, headers: Set[str], data: Schema, examples: Mapping[str, Any]) -> Schema:
    schema = {
        "type": "object",
        "required": ["success", "data"],
        "properties": {"success": {"const": True, "description": "Always `true`."}, "data": data},
    }
    by_name = {
        name.replace(" ", "_"): {"summary": name, "value": {"success": True, "data": to_builtins(one)}}
        for name, one in examples.items()
    }
    return _response(description, headers, schema, by_name)


def _failure(status: int, refusals: list[Refusal], *, is_stored: bool) -> Schema:
    """One status with all its refusals, an example of each different answer."""
    codes = list(dict.fromkeys(one.body["code"] for one in refusals))
    narrowed = {"code": {"enum": codes}, "data": {"properties": {"status": {"const": status}}}}
    schema = {"allOf": [ref("Failure"), {"properties": narrowed}]}
    headers = set[str]().union(*(one.headers for one in refusals))
    if is_stored:
        headers.add("idempotency-replayed")
    examples: Schema = {}
    for one in refusals:
        if all(one.body != other["value"] for other in examples.values()):
            examples[one.name] = {"summary": one.body["message"], "description": one.when, "value": one.body}
    return _response(HTTPStatus(status).phrase, headers, schema, examples)


def _response(description: str, headers: Set[str], schema: Schema, examples: Schema) -> Schema:
    names = [name for name in HEADERS if name.lower() in headers | _ALWAYS]
    return {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def _by_status(address: routes.Address, method: str) -> dict[int, list[Refusal]]:
    action = address.actions.get("GET" if method == "HEAD" else method)
    refusals = describe(errors_of(address, method), NO_SAYINGS if action is None else action.sayings)
    refusals.sort(key=attrgetter("status"))
    return {status: list(same) for status, same in groupby(refusals, attrgetter("status"))}
