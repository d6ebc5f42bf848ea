"""The refusals of the catalog as the document describes them, and which of them any call may meet."""

import json
from collections.abc import Set
from functools import cache
from typing import Any, NamedTuple

from keywright.core import errors as e
from keywright.http.answer import error_headers
from keywright.http.v2 import messages

Errors = tuple[type[e.KeywrightError], ...]

#: Any request may meet these, whatever its address and method.
ANY_REQUEST: Errors = (
    e.MalformedRequest,
    e.MalformedForm,
    e.MethodNotAllowed,
    e.RequestTooSlow,
    e.AddressTooLong,
    e.HeadersTooLarge,
    e.RateLimited,
    e.Fault,
)
#: Any call may meet these and what belongs to them, but those of changes, too.
ANY_CALL: Errors = (
    e.InvalidParameters,
    e.BadBody,
    e.CredentialsMissing,
    e.CredentialsInvalid,
    e.Unavailable,
)
#: Any change may meet these, too.
ANY_CHANGE: Errors = (
    e.IdempotencyKeyBusy,
    e.IdempotencyKeyReused,
    e.RejectedByDatabase,
    e.FateUnknown,
    e.LockTimeout,
)


def members(groups: Errors) -> set[type[e.KeywrightError]]:
    """These errors of the interface, and those that belong to them."""
    return {kind for kind in messages.PROBLEMS if issubclass(kind, groups)}


class Refusal(NamedTuple):
    """A refusal with an example of its answer; ``when`` says what it means."""

    name: str
    when: str
    status: int
    body: dict[str, Any]
    headers: frozenset[str]


def describe(errors: Set[type[e.KeywrightError]], sayings: messages.Sayings) -> list[Refusal]:
    """The refusals in the catalog's order; ``sayings`` are an operation's own words."""
    return [
        _describe(kind, sayings) if kind in sayings else refusal
        for kind, refusal in catalog().items()
        if kind in errors
    ]


@cache
def catalog() -> dict[type[e.KeywrightError], Refusal]:
    """All refusals of the interface."""
    return {kind: _describe(kind, messages.NO_SAYINGS) for kind in messages.PROBLEMS}


def _describe(kind: type[e.KeywrightError], sayings: messages.Sayings) -> Refusal:
    error = kind(*kind.example)
    status, body = messages.write(error, sayings)
    headers = frozenset(name.decode() for name, _ in error_headers(error))
    return Refusal(kind.__name__, _when(kind), status, json.loads(body), headers)


def _when(kind: type[e.KeywrightError]) -> str:
    """The first paragraph of an error's docstring says when it is raised."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
