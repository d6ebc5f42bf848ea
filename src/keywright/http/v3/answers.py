"""Answers of success, and the ``ETag`` of what they show."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from keywright.http.answer import Answer, Headers

encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
_CREATED, _ACCEPTED, _NO_CONTENT = 201, 202, 204


def ok(
    body: object, *, status: int = 200, etag: bytes | None = None, license_id: int | None = None
) -> Answer:
    """200 with this body. ``license_id`` is for the access log."""
    headers: Headers = () if etag is None else ((b"etag", etag),)
    return Answer(status, encode(body), headers, license_id=license_id)


def created(
    body: object, location: str, *, etag: bytes | None = None, license_id: int | None = None
) -> Answer:
    """201 with this body; ``location`` is the path of what was made."""
    answer = ok(body, status=_CREATED, etag=etag, license_id=license_id)
    answer.headers += ((b"location", location.encode()),)
    return answer


def accepted(body: object, location: str) -> Answer:
    """202 with this body; ``location`` is the path of the job."""
    answer = ok(body, status=_ACCEPTED)
    answer.headers += ((b"location", location.encode()),)
    return answer


def no_content(_outcome: object = None) -> Answer:
    """204."""
    return Answer(_NO_CONTENT, b"")


def etag_of(resource: Struct, **volatile: Any) -> bytes:
    """The strong ``ETag`` of a resource as its answer shows it.

    ``volatile`` are values to put in place of members that change without a change of the resource, such as
    ``last_seen_at=None``.
    """
    shown = msgspec.structs.replace(resource, **volatile) if volatile else resource
    return b'"%b"' % hashlib.blake2b(encode(shown), digest_size=12).hexdigest().encode()
