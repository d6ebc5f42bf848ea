"""Write errors as problem details (RFC 9457)."""

from typing import Any

import msgspec

from keywright.core import errors as e
from keywright.core.errors.problems import PROBLEMS
from keywright.http.answer import Answer, Headers, error_headers

PROBLEM_TYPE = (b"content-type", b"application/problem+json")
#: The path of the pages about the codes.
PAGES = "/problems"
_CHALLENGE = (b"www-authenticate", b'Bearer realm="Keywright", Basic realm="Keywright", charset="UTF-8"')

_encode = msgspec.json.Encoder().encode


def write_problem(error: e.KeywrightError, hint: str = "") -> Answer:
    """The answer for an error; ``hint`` follows its sentence."""
    code = error.problem
    status, title = PROBLEMS[code].status, PROBLEMS[code].title
    problem: dict[str, Any] = {
        "type": f"{PAGES}/{code}",
        "title": title,
        "status": status,
        "detail": describe(error) + hint,
        "code": code,
    }
    if errors := list_errors(error):
        problem["errors"] = errors
    problem |= {name: value for name, value in error.problem_members().items() if value is not None}
    headers = _headers(error, status)
    for name, value in headers:
        if name == b"retry-after":
            problem["retry_after_seconds"] = int(value)
    return Answer(status, _encode(problem), headers, content_type=PROBLEM_TYPE)


def describe(error: e.KeywrightError) -> str:
    """The sentence about an error."""
    return error.say(error.problem_detail or PROBLEMS[error.problem].detail or error.sentence)


def describe_problem(code: str) -> dict[str, Any]:
    """The page about a code, as JSON."""
    problem = PROBLEMS[code]
    return {
        "type": f"{PAGES}/{code}",
        "code": code,
        "status": problem.status,
        "title": problem.title,
        "meaning": problem.meaning,
        "remedy": problem.remedy,
    }


def list_errors(error: e.KeywrightError) -> list[dict[str, str]]:
    """The member ``errors``: each wrong value, and where it stands."""
    if isinstance(error, e.InvalidFields | e.InvalidTerms):
        is_parameter = isinstance(error, e.InvalidFields) and not error.is_body
        name = "parameter" if is_parameter else "pointer"
        return [{name: one.pointer, "code": one.code, "detail": one.detail} for one in error.errors]
    if isinstance(error, e.InvalidParameters):
        return [_invalid(name, reason) for name, reason in error.reasons.items()]
    if isinstance(error, e.FieldRefusal):
        return [_invalid(error.field, describe(error))]
    return []


def _invalid(name: str, detail: str) -> dict[str, str]:
    return {"pointer": f"/{name}", "code": "invalid", "detail": detail}


def _headers(error: e.KeywrightError, status: int) -> Headers:
    """The headers that belong to an error."""
    return (_CHALLENGE,) if status == PROBLEMS["credentials_missing"].status else error_headers(error)
