"""The file of a backup, which anybody may have changed."""

from contextlib import closing
from datetime import datetime
from io import BytesIO

import msgspec

from keywright.core.errors import StoreError
from keywright.maintenance.backup.container import Backup, _Writer
from keywright.maintenance.backup.describing import Contents, Manifest
from tests.fuzzing.of_settings import a_file
from tests.fuzzing.pieces import BREAK, joined, pieces
from tests.makers import NOW

_MANIFEST = Manifest(
    format=2,
    made_at=NOW,
    made_by="0.1.0",
    dumped_by=None,
    database="sqlite",
    revision="0001",
    secret_mark="0123456789abcdef",
    has_secret=True,
    is_signed=True,
    installed_at=NOW,
    contents=Contents(1, 2, 3, 0, 0, 0, NOW),
)


def backups(data: bytes) -> None:
    """What is read from a backup is what was written, to the last bit; anything else is refused. In two
    pieces, the input is a manifest and a database in a file that is well-formed.
    """
    content, written = (_written(*pieces(data, 2)), pieces(data, 2)[1]) if BREAK in data else (data, None)
    path, found = a_file("backup", content), BytesIO()
    try:
        with closing(Backup(path)) as backup:
            backup.read(found, _silent, signed_by=None)
    except StoreError as refusal:
        _assert_readable(refusal)
        return
    assert isinstance(backup.manifest.made_at, datetime)
    assert backup.size == len(found.getvalue())
    assert written in (None, found.getvalue())


def _written(manifest: bytes, payload: bytes) -> bytes:
    """A well-formed file, whatever the manifest says."""
    try:
        said = msgspec.json.decode(manifest, type=Manifest)
        moment, has_secret, is_signed = int(said.made_at.timestamp()), said.has_secret, said.is_signed
    except (msgspec.DecodeError, ValueError, OverflowError):
        moment, has_secret, is_signed = 0, True, True
    output = BytesIO()
    writer = _Writer(output, max(0, moment))
    writer.small("manifest.json", manifest)
    if has_secret:
        writer.small("secret", b"x" * 40 + b"\n")
    writer.part("keywright.db", len(payload), [payload])
    writer.small("SHA256SUMS", "".join(writer.sums).encode())
    if is_signed:
        writer.small("signature", b"0" * 64 + b"\n")
    writer.put(bytes(1024))
    return output.getvalue()


def _assert_readable(refusal: StoreError) -> None:
    assert "\n" not in str(refusal)


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


_SAID = msgspec.json.encode(_MANIFEST)
SEEDS = (
    joined(_SAID, "database"),
    joined(_SAID.replace(b'"is_signed":true', b'"is_signed":false'), "database"),
    joined(_SAID.replace(b"2026-01", b"0001-01"), ""),
    joined(_SAID.replace(b'"made_at":"2026-01-15T12:30:45Z"', b'"made_at":"2026-01-15T12:30:45"'), "x" * 600),
    _written(_SAID, b"database"),
    b"manifest.json\0",
    b"",
)
