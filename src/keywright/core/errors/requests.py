"""Errors about the format, the parameters and the body of v3 requests."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from keywright.core.errors.calls import BadRequest
from keywright.core.errors.root import FieldError, Refusal


class InvalidFields(BadRequest):
    """The request has invalid values; ``errors`` lists all of them."""

    code = "request.fields"
    sentence = "Some values are invalid."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = ((FieldError("/name", "missing", "is missing"),),)
    #: Whether the pointers are into the body; otherwise they are names of parameters.
    is_body: ClassVar[bool] = False

    errors: Sequence[FieldError]

    def facts(self) -> dict[str, Any]:
        """Add ``first``, the first error in words, and ``number``, how many errors there are."""
        first = self.errors[0]
        whole = "the body" if self.is_body else "the query"
        more = f", and {len(self.errors) - 1} more" if len(self.errors) > 1 else ""
        return super().facts() | {"first": f"{first.pointer or whole} {first.detail}{more}"}


class InvalidBody(InvalidFields):
    """Members of the body are missing, unknown or invalid."""

    code = "request.invalid_body"
    status = 422
    problem = "invalid"
    problem_detail = "Invalid body: {first}."
    is_body = True


class InvalidQuery(InvalidFields):
    """Query parameters or headers have invalid values."""

    code = "request.invalid_query"
    problem = "invalid_parameter"
    problem_detail = "Invalid request: {first}."
    example: ClassVar[tuple[Any, ...]] = (
        (FieldError("limit", "too_large", "must be an integer from 1 to 200"),),
    )


class CursorTooOld(Refusal):
    """The events after the cursor are no longer kept. ``kept_since`` is a time in seconds."""

    code = "request.cursor_too_old"
    status = 400
    sentence = "Events this old are no longer stored."
    problem = "invalid_parameter"
    problem_detail = "The cursor is too old: events before {since} are no longer stored."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = (1_700_000_000,)

    kept_since: int

    def facts(self) -> dict[str, Any]:
        """Add ``since``, the time in words."""
        since = datetime.fromtimestamp(self.kept_since, UTC)
        return super().facts() | {"since": f"{since:%Y-%m-%dT%H:%M:%SZ}"}

    def problem_members(self) -> dict[str, Any]:
        """``errors``, with the parameter."""
        detail = "is too old; start again without it"
        return {"errors": [{"parameter": "cursor", "code": "too_old", "detail": detail}]}


class UnknownParameters(InvalidFields):
    """The route does not have these query parameters."""

    code = "request.unknown_parameters"
    problem = "unknown_parameter"
    problem_detail = "Invalid query: {first}."
    example: ClassVar[tuple[Any, ...]] = ((FieldError("limt", "unknown", "is unknown"),),)


class BodyUnreadable(BadRequest):
    """The body is missing or is not JSON."""

    code = "request.body_unreadable"
    sentence = "The request cannot be read."
    problem = "malformed_body"
    v2 = None


class OfflineRequestUnreadable(BadRequest):
    """The text that was pasted on the page for offline machines is not a request of a program."""

    code = "request.offline_unreadable"
    sentence = "This is not a request of a program. Copy all of it, from keywright-request: to the end."
    problem = "malformed_body"
    problem_detail = sentence
    v2 = None


class NotAcceptable(BadRequest):
    """The route offers none of the media types that the caller accepts. ``types`` are those it offers."""

    code = "request.not_acceptable"
    status = 406
    sentence = "The requested format is not available."
    problem = "not_acceptable"
    problem_detail = "The only available media type is {types_in_words}."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = (("application/json",),)

    types: Collection[str]

    def facts(self) -> dict[str, Any]:
        """Add ``types_in_words``, the media types, separated by commas."""
        return super().facts() | {"types_in_words": " or ".join(self.types)}


class UnsupportedMediaType(NotAcceptable):
    """The body has none of the media types that the route accepts, or is not UTF-8."""

    code = "request.unsupported_media_type"
    status = 415
    sentence = "This media type is not accepted."
    problem = "unsupported_media_type"
    problem_detail = "The body must be {types_in_words} in UTF-8."


class NotFound(Refusal):
    """Nothing has this ID, or the caller may not see it. ``thing`` is its noun and ID."""

    code = "request.not_found"
    status = 404
    sentence = "There is no {thing}. It may have been deleted."
    problem = "not_found"
    problem_detail = "There is no {thing}."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = ("policy 17",)

    thing: str


class UnknownReference(Refusal):
    """The body references something that does not exist, or that the API key may not see, at ``pointer``."""

    code = "request.unknown_reference"
    status = 422
    sentence = "There is no {thing}."
    problem = "invalid"
    problem_detail = "Invalid body: {pointer}: there is no {thing}."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = ("policy 17", "/policy_id")

    thing: str
    pointer: str

    def problem_members(self) -> dict[str, Any]:
        """``errors``, with the member."""
        detail = f"there is no {self.thing}"
        return {"errors": [{"pointer": self.pointer, "code": "unknown", "detail": detail}]}


class ChangedMeanwhile(Refusal):
    """The current version is not the one that the caller named; nothing was changed."""

    code = "request.changed_meanwhile"
    status = 412
    sentence = "This was changed in the meantime. Reload it first."
    problem = "changed_meanwhile"
    v2 = None


class AlreadyExists(Refusal):
    """Another item of this kind has the same value in a unique field."""

    code = "request.already_exists"
    sentence = "Another {thing} already has this {field}."
    problem = "already_exists"
    problem_detail = "Another {thing} already has this {field}."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = ("customer", "email", "")

    # ``parent`` is the JSON Pointer of the object with the field; empty for the body itself.
    thing: str
    field: str
    parent: str = ""

    def problem_members(self) -> dict[str, Any]:
        """``errors``, with the field."""
        detail = f"is already used by another {self.thing}"
        return {
            "errors": [{"pointer": f"{self.parent}/{self.field}", "code": "already_exists", "detail": detail}]
        }


class StillInUse(Refusal):
    """Other items reference this one, so it cannot be deleted or get another code."""

    code = "request.still_in_use"
    sentence = "The {thing} is still in use by {users}."
    problem = "still_in_use"
    problem_detail = "The {thing} is still in use by {users}."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = ("policy 17", "licenses")

    thing: str
    users: str
