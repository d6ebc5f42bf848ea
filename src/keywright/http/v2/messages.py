"""The answers of v2 to errors, as the catalog of errors describes them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from keywright.core import errors as e
from keywright.http.v2.wire import encode

#: Another sentence for an error, where an operation says it in its own words.
Sayings = Mapping[type[e.KeywrightError], str]

NO_SAYINGS: Sayings = MappingProxyType({})

#: The answers to the errors that calls of v2 meet, in the catalog's order. ``Unavailable`` is a group.
PROBLEMS: dict[type[e.KeywrightError], e.V2] = {
    kind: kind.v2 for kind in e.CATALOG if kind.v2 is not None and kind is not e.Unavailable
}

Headers = tuple[tuple[bytes, bytes], ...]

#: What is still to come of such a request is not waited for.
CLOSE = (b"connection", b"close")
_CHALLENGE = (b"www-authenticate", b'Basic realm="Keywright", charset="UTF-8"')


def write(error: e.KeywrightError, sayings: Sayings) -> tuple[int, bytes]:
    """The status and the body that say this error."""
    status, code, sentence = error.v2 or PROBLEMS[e.Fault]
    message = error.say(sayings.get(type(error), sentence))
    data: dict[str, Any] = {"status": status}
    if isinstance(error, e.InvalidParameters):
        data["params"] = error.reasons
    data["errors"] = {code: [message]}
    data["error_data"] = {code: {"status": status}}
    return status, encode({"success": False, "code": code, "message": message, "data": data})


def headers(error: e.KeywrightError) -> Headers:
    """The headers that go with this error."""
    match error:
        case e.CredentialsMissing() | e.CredentialsInvalid():
            return (_CHALLENGE,)
        case e.MethodNotAllowed():
            return ((b"allow", ", ".join(error.allowed).encode()),)
        case e.RateLimited() | e.Unavailable():
            return ((b"retry-after", b"%d" % error.retry_after),)
        case e.RequestTooSlow() | e.BodyTooLarge() | e.BodyIncomplete():
            return (CLOSE,)
        case e.IdempotencyKeyBusy():
            return ((b"retry-after", b"1"),)
    return ()
