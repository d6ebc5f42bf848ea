"""Media types: that of a body, and those that a caller admits."""

from keywright.core.errors import NotAcceptable, UnsupportedMediaType
from keywright.http.v3.route import JSON_TYPE, JWT_TYPE, Route

JSON, _FORM, _MERGE_PATCH = (
    JSON_TYPE.encode(),
    b"application/x-www-form-urlencoded",
    b"application/merge-patch+json",
)
_JWT = JWT_TYPE.encode()
_UTF_8 = (b"", b"utf-8", b"utf8")
#: What most programs send.
_ANY = frozenset({b"*/*", JSON})


def is_form(route: Route, header: bytes, body: bytes) -> bool:
    """Whether the body is a form, not JSON. Raises ``UnsupportedMediaType``."""
    kind, *parameters = (one.strip().lower() for one in header.split(b";"))
    charsets = [one[8:].strip(b'"') for one in parameters if one.startswith(b"charset=")]
    taken = [JSON]
    if route.is_client:
        taken.append(_FORM)
    if route.method == "PATCH":
        taken.append(_MERGE_PATCH)
    if kind not in taken or any(one not in _UTF_8 for one in charsets):
        raise UnsupportedMediaType([one.decode() for one in taken])
    # curl says that all it sends is a form.
    return kind == _FORM and not body.lstrip().startswith(b"{")


def require_acceptable(header: bytes, produces: tuple[str, ...]) -> None:
    """Raise ``NotAcceptable`` if ``Accept`` admits none of these media types."""
    if header in _ANY:
        return
    if not any(is_admitted(header, one) for one in produces):
        raise NotAcceptable(produces)


def is_signed(header: bytes) -> bool:
    """Whether ``Accept`` names the media type of signed answers, and does not prefer JSON."""
    if header == _JWT or header in _ANY:
        return header == _JWT
    ranges = dict(map(_parse_range, header.decode("latin-1").split(",")))
    wanted = ranges.get(JWT_TYPE, 0.0)
    return wanted > 0 and wanted >= ranges.get(JSON_TYPE, 0.0)


def is_admitted(header: bytes, media_type: str) -> bool:
    """Whether ``Accept`` admits a media type (RFC 9110 §12.5.1): the most specific range decides."""
    main = media_type.partition("/")[0]
    ranges = {kind: quality for kind, quality in map(_parse_range, header.decode("latin-1").split(","))}
    for kind in (media_type, f"{main}/*", "*/*"):
        if kind in ranges:
            return ranges[kind] > 0
    return False


def _parse_range(text: str) -> tuple[str, float]:
    kind, *parameters = (one.strip().lower() for one in text.split(";"))
    quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
    try:
        return kind, float(quality)
    except ValueError:
        return kind, 1.0
