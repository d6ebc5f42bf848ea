"""Refusals that any command may meet: wrong parameters, and idempotency keys."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from keywright.core.errors.root import V2, Refusal


class InvalidParameters(Refusal):
    """A parameter has the wrong type or size; `data.params` gives the reason.

    ``reasons`` are these reasons, by parameter.
    """

    code = "parameter.invalid"
    problem = "invalid"
    problem_detail = "Wrong in the body: {reasons_by_name}."
    status = 422
    sentence = "Please correct these: {reasons_in_words}."
    hint = "{reasons_by_name}."
    v2 = V2(400, "rest_invalid_param", "Invalid parameter(s): {names}")
    example: ClassVar[tuple[Any, ...]] = (
        {"label": "must be a text of at most 255 characters, without null characters"},
    )

    reasons: Mapping[str, str]

    def facts(self) -> dict[str, Any]:
        """The reasons as texts; ``reasons_in_words`` has spaces in the names."""
        pairs = self.reasons.items()
        return super().facts() | {
            "names": ", ".join(self.reasons),
            "reasons_by_name": "; ".join(f"{name}: {reason}" for name, reason in pairs),
            "reasons_in_words": "; ".join(f"{name.replace('_', ' ')} {reason}" for name, reason in pairs),
        }


class BodyNotAnObject(InvalidParameters):
    """The body is JSON, but neither an object nor `[]` or `null`."""

    code = "parameter.body_not_an_object"
    example = ()
    reasons: Mapping[str, str] = MappingProxyType({"body": "must be a JSON object"})


class IdempotencyKeyReused(Refusal):
    """The idempotency key was used before, with other parameters."""

    code = "idempotency.key_reused"
    problem = "idempotency_key_reused"
    sentence = "This was sent before, with other values."
    v2 = V2(
        422,
        "idempotency_key_reused",
        "This Idempotency-Key was used before with other parameters. Use a new one.",
    )


class IdempotencyKeyBusy(Refusal):
    """The first call with this idempotency key is still running."""

    code = "idempotency.key_busy"
    problem = "idempotency_key_in_use"
    heading = "Please try again in a moment"
    sentence = "This was sent before, and is being worked on."
    v2 = V2(
        409,
        "idempotency_key_busy",
        "The first request with this Idempotency-Key is still running. Please try again.",
    )
