"""The folder with the bytes of files: each is stored once, under its SHA-256, and never overwritten.

All servers of an installation share the folder.
"""

import base64
import hashlib
import mmap
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from keywright.core.errors import BodyTooLarge, ContentMismatch, FilesUnavailable, ReleaseNotReady, StoreError
from keywright.core.file_signatures import is_signed_by
from keywright.db.locks import rename_durably, sync_folder
from keywright.licensing.updates.model import ReleaseFile
from keywright.provisioning.releases.commands import Digests, ReleaseWithFiles

_CHUNK = 1 << 20
_INCOMING = "incoming"
#: After so many seconds, an upload that was interrupted by the end of its process is deleted.
_LEFT_AFTER = 86_400


class Upload:
    """An upload to the folder; all digests are calculated as the bytes arrive."""

    def __init__(self, folder: Path, file: IO[bytes], max_bytes: int) -> None:
        self._folder, self._file, self._max_bytes = folder, file, max_bytes
        self._hashes = [hashlib.new(name) for name in ("sha256", "sha512")]
        self._hashes += [hashlib.new(name, usedforsecurity=False) for name in ("sha1", "md5")]
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Append some bytes. Raises ``BodyTooLarge``, and ``OSError`` on a full disk."""
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise BodyTooLarge
        self._file.write(piece)
        for one in self._hashes:
            one.update(piece)

    def finish(self, expected: ReleaseFile) -> Digests:
        """Store the bytes on disk, under their SHA-256. Raises ``ContentMismatch`` for other bytes."""
        sha256, sha512, sha1, md5 = self._hashes
        digests = Digests(
            self._size,
            sha256.hexdigest(),
            base64.b64encode(sha512.digest()).decode(),
            sha1.hexdigest(),
            md5.hexdigest(),
        )
        if not self._size:
            raise ContentMismatch(expected.name, "size", "1 or more", "0")
        require_same(expected, digests)
        self.keep(digests.sha256)
        return digests

    def keep(self, sha256: str) -> None:
        """Store the bytes on disk, under this name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        place = path_of(self._folder, sha256)
        # nginx may serve them, as a member of the group.
        os.fchmod(self._file.fileno(), 0o640)
        place.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        rename_durably(Path(self._file.name), place, is_overwriting=True)
        sync_folder(place.parent.parent)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes so far."""
        return self._hashes[0].hexdigest()


def require_same(file: ReleaseFile, digests: Digests) -> None:
    """Raise ``ContentMismatch`` if the file has, or announces, a size or digest other than these."""
    for name in ("size", "sha256"):
        expected, found = getattr(file, name), getattr(digests, name)
        if expected is not None and expected != found:
            raise ContentMismatch(file.name, name, str(expected), str(found))


def path_of(folder: Path, sha256: str) -> Path:
    """Return the path of the bytes with this SHA-256."""
    return folder / sha256[:2] / sha256


@contextmanager
def receiving(folder: Path, max_bytes: int) -> Iterator[Upload]:
    """Receive the bytes of a file; they are deleted unless ``finish`` or ``keep`` was called."""
    incoming = folder / _INCOMING
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    incoming.mkdir(mode=0o700, exist_ok=True)
    _delete_left(incoming)
    with NamedTemporaryFile(dir=incoming, delete=False) as file:
        try:
            yield Upload(folder, file, max_bytes)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(file.name)


def store_file(folder: Path, path: Path, expected: ReleaseFile, max_bytes: int) -> Digests:
    """Copy a local file into the folder. Raises what ``Upload`` does, and ``FilesUnavailable``."""
    with path.open("rb") as source:
        try:
            with receiving(folder, max_bytes) as upload:
                while piece := source.read(_CHUNK):
                    upload.write(piece)
                return upload.finish(expected)
        except OSError as problem:
            raise FilesUnavailable(str(problem)) from problem


def restore_file(folder: Path, sha256: str, pieces: Iterable[bytes]) -> None:
    """Restore the bytes with this SHA-256. Raises ``StoreError`` for other bytes."""
    with receiving(folder, sys.maxsize) as upload:
        for piece in pieces:
            upload.write(piece)
        if upload.sha256 != sha256:
            raise StoreError(f"the backup does not contain the original file {sha256}.")
        upload.keep(sha256)


def check_files(folder: Path, found: ReleaseWithFiles) -> list[ReleaseFile]:
    """Read the bytes of all files that are stored here, and verify digests and signatures; slow. Return the
    files. Raises ``ReleaseNotReady`` with the first problem.
    """
    for file in found.files:
        if file.url is None:
            _check_file(folder, file, found.public_keys)
    return list(found.files)


def _check_file(folder: Path, file: ReleaseFile, keys: tuple[str, ...]) -> None:
    if file.sha256 is None or file.stored_at is None:
        raise ReleaseNotReady(f"{file.name} was not uploaded")
    try:
        with path_of(folder, file.sha256).open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != file.sha256:
                raise ReleaseNotReady(f"{file.name} was altered on the disk")
            if file.signature is not None and keys:
                _check_signature(opened, file, keys)
    except FileNotFoundError:
        raise ReleaseNotReady(f"{file.name} is missing on the disk") from None


def _check_signature(opened: IO[bytes], file: ReleaseFile, keys: tuple[str, ...]) -> None:
    with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        with memoryview(content) as view:
            is_right = is_signed_by(keys, file.signature or "", view)
        if not is_right:
            raise ReleaseNotReady(f"the signature of {file.name} matches no public key of the product")


def read_digest(place: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with place.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def list_stored(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the SHA-256 and the path of all stored bytes."""
    for place in sorted(folder.glob("[0-9a-f][0-9a-f]/*")):
        yield place.name, place


def _delete_left(incoming: Path) -> None:
    for one in incoming.iterdir():
        with suppress(FileNotFoundError):
            if one.stat().st_mtime < time.time() - _LEFT_AFTER:
                one.unlink()
