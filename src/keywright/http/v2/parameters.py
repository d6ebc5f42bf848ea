"""The parameters of v2, and the schemas of its answers.

The handlers read the parameters, and refuse invalid values with the messages of the contract.
"""

import re
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Self, TypeVar
from urllib.parse import unquote_plus

import msgspec
from msgspec import Struct
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from keywright.core.errors import BodyNotAnObject, InvalidParameters, MalformedForm, MalformedJson
from keywright.http.middleware.call import Call

Parameters = dict[str, Any]
Result = TypeVar("Result")

_MAX_FIELDS = 1000
#: No parameter is a file, and each one would create a temporary file.
_MAX_FILES = 10
_MAX_DEPTH = 32
_STRING = re.compile(rb'"[^"]*"?')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
#: The maximum length of the ``Content-Type`` of a multipart body: a boundary has at most 70 bytes (RFC 2046
#: §5.1.1), and the library that parses it takes quadratic time.
_MAX_CONTENT_TYPE = 512
_META = re.compile(r"meta\[([^\[\]]*)\]")


class Number(float):
    """A JSON number that is not an integer; ``text`` is its original form."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Parse the text of a JSON number."""
        number = super().__new__(cls, text)
        number.text = text
        return number


_decode = msgspec.json.Decoder(float_hook=Number).decode


def parse_query(query: bytes) -> Parameters:
    """The parameters in a query string, see ``_from_pairs``. Raises ``MalformedForm``."""
    if not query:
        return {}
    return _from_pairs(_pairs(query))


def _pairs(query: bytes) -> list[tuple[str, str]]:
    parts = query.decode("utf-8", "replace").split("&")
    if len(parts) > _MAX_FIELDS:
        raise MalformedForm
    # Like urllib.parse.parse_qsl, but faster.
    both = (part.partition("=") for part in parts if part)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in both]


def _from_pairs(pairs: Iterable[tuple[str, Any]]) -> Parameters:
    """Strings by name. ``meta[os]=linux`` goes into the object ``meta``. Any other parameter with brackets,
    or one that is sent twice, becomes a list, which no parameter accepts.
    """
    found: Parameters = {}
    for name, value in pairs:
        base, bracket, _ = name.partition("[")
        if not bracket:
            found[name] = [value] if name in found else value
        elif part := _META.fullmatch(name):
            _add_to_meta(found, part[1], value)
        else:
            found[base] = [value]
    return found


def _add_to_meta(found: Parameters, name: str, value: Any) -> None:
    """Add a string to the object ``meta``; if ``meta`` was sent in another form, too, make it invalid."""
    meta = found.setdefault("meta", {})
    if isinstance(meta, dict) and name not in meta:
        meta[name] = value
    else:
        found["meta"] = [value]


