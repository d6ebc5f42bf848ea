"""Build the answers of v3: successes and problems."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from keywright.core import errors as e
from keywright.core.errors import NotAcceptable, UnsupportedMediaType
from keywright.core.errors.problems import PROBLEMS
from keywright.http.answer import Answer, Headers, error_headers
from keywright.http.v3.route import JSON_TYPE, JWT_TYPE, Route

encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
_CREATED, _ACCEPTED, _NO_CONTENT = 201, 202, 204


def ok(
    body: object, *, status: int = 200, etag: bytes | None = None, license_id: int | None = None
) -> Answer:
    """A 200 answer with this body. ``license_id`` is for the access log."""
    headers: Headers = () if etag is None else ((b"etag", etag),)
    return Answer(status, encode(body), headers, license_id=license_id)


def created(
    body: object, location: str, *, etag: bytes | None = None, license_id: int | None = None
) -> Answer:
    """A 201 answer with this body; ``location`` is the path of the new resource."""
    answer = ok(body, status=_CREATED, etag=etag, license_id=license_id)
    answer.headers += ((b"location", location.encode()),)
    return answer


def accepted(body: object, location: str) -> Answer:
    """A 202 answer with this body; ``location`` is the path of the job."""
    answer = ok(body, status=_ACCEPTED)
    answer.headers += ((b"location", location.encode()),)
    return answer


def no_content(_outcome: object = None) -> Answer:
    """A 204 answer."""
    return Answer(_NO_CONTENT, b"")


def etag_of(resource: Struct, **volatile: Any) -> bytes:
    """The strong ``ETag`` of a resource in the form that answers have.

    ``volatile`` replaces members that change although the resource does not, such as ``last_seen_at=None``.
    """
    shown = msgspec.structs.replace(resource, **volatile) if volatile else resource
    return b'"%b"' % hashlib.blake2b(encode(shown), digest_size=12).hexdigest().encode()


#: Headers that describe the outcome of the call, not the moment of the answer; they are stored with it.
_KEPT = frozenset({b"location", b"etag", b"link", b"retry-after"})
_TYPE = b"content-type"


def write(answer: Answer) -> bytes:
    """The answer in the form that is stored for idempotency, without its status."""
    headers = [answer.content_type, *(one for one in answer.headers if one[0] in _KEPT)]
    return b"".join(b"%b:%b\n" % header for header in headers) + b"\n" + answer.body


def read(status: int, kept: bytes) -> Answer:
    """The answer that ``write`` stored."""
    head, _, body = kept.partition(b"\n\n")
    lines = (line.partition(b":") for line in head.split(b"\n"))
    (_, content_type), *headers = ((name, value) for name, _, value in lines)
    return Answer(status, body, tuple(headers), content_type=(_TYPE, content_type))


JSON, _FORM, _MERGE_PATCH = (
    JSON_TYPE.encode(),
    b"application/x-www-form-urlencoded",
    b"application/merge-patch+json",
)
_JWT = JWT_TYPE.encode()
_UTF_8 = (b"", b"utf-8", b"utf8")
#: The most common values of ``Accept``.
_ANY = frozenset({b"*/*", JSON})


def is_form(route: Route, header: bytes, body: bytes) -> bool:
    """Whether the body is a form rather than JSON. Raises ``UnsupportedMediaType``."""
    kind, *parameters = (one.strip().lower() for one in header.split(b";"))
    charsets = [one[8:].strip(b'"') for one in parameters if one.startswith(b"charset=")]
    taken = [JSON]
    if route.is_client:
        taken.append(_FORM)
    if route.method == "PATCH":
        taken.append(_MERGE_PATCH)
    if kind not in taken or any(one not in _UTF_8 for one in charsets):
        raise UnsupportedMediaType([one.decode() for one in taken])
    # curl declares every body as a form by default.
    return kind == _FORM and not body.lstrip().startswith(b"{")


def require_acceptable(header: bytes, produces: tuple[str, ...]) -> None:
    """Raise ``NotAcceptable`` if ``Accept`` allows none of these media types."""
    if header in _ANY:
        return
    if not any(is_admitted(header, one) for one in produces):
        raise NotAcceptable(produces)


def is_signed(header: bytes) -> bool:
    """Whether ``Accept`` asks for a signed answer: it names that media type, and does not prefer JSON."""
    if header == _JWT or header in _ANY:
        return header == _JWT
    ranges = dict(map(_parse_range, header.decode("latin-1").split(",")))
    wanted = ranges.get(JWT_TYPE, 0.0)
    return wanted > 0 and wanted >= ranges.get(JSON_TYPE, 0.0)


def is_admitted(header: bytes, media_type: str) -> bool:
    """Whether ``Accept`` allows a media type (RFC 9110 §12.5.1): the most specific range decides."""
    main = media_type.partition("/")[0]
    ranges = {kind: quality for kind, quality in map(_parse_range, header.decode("latin-1").split(","))}
    for kind in (media_type, f"{main}/*", "*/*"):
        if kind in ranges:
            return ranges[kind] > 0
    return False


def _parse_range(text: str) -> tuple[str, float]:
    kind, *parameters = (one.strip().lower() for one in text.split(";"))
    quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
    try:
        return kind, float(quality)
    except ValueError:
        return kind, 1.0


PROBLEM_TYPE = (b"content-type", b"application/problem+json")
#: The path of the pages about problem codes.
PAGES = "/problems"
_CHALLENGE = (b"www-authenticate", b'Bearer realm="Keywright", Basic realm="Keywright", charset="UTF-8"')

_encode = msgspec.json.Encoder().encode


def write_problem(error: e.KeywrightError, hint: str = "") -> Answer:
    """The answer for an error; ``hint`` is appended to its detail."""
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
    headers = (_CHALLENGE,) if status == PROBLEMS["credentials_missing"].status else error_headers(error)
    for name, value in headers:
        if name == b"retry-after":
            problem["retry_after_seconds"] = int(value)
    return Answer(status, _encode(problem), headers, content_type=PROBLEM_TYPE)


def describe(error: e.KeywrightError) -> str:
    """The sentence that describes an error."""
    return error.fill(error.problem_detail or PROBLEMS[error.problem].detail or error.sentence)


def describe_problem(code: str) -> dict[str, Any]:
    """The page about a problem code, as JSON."""
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
    """The member ``errors``: every invalid value and its location."""
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
