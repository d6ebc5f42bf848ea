"""The file of a backup, which an attacker may have changed."""

import tarfile
from contextlib import closing
from datetime import datetime
from io import BytesIO

import msgspec

from keywright.core.errors import StoreError
from keywright.maintenance.backup.archive import Backup
from keywright.maintenance.backup.manifest import Contents, Manifest
from tests.backups import build_archive, ignore_progress
from tests.fuzzing.of_settings import a_file
from tests.fuzzing.pieces import BREAK, joined, pieces
from tests.makers import NOW

_MANIFEST = Manifest(
    format=3,
    made_at=NOW,
    made_by="0.1.0",
    dumped_by=None,
    database="sqlite",
    revision="0001",
    secret_id="0123456789abcdef",
    has_secret=True,
    installed_at=NOW,
    contents=Contents(1, 2, 3, 0, 0, 0, NOW),
)


def backups(data: bytes) -> None:
    """A backup is read to the last bit as it was written; anything else is refused. In two pieces, the input
    is a manifest and a database in a well-formed file.
    """
    content, payload = (_build(*pieces(data, 2)), pieces(data, 2)[1]) if BREAK in data else (data, None)
    path, output = a_file("backup", content), BytesIO()
    try:
        with closing(Backup(path)) as backup:
            backup.read(output, ignore_progress, signed_by=None)
    except StoreError as refusal:
        _assert_readable(refusal)
        return
    assert isinstance(backup.manifest.made_at, datetime)
    assert backup.size == len(output.getvalue())
    assert payload in (None, output.getvalue())


def _build(manifest: bytes, payload: bytes) -> bytes:
    """A well-formed file with any manifest."""
    try:
        decoded = msgspec.json.decode(manifest, type=Manifest)
        moment, has_secret = int(decoded.made_at.timestamp()), decoded.has_secret
    except (msgspec.DecodeError, ValueError, OverflowError):
        moment, has_secret = 0, True
    secret = {"secret": b"x" * 40 + b"\n"} if has_secret else {}
    parts = {"manifest.json": manifest, **secret, "keywright.db": payload}
    return build_archive(parts, moment, ["0" * 64])


def _assert_readable(refusal: StoreError) -> None:
    assert "\n" not in str(refusal)


def _with_a_huge_size(content: bytes) -> bytes:
    header = tarfile.TarInfo("keywright.db")
    header.size = 1 << 70
    start = content.index(b"keywright.db")
    return content[:start] + header.tobuf(tarfile.GNU_FORMAT) + content[start + tarfile.BLOCKSIZE :]


_JSON = msgspec.json.encode(_MANIFEST)
SEEDS = (
    joined(_JSON, "database"),
    joined(_JSON.replace(b"2026-01", b"0001-01"), ""),
    joined(_JSON.replace(b'"made_at":"2026-01-15T12:30:45Z"', b'"made_at":"2026-01-15T12:30:45"'), "x" * 600),
    _build(_JSON, b"database"),
    _with_a_huge_size(_build(_JSON, b"database")),
    b"manifest.json\0",
    b"",
)