def require_single_values(asked: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise ``InvalidParameters`` for those of these parameters that were sent twice, or as a list or object;
    ``meta`` may be an object.
    """
    reasons = {
        name: "must be one value, sent once"
        for name, value in asked.items()
        if (isinstance(value, list) or (isinstance(value, dict) and name != "meta")) and name in names
    }
    if reasons:
        raise InvalidParameters(reasons)


def read(asked: Mapping[str, Any], parsers: Mapping[str, Callable[[object], Any]]) -> dict[str, Any]:
    """Parse those of the parameters that were sent. Raises ``InvalidParameters`` with all invalid ones."""
    values, reasons = {}, {}
    for name, parse in parsers.items():
        if name in asked:
            try:
                values[name] = parse(asked[name])
            except ValueError as reason:
                reasons[name] = str(reason)
    if reasons:
        raise InvalidParameters(reasons)
    return values


def parse_body(kind: bytes, body: bytes) -> Parameters:
    """The parameters in a body with the ``Content-Type`` ``kind``; none if the body is empty, ``{}``, ``[]``
    or ``null``. Raises ``MalformedJson``, ``BodyNotAnObject`` or ``MalformedForm``.
    """
    media_type = kind.partition(b";")[0].strip().lower()
    if media_type == b"multipart/form-data":
        return _from_pairs(_at_once(_multipart(kind, body)))
    return _parse(media_type, body)


def _parse(kind: bytes, body: bytes) -> Parameters:
    # Regardless of the header: no form has a field whose name begins like this, and forgetting the header is
    # the most common mistake with JSON.
    looks_like_json = body.lstrip()[:1] in (b"{", b"[", b'"')
    if kind == b"application/json" or kind.endswith(b"+json") or looks_like_json:
        return _json(body)
    if body and kind != b"application/x-www-form-urlencoded":
        # Ignoring the body would lose the token, and a call that gives up one place would give up all.
        raise MalformedForm
    return _from_pairs(_pairs(body))


def _at_once(parsing: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that never waits, because it has its whole input."""
    try:
        parsing.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    # It waits: a thread is writing a large file to the disk.
    parsing.close()
    raise MalformedForm


async def _multipart(kind: bytes, body: bytes) -> list[tuple[str, Any]]:
    async def whole() -> AsyncGenerator[bytes, None]:
        yield body

    # Keep only the boundary: the client must not choose one of Python's codecs.
    if len(kind) > _MAX_CONTENT_TYPE:
        raise MalformedForm
    _, options = parse_options_header(kind)
    boundary = options.get(b"boundary", b"")
    if not re.fullmatch(rb"[ -!#-\[\]-~]{1,70}", boundary):
        raise MalformedForm
    ours = b'multipart/form-data; boundary="%b"' % boundary
    parser = MultiPartParser(
        Headers(raw=[(b"content-type", ours)]), whole(), max_files=_MAX_FILES, max_fields=_MAX_FIELDS
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError, LookupError):
        raise MalformedForm from None
    try:
        # No parameter may be a file, but a file must not be mistaken for a parameter that was not sent.
        return [(name, value if isinstance(value, str) else []) for name, value in form.multi_items()]
    finally:
        await form.close()


def _json(body: bytes) -> Parameters:
    if not body.strip():
        return {}
    if _is_deeper(body, _MAX_DEPTH):
        raise MalformedJson
    try:
        value = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise MalformedJson from None
    if value is None or value == []:
        # PHP encodes an empty map as a list.
        return {}
    if not isinstance(value, dict):
        raise BodyNotAnObject
    return value


def _is_deeper(body: bytes, levels: int) -> bool:
    """Whether the JSON has more levels of lists and objects, or unbalanced brackets.

    Each step removes the innermost level. All steps are searches and replacements, which cost far less than
    decoding.
    """
    without_escapes = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = _STRING.sub(b"", without_escapes).translate(_ONE_KIND, _NO_BRACKETS)
    for _ in range(levels):
        before = len(left)
        left = left.replace(b"[]", b"")
        if len(left) in (0, before):
            break
    return bool(left)


def require_own_product(call: Call, values: Mapping[str, Any]) -> None:
    """Raise ``InvalidParameters`` if an API key for one product sets another product, or none."""
    only = call.only_product_id
    if only is not None and values.get("product_id", only) != only:
        raise InvalidParameters({"product_id": f"must be {only}: the API key is for this product"})


MAX_GENERATED = 10_000
MAX_PER_PAGE = 1000
MAX_TEXT_LENGTH = 255


class Activation(Struct, gc=False):
    """One place that was taken on a license."""

    id: int
    token: str
    license_id: int
    label: str | None
    source: int
    ip_address: str
    user_agent: str
    meta_data: Mapping[str, str] | None
    created_at: str
    updated_at: str | None
    deactivated_at: str | None


class _License(Struct, rename="camel", gc=False):
    """The fields with which every license in an answer begins."""

    id: int
    order_id: int | None
    product_id: int | None
    user_id: int | None
    license_key: str
    expires_at: str | None
    valid_for: int | None
    source: int
    status: int
    times_activated: int
    times_activated_max: int | None
    created_at: str


class License(_License, rename="camel", gc=False):
    """A license without its activations."""

    created_by: int
    updated_at: str
    updated_by: int | None


class LicenseWithActivations(License, rename="camel", gc=False):
    """A license with its activations, deactivated ones included."""

    activation_data: list[Activation]


class ValidatedLicense(License, rename="camel", gc=False):
    """A license, as validation returns it."""

    remaining_activations: int | None
    activation_data: list[Activation]


class ActivatedLicense(_License, rename="camel", gc=False):
    """A license with the activation that the call created or reactivated."""

    updated_at: str
    activation_data: Activation


class DeactivatedLicense(_License, rename="camel", gc=False):
    """A license with the activations that the call deactivated."""

    updated_at: str
    activation_data: Activation | list[Activation]


class Generator(Struct, rename="camel"):
    """A recipe for license keys. Four of its numbers are strings, as typed clients of this format expect."""

    id: int
    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: str | None
    separator: str | None
    prefix: str | None
    suffix: str | None
    expires_in: str | None
    created_at: str
    created_by: str | None
    updated_at: str
    updated_by: str | None


#: The parameters for creating or changing a license.
LICENSE_PARAMETERS = (
    *("license_key", "order_id", "product_id", "user_id"),
    *("status", "expires_at", "valid_for", "times_activated_max"),
)
#: The parameters for creating or changing a generator, for generating licenses, and for listing licenses.
GENERATOR_PARAMETERS = (
    *("name", "charset", "chunks", "chunk_length"),
    *("times_activated_max", "separator", "prefix", "suffix", "expires_in"),
)
GENERATION_PARAMETERS = ("amount", "status", "order_id", "product_id", "user_id")
LIST_PARAMETERS = ("page", "per_page", "status", "product_id", "order_id", "user_id")
