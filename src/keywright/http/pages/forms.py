"""Parse the path, the query and the form of a page request, and the fields in them.

Starlette's form parser is not used: it would write a larger upload, with its license keys, to a temporary
file.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request

from keywright.core.errors import KeywrightError, MalformedForm, NoSuchAddress
from keywright.core.parsing import MAX_COUNT, MAX_ID, is_storable, parse_integer
from keywright.http.middleware.body import BODY_TIMEOUT, BodyReader
from keywright.http.pages.error_messages import explain, message_for
from keywright.http.pages.formats import _

MULTIPART: Final = "multipart/form-data"
#: The most parts of a form: it has a few fields besides the file.
_MAX_PARTS = 20
#: RFC 2046 allows boundaries of up to 70 characters.
_BOUNDARY = re.compile(r'boundary="?([^";\s]{1,70})"?')
_NAMES = re.compile(r';\s*(name|filename)="([^"]*)"')
_LINE = b"\r\n"


class UploadedFile(NamedTuple):
    """A file that the user chose; ``name`` has no folders."""

    name: str
    content: bytes


def parse_multipart(content_type: str, body: bytes) -> tuple[list[tuple[str, str]], dict[str, UploadedFile]]:
    """The fields and files of a form. Empty file fields are omitted. Raises ``MalformedForm``."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None or not boundary[1].isascii():
        raise MalformedForm
    delimiter = b"--" + boundary[1].encode()
    first, *parts = body.split(_LINE + delimiter, _MAX_PARTS)
    parts = [first.removeprefix(delimiter), *parts]
    if not first.startswith(delimiter) or parts.pop().rstrip(_LINE) != b"--":
        raise MalformedForm
    fields: list[tuple[str, str]] = []
    files: dict[str, UploadedFile] = {}
    for part in parts:
        names, content = _parse_part(part)
        if "filename" not in names:
            fields.append((names["name"], _decode(content)))
        elif names["filename"] or content:
            files[names["name"]] = UploadedFile(re.split(r"[/\\]", names["filename"])[-1], content)
    return fields, files


def _parse_part(part: bytes) -> tuple[dict[str, str], bytes]:
    """The names in the part's headers, and its content."""
    head, separator, content = part.partition(_LINE * 2)
    lines = _decode(head).split("\r\n")
    found = [one for one in lines if one.lower().startswith("content-disposition: form-data")]
    names = dict(_NAMES.findall(found[0])) if found else {}
    if not separator or "name" not in names:
        raise MalformedForm
    return names, content


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise MalformedForm from None


