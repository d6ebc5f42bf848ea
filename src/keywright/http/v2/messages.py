"""The answers of v2 to errors, as the catalog of errors describes them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from keywright.core import errors as e
from keywright.http.answer import Answer, error_headers
from keywright.http.v2.wire import encode

#: Another sentence for an error, where an operation says it in its own words.
Sayings = Mapping[type[e.KeywrightError], str]

NO_SAYINGS: Sayings = MappingProxyType({})

#: The answers to the errors that calls of v2 meet, in the catalog's order. ``Unavailable`` is a group.
PROBLEMS: dict[type[e.KeywrightError], e.V2] = {
    kind: kind.v2 for kind in e.CATALOG if kind.v2 is not None and kind is not e.Unavailable
}

#: The errors that say that a request could not be read.
MALFORMED = frozenset(kind for kind, problem in PROBLEMS.items() if problem.status == 400)


def write_error(error: e.KeywrightError, sayings: Sayings = NO_SAYINGS) -> Answer:
    """The answer for an error."""
    return Answer(*write(error, sayings), error_headers(error))


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
