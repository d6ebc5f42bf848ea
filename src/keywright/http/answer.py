"""Answers, and the headers that they have in common over every interface."""

from collections.abc import AsyncGenerator, Callable

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from keywright.core import errors as e

Headers = tuple[tuple[bytes, bytes], ...]

JSON = (b"content-type", b"application/json; charset=UTF-8")
#: The headers of every answer, unless it has its own.
COMMON_HEADERS: Headers = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
#: The server does not read the rest of the request.
CLOSE = (b"connection", b"close")
_CHALLENGE = (b"www-authenticate", b'Basic realm="Keywright", charset="UTF-8"')


class Answer(msgspec.Struct):
    """A status and a body, whole or in ``pieces``. ``license_id`` is for the access log; ``activation_id`` is
    the activation of the device that called; ``is_unchanged`` says that a change was not needed;
    ``product_id`` is the product of the license, where it is counted; ``app_version`` the device's, where it
    is another one than is stored. ``releases`` are those that are counted, by number: which were "checks",
    "offers" or "downloads".
    """

    status: int
    body: bytes
    headers: Headers = ()
    pieces: AsyncGenerator[bytes, None] | None = None
    license_id: int | None = None
    content_type: tuple[bytes, bytes] = JSON
    activation_id: int | None = None
    is_unchanged: bool = False
    product_id: int | None = None
    #: Sends the whole answer in place of this one, such as a file with its ranges.
    app: ASGIApp | None = None
    app_version: str | None = None
    releases: tuple[tuple[int, str], ...] = ()


#: Makes the answer for an error, in the form of one interface.
ErrorWriter = Callable[[e.KeywrightError], Answer]


def error_headers(error: e.KeywrightError) -> Headers:
    """The headers of an answer with this error."""
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


def to_response(answer: Answer) -> Response:
    """The answer as a Starlette response."""
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.body, answer.status, headers, media_type=answer.content_type[1].decode())
