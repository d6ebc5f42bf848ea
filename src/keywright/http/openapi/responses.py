"""What an operation may answer: its success, and every error that it can meet, by status."""

from typing import Any

from keywright.core import errors as e
from keywright.http.openapi import examples
from keywright.http.openapi.operations import OPERATIONS
from keywright.http.openapi.refusals import ANY_BODY, ANY_CALL, ANY_CHANGE, ANY_REQUEST, WHEN, Errors
from keywright.http.openapi.schemas import Schema, failure, success
from keywright.http.v2 import messages, routes
from keywright.http.v2.messages import PROBLEMS

#: The names of the statuses (RFC 9110, RFC 6585).
STATUSES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
#: The statuses of answers that may be kept for a repeated call.
_KEPT = frozenset({200, 400, 404})
_ALWAYS = ("Cache-Control", "X-Content-Type-Options")

HEADERS: dict[str, Schema] = {
    "Cache-Control": {
        "description": "Nothing may keep an answer.",
        "required": True,
        "schema": {"type": "string", "const": "no-store"},
    },
    "X-Content-Type-Options": {
        "description": "The content type is the one that is said.",
        "required": True,
        "schema": {"type": "string", "const": "nosniff"},
    },
    "Allow": {
        "description": "The methods that this address has.",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "example": "GET, POST, OPTIONS",
    },
    "Retry-After": {
        "description": "Seconds to wait before the next try.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
        "example": 1,
    },
    "WWW-Authenticate": {
        "description": "How to send credentials; with missing and with invalid ones.",
        "schema": {"type": "string"},
        "example": 'Basic realm="Keywright", charset="UTF-8"',
    },
    "Idempotency-Replayed": {
        "description": "`true` when this is the answer that was kept for a repeated call.",
        "schema": {"type": "string", "const": "true"},
    },
    "X-WP-Total": {
        "description": "With `page` or `per_page`: how many licenses match.",
        "schema": {"type": "integer", "minimum": 1},
        "example": 120,
    },
    "X-WP-TotalPages": {
        "description": "With `page` or `per_page`: how many pages there are.",
        "schema": {"type": "integer", "minimum": 1},
        "example": 3,
    },
    "Link": {
        "description": "With `page` or `per_page`: where the previous and the next page are (RFC 8288).",
        "schema": {"type": "string"},
        "example": '</wp-json/lmfwc/v2/licenses?per_page=50&page=2>; rel="next"',
    },
}
_OF_A_PAGE = ("X-WP-Total", "X-WP-TotalPages", "Link")


def errors_of(address: routes.Address, method: str) -> Errors:
    """Every error that this method can meet at this address."""
    found = ANY_REQUEST
    if None in address.words:
        found += (e.NoSuchAddress,)
    action = address.actions.get("GET" if method == "HEAD" else method)
    if action is None:
        return found
    operation = OPERATIONS[action.operation]
    found += ANY_CALL + ANY_BODY + operation.refusals
    if action.changes:
        found += ANY_CHANGE
    if method == "GET" and action.changes:
        found += (e.PrefetchRefused,)
    return found


def responses(address: routes.Address, method: str) -> Schema:
    """The responses of this method at this address, success first."""
    action = address.actions.get("GET" if method == "HEAD" else method)
    answers = {"200": _options(address) if action is None else _success(action)}
    sayings = messages.NO_SAYINGS if action is None else action.sayings
    changes = action is not None and action.changes
    for status, errors in _by_status(errors_of(address, method)).items():
        answers[str(status)] = _refusals(status, errors, sayings, may_be_kept=changes)
    if method == "HEAD":
        return {status: one | {"content": {}} for status, one in answers.items()}
    return answers


def _success(action: routes.Action) -> Schema:
    operation = OPERATIONS[action.operation]
    written = examples.successes(action.operation)
    named = {name.replace(" ", "_"): {"summary": name, "value": one} for name, one in written.items()}
    headers = _headers(*_ALWAYS)
    if action.changes:
        headers |= _headers("Idempotency-Replayed")
    if action.operation == "list_licenses":
        headers |= _headers(*_OF_A_PAGE)
    return _response(operation.answer, headers, success(operation.data), named)


def _options(address: routes.Address) -> Schema:
    methods = {"type": "array", "items": {"type": "string"}, "description": "As in `Allow`."}
    data = {"type": "object", "required": ["methods"], "properties": {"methods": methods}}
    named = {"methods": {"summary": "methods", "value": examples.methods(address)}}
    return _response("The methods.", _headers(*_ALWAYS, "Allow"), success(data), named)


def _refusals(status: int, errors: Errors, sayings: messages.Sayings, *, may_be_kept: bool) -> Schema:
    """One status with all its errors, an example for each."""
    bodies = {one: examples.refusal(one, sayings) for one in errors}
    named: dict[str, Any] = {}
    for one, body in bodies.items():
        if not any(shown["value"] == body for shown in named.values()):
            named[one.__name__] = {"summary": body["message"], "description": WHEN[one], "value": body}
    headers = _headers(*_ALWAYS, *_own_headers(errors))
    if may_be_kept and status in _KEPT:
        headers |= _headers("Idempotency-Replayed")
    codes = list(dict.fromkeys(body["code"] for body in bodies.values()))
    return _response(STATUSES[status], headers, failure(status, codes), named)


def _own_headers(errors: Errors) -> list[str]:
    found = [name for one in errors for name, _ in messages.headers(examples.instance(one))]
    sent = {name.decode() for name in found}
    return [name for name in HEADERS if name.lower() in sent]


def _response(description: str, headers: Schema, schema: Schema, named: Schema) -> Schema:
    content = {"application/json": {"schema": schema, "examples": named}}
    return {"description": description, "headers": headers, "content": content}


def _headers(*names: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _by_status(errors: Errors) -> dict[int, Errors]:
    """The errors by their status, both in rising order of how they are listed in ``PROBLEMS``."""
    found: dict[int, Errors] = {}
    for one in sorted(errors, key=list(PROBLEMS).index):
        found[PROBLEMS[one].status] = (*found.get(PROBLEMS[one].status, ()), one)
    return dict(sorted(found.items()))
