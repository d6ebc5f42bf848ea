"""Answers, and the headers that all interfaces share."""

import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from urllib.parse import quote

import msgspec
from starlette.responses import FileResponse, Response
from starlette.types import ASGIApp

from keywright.core import errors as e
from keywright.licensing.updates.model import ReleaseFile

Headers = tuple[tuple[bytes, bytes], ...]

JSON = (b"content-type", b"application/json; charset=UTF-8")
#: The headers of every answer that does not set its own.
COMMON_HEADERS: Headers = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
#: Closes the connection, because the server does not read the rest of the request.
CLOSE = (b"connection", b"close")
BYTES_TYPE = "application/octet-stream"
_CHALLENGE = (b"www-authenticate", b'Basic realm="Keywright", charset="UTF-8"')


class Answer(msgspec.Struct):
    """A status and a body, whole or in ``pieces``. ``license_id`` is for the access log; ``activation_id`` is
    the activation of the calling device; ``is_unchanged`` means that nothing had to be changed.
    ``product_id`` is the license's product, if the call is counted for it; ``app_version`` is the device's
    version, if it differs from the stored one. ``releases`` are the releases to count, by ID, with "checks",
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
    #: An application that sends the whole answer instead, such as a file with its ranges.
    app: ASGIApp | None = None
    app_version: str | None = None
    releases: tuple[tuple[int, str], ...] = ()


#: Builds the answer for an error, in the format of one interface.
ErrorWriter = Callable[[e.KeywrightError], Answer]


def error_headers(error: e.KeywrightError) -> Headers:
    """The headers of the answer for an error."""
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
    """Convert the answer to a Starlette response."""
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.body, answer.status, headers, media_type=answer.content_type[1].decode())


class _File(FileResponse):
    """A file that is sent in chunks of 256 KiB."""

    chunk_size = 256 * 1024
    #: electron-updater requests up to 500 ranges of a new version at once; it copies the rest from the old
    #: version.
    max_ranges = 1000


def answer_file(
    folder: Path, accel: str | None, file: ReleaseFile, if_range: bytes | None, *, has_credentials: bool
) -> Answer:
    """The answer with the bytes of a file: from the file folder, from nginx if it has an internal location
    for the folder, or a redirect to the vendor's own URL. Raises ``CredentialsElsewhere`` and
    ``FilesUnavailable``.
    """
    headers = {**_headers_of(file), "Content-Type": file.content_type or BYTES_TYPE}
    if file.url is not None:
        if has_credentials:
            # Clients send the header again to the target of a redirect.
            raise e.CredentialsElsewhere
        return Answer(302, b"", ((b"location", file.url.encode()), (b"referrer-policy", b"no-referrer")))
    place = folder / (file.sha256 or "")[:2] / (file.sha256 or "")
    # nginx does not know the ETag: it would send the whole file to a client that resumes a download.
    if accel is not None and if_range != headers["ETag"].encode():
        location = f"{accel}/{place.parent.name}/{place.name}"
        del headers["Accept-Ranges"]  # nginx adds this header.
        some = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        kind = some.pop()
        return Answer(200, b"", (*some, (b"x-accel-redirect", location.encode())), content_type=kind)
    _require_whole(place, file)
    answer = Answer(200, b"")
    answer.app = _File(place, headers=headers, media_type=headers["Content-Type"])
    return answer


def _headers_of(file: ReleaseFile) -> dict[str, str]:
    return {
        "ETag": f'"{file.sha256}"',
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


def _require_whole(place: Path, file: ReleaseFile) -> None:
    """Raise ``FilesUnavailable`` if the file is missing or its size is wrong; the doctor reports it."""
    try:
        size = os.stat(place).st_size
    except OSError as problem:
        raise e.FilesUnavailable(str(problem)) from problem
    if size != file.size:
        raise e.FilesUnavailable(f"{place} has {size} bytes, not {file.size}")
