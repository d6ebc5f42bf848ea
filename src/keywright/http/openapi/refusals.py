"""The refusals of the catalog as the document describes them, and which of them any call may meet."""

import inspect
import json
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from keywright.core import errors as e
from keywright.http.v2 import messages
from keywright.http.v2.schemas import EXAMPLE_KEY, EXAMPLE_TOKEN

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
#: Any call may meet these, too.
ANY_CALL: Errors = (
    e.InvalidParameters,
    e.BodyTooLarge,
    e.BodyIncomplete,
    e.EncodedBody,
    e.MalformedJson,
    e.BodyNotAnObject,
    e.CredentialsMissing,
    e.CredentialsInvalid,
    e.QueueFull,
    e.WaitedTooLong,
    e.ShuttingDown,
    e.StoreUnavailable,
    e.SecretMissing,
    e.TookTooLong,
    e.StoreBusy,
    e.StoreConflict,
)
#: Any change may meet these, too.
ANY_CHANGE: Errors = (
    e.IdempotencyKeyBusy,
    e.IdempotencyKeyReused,
    e.RejectedByDatabase,
    e.FateUnknown,
    e.LockTimeout,
)

#: Facts for examples, by the names that errors have for them.
_FACTS: dict[str, Any] = {
    "key": EXAMPLE_KEY,
    "token": EXAMPLE_TOKEN,
    "expires_at": datetime(2020, 1, 1, tzinfo=UTC),
    "field": "charset",
    "generator_id": 7,
    "bits": 40.0,
    "reasons": {"label": "must be a text of at most 255 characters, without null characters"},
    "retry_after": 12,
    "allowed": ("GET", "POST", "OPTIONS"),
}
_FIELDS: dict[type[e.KeywrightError], str] = {
    e.GeneratorFieldMissing: "name",
    e.GeneratorFieldNotInteger: "chunks",
}


class Refusal(NamedTuple):
    """A refusal with an example of its answer; ``when`` says what it means."""

    name: str
    when: str
    status: int
    body: dict[str, Any]
    headers: frozenset[str]


def describe(errors: Errors, sayings: messages.Sayings) -> list[Refusal]:
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
    error = example(kind)
    status, body = messages.write(error, sayings)
    headers = frozenset(name.decode() for name, _ in messages.headers(error))
    return Refusal(kind.__name__, _when(kind), status, json.loads(body), headers)


def _when(kind: type[e.KeywrightError]) -> str:
    """The first paragraph of an error's docstring says when it is raised."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def example(kind: type[e.KeywrightError]) -> e.KeywrightError:
    """An error of this kind, with example facts."""
    facts = {name: _FACTS[name] for name in inspect.signature(kind.__init__).parameters if name in _FACTS}
    if kind in _FIELDS:
        facts["field"] = _FIELDS[kind]
    return kind(**facts)
