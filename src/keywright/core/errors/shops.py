"""Refusals and faults about the connections to shops."""

from typing import Any, ClassVar

from keywright.core.errors.root import Refusal


class UnknownConnection(Refusal):
    """No connection has this number, or it is one to another shop."""

    code = "connection.unknown"
    problem = "not_found"
    problem_detail = "There is no connection {connection_id}."
    status = 404
    sentence = "There is no such connection. It may have been removed."
    hint = "there is no connection {connection_id}. `keywright connection list` shows those there are."
    v2 = None
    example: ClassVar[tuple[Any, ...]] = (7,)

    connection_id: int


class ConnectionFieldInvalid(Refusal):
    """A field of a connection cannot have this value; the reason says what it must be."""

    code = "connection.field_invalid"
    problem = "invalid"
    problem_detail = "The member {field} {reason}."
    status = 422
    sentence = "A field of the connection cannot have this value: {field} {reason}."
    hint = "{field} {reason}."
    v2 = None
    example = ("secret", "must begin with whsec_")

    field: str
    reason: str

    def problem_members(self) -> dict[str, Any]:
        """``errors`` names the member."""
        return {"errors": [{"pointer": f"/{self.field}", "code": "invalid", "detail": self.reason}]}


class UnknownShopEvent(Refusal):
    """The connection has no stored event with this number; it may have been forgotten after its days."""

    code = "shop_event.unknown"
    problem = "not_found"
    problem_detail = "The connection has no event {event_id}."
    status = 404
    sentence = (
        "The connection has no such event. It may have been deleted after the days that events are kept."
    )
    hint = "the connection has no event {event_id}. `keywright connection events` lists them."
    v2 = None
    example = (7,)

    event_id: int


class BadSignature(Refusal):
    """A shop's event has no signature, or one that was not made with the connection's secret, or is too old.

    The text says which, for the log; it has nothing of the event.
    """

    code = "shop_event.bad_signature"
    problem = "credentials_invalid"
    problem_detail = "The signature is missing, wrong or too old."
    status = 401
    sentence = "The signature is missing, wrong or too old."
    v2 = None
    example = ("the signature is wrong",)

    reason: str


class UnreadableEvent(Refusal):
    """A shop's event is not as the shop documents it; the text says where."""

    code = "shop_event.unreadable"
    problem = "malformed_body"
    problem_detail = "The event is not as the shop documents it: {reason}."
    status = 422
    sentence = "The event is not as the shop documents it: {reason}."
    hint = "{reason}"
    v2 = None
    example = ("data.order is missing",)

    reason: str


class ShopRefused(Refusal):
    """The shop's API declines the question: the API key is wrong or may not read this, or there is no such
    thing. The text is for people.
    """

    code = "shop.refused"
    status = 502
    sentence = "The shop's API declined: {reason}."
    hint = "the shop's API declined: {reason}."
    v2 = None
    example = ("401 for /v1/charges",)

    reason: str


class ShopUnavailable(Refusal):
    """The shop's API does not answer, or is busy; another attempt may succeed; after ``retry_after``
    seconds, if the shop says so.
    """

    code = "shop.unavailable"
    status = 503
    sentence = "The shop's API does not answer: {reason}."
    hint = "the shop's API does not answer: {reason}. Try again."
    v2 = None
    example = ("no answer within 10 seconds", None)

    reason: str
    retry_after: int | None = None
