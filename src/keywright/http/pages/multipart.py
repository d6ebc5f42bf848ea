"""Forms with files: multipart/form-data (RFC 7578), as browsers send them.

Starlette's parser would write a larger file, with its license keys, to a temporary file.
"""

import re
from typing import Final, NamedTuple

from keywright.core.errors import MalformedForm

MULTIPART: Final = "multipart/form-data"
#: A form with a file has a few fields besides.
_MAX_PARTS = 20
#: RFC 2046 allows boundaries of up to 70 characters.
_BOUNDARY = re.compile(r'boundary="?([^";\s]{1,70})"?')
_NAMES = re.compile(r';\s*(name|filename)="([^"]*)"')
_LINE = b"\r\n"


class UploadedFile(NamedTuple):
    """A file as it was chosen; ``name`` has no folders."""

    name: str
    content: bytes


def parse_multipart(content_type: str, body: bytes) -> tuple[list[tuple[str, str]], dict[str, UploadedFile]]:
    """The fields and the files of a form. One that was not chosen is left out. Raises ``MalformedForm``."""
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
