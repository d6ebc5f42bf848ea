"""Forms with files."""

import pytest

from keywright.core.errors import MalformedForm
from keywright.http.pages.forms import UploadedFile, parse_multipart
from tests.tables import each_row

TYPE = "multipart/form-data; boundary=XyZ"


def a_part(name: str, content: bytes, file_name: str | None = None) -> bytes:
    file = "" if file_name is None else f'; filename="{file_name}"\r\nContent-Type: text/csv'
    return (
        f'--XyZ\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content + b"\r\n"
    )


def test_fields_and_files_are_told_apart() -> None:
    body = a_part("a", b"1") + a_part("t", b"x\r\n--Xy\r\n\x00", "C:\\a\\b.csv") + b"--XyZ--\r\n"
    fields, files = parse_multipart(TYPE, body)
    assert fields == [("a", "1")]
    assert files == {"t": UploadedFile("b.csv", b"x\r\n--Xy\r\n\x00")}
    assert parse_multipart(TYPE, a_part("t", b"", "") + b"--XyZ--\r\n") == ([], {}), "none was chosen"


@each_row(
    ("content_type", "body"),
    [
        ("multipart/form-data", a_part("a", b"1") + b"--XyZ--\r\n"),
        (TYPE, b""),
        (TYPE, a_part("a", b"1")),
        (TYPE, b"before\r\n" + a_part("a", b"1") + b"--XyZ--\r\n"),
        (TYPE, a_part("a", b"\xff") + b"--XyZ--\r\n"),
        (TYPE, b"--XyZ\r\n\r\n1\r\n--XyZ--\r\n"),
        (TYPE, a_part("a", b"1") * 30 + b"--XyZ--\r\n"),
    ],
    ids=["no boundary", "empty", "no end", "text before", "no UTF-8", "no name", "many parts"],
)
def test_what_no_browser_sends_is_refused(content_type: str, body: bytes) -> None:
    with pytest.raises(MalformedForm):
        parse_multipart(content_type, body)