class _Number(Convertor[int]):
    """An ID in a path, ``{id:number}``, of at most 19 digits: no ID is longer."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


def register() -> None:
    """Register ``{id:number}`` for paths."""
    register_url_convertor("number", _Number())


#: The most fields in a query or a form; a page of a list has far fewer checkboxes.
_MAX_FIELDS = 1000
_FORM = "application/x-www-form-urlencoded"
#: How long a form with a file may take to arrive, in seconds: 8 MiB over 1.2 Mbit/s.
_UPLOAD_TIMEOUT = 60


class Form(Mapping[str, str]):
    """Fields by name. ``form["x"]`` is the first value, trimmed; ``form.get("x", "")`` allows it to be
    missing; ``form.all("x")`` is every value, for checkboxes; ``form.raw("x")`` is untrimmed, for passwords;
    ``form.file("x")`` is an uploaded file.
    """

    def __init__(
        self, pairs: Iterable[tuple[str, str]] = (), files: Mapping[str, UploadedFile] | None = None
    ) -> None:
        self._files = files or {}
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name][0].strip()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def all(self, name: str) -> list[str]:
        """Every value of this name, in order."""
        return list(self._values.get(name, ()))

    def raw(self, name: str) -> str:
        """The first value untrimmed, or an empty string."""
        return self._values.get(name, [""])[0]

    def file(self, name: str) -> UploadedFile | None:
        """The file of this name, if one was chosen."""
        return self._files.get(name)


def parse_query(request: Request) -> Form:
    """The fields of the query string. Raises ``MalformedForm``."""
    return Form(_parse(request.scope["query_string"]))


async def read_form(
    request: Request,
    body_reader: BodyReader,
    limit: int,
    *,
    address: str,
    is_anonymous: bool,
    has_files: bool = False,
) -> Form:
    """Read the form in a body of at most ``limit`` bytes, from the client with this ``address``. It may
    contain files with ``has_files``.

    Raises ``EncodedBody``, ``BodyTooLarge``, ``BodyIncomplete``, ``RequestTooSlow``, ``QueueFull`` or
    ``MalformedForm``.
    """
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    is_multipart = has_files and kind == MULTIPART
    parse = partial(_parse_files, content_type) if is_multipart else partial(_parse_body, kind)
    headers = dict(request.scope["headers"])
    timeout = _UPLOAD_TIMEOUT if is_multipart else BODY_TIMEOUT
    return await body_reader.read(
        headers,
        request.receive,
        limit,
        parse,
        address=address,
        is_trusted=not is_anonymous,
        timeout=timeout,
    )


def _parse_body(kind: str, body: bytes) -> Form:
    if body and kind != _FORM:
        raise MalformedForm
    return Form(_parse(body))


def _parse_files(content_type: str, body: bytes) -> Form:
    fields, files = parse_multipart(content_type, body)
    return Form(_require_storable(fields), files)


def _parse(encoded: bytes) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(
            encoded.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise MalformedForm from None
    return _require_storable(pairs)


def _require_storable(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if not all(is_storable(name) and is_storable(value) for name, value in pairs):
        raise MalformedForm
    # Browsers send CR LF for each line end.
    return [(name, value.replace("\r\n", "\n")) for name, value in pairs]


Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)


class Inputs:
    """Reads the fields of a form. ``errors`` has a message for each invalid field."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.errors: dict[str, str] = {}

    def read(self, name: str, parse: Callable[[str], Value], *, is_trimmed: bool = True) -> Value | None:
        """The value of a field; None if it is empty, or if ``parse`` refuses it."""
        text = self._form.get(name, "") if is_trimmed else self._form.raw(name)
        if not text:
            return None
        try:
            return parse(text)
        except ValueError as reason:
            self.errors[name] = explain(reason)
        except KeywrightError as error:
            self.errors[name] = message_for(error).sentence
        return None

    def require(
        self,
        name: str,
        parse: Callable[[str], Value | None],
        default: Value,
        *,
        is_trimmed: bool = True,
    ) -> Value:
        """The value of a required field; ``default`` if it is empty or invalid."""
        value = self.read(name, parse, is_trimmed=is_trimmed)
        if value is None:
            self.errors.setdefault(name, _("This field is required."))
            return default
        return value

    def is_checked(self, name: str) -> bool:
        """Whether a checkbox is checked."""
        return name in self._form


def parse_choice(kind: type[Choice]) -> Callable[[str], Choice]:
    """A parser for the values of this enumeration."""

    def parse(text: str) -> Choice:
        try:
            return kind(text)
        except ValueError:
            raise ValueError("must be one of these") from None

    return parse


def parse_number(text: str) -> int | None:
    """An integer in a query; None if the text is not one."""
    with suppress(ValueError):
        return parse_integer(text)
    return None


def parse_positive(text: str, maximum: int = MAX_COUNT) -> int:
    """An integer from 1 to ``maximum``. Raises ``ValueError``."""
    number = parse_number(text)
    if not number or number > maximum:
        raise ValueError(f"must be a whole number from 1 to {maximum:,}")
    return number


def require_id(value: int) -> int:
    """An ID from a path. Raises ``NoSuchAddress`` if it exceeds the range of IDs in the database."""
    if not 0 <= value <= MAX_ID:
        raise NoSuchAddress
    return value
