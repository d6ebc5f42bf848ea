"""Write and read answers that are kept for repeated calls: headers, an empty line, and the body."""

from keywright.http.answer import Answer

#: The headers that belong to what the call did, and not to the moment.
_KEPT = frozenset({b"location", b"etag", b"link", b"retry-after"})
_TYPE = b"content-type"


def write(answer: Answer) -> bytes:
    """The answer without its status."""
    headers = [answer.content_type, *(one for one in answer.headers if one[0] in _KEPT)]
    return b"".join(b"%b:%b\n" % header for header in headers) + b"\n" + answer.body


def read(status: int, kept: bytes) -> Answer:
    """The answer that ``write`` wrote."""
    head, _, body = kept.partition(b"\n\n")
    lines = (line.partition(b":") for line in head.split(b"\n"))
    (_, content_type), *headers = ((name, value) for name, _, value in lines)
    return Answer(status, body, tuple(headers), content_type=(_TYPE, content_type))
