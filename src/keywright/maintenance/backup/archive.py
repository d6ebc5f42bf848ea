"""The format of a backup file: a tar archive.

Its parts, in this order: ``manifest.json``, which describes it; ``secret``, if requested; ``keywright.db``
(an SQLite database) or ``keywright.dump`` (a PostgreSQL database, in pg_dump's custom format); files of
releases, if requested, each as ``files/`` and its SHA-256; ``signature``.

The first line of ``signature`` is the SHA-256 of all bytes before that part. It detects accidental damage,
but anyone can recompute it. The second line is an HMAC-SHA-256 of the first, with a key derived from the
installation's secret, so only the owner of the secret can compute it. It is missing if no secret was
available. The bytes of ``signature`` itself, and of the end of the archive, follow from the two lines, so a
reader detects any changed byte.
"""

import hmac
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from gzip import BadGzipFile, GzipFile
from hashlib import sha256
from io import BufferedIOBase, BytesIO
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreError
from keywright.db.locks import new_file
from keywright.maintenance.backup.manifest import Manifest

#: The format version; backups in other formats are refused.
FORMAT: Final = 3
_MANIFEST, _SECRET, _SIGNATURE = "manifest.json", "secret", "signature"
#: The purpose for which the HMAC key is derived; it is used for nothing else.
_PURPOSE = "a backup"
#: The name of the part that contains the database.
_PARTS: Final = {"sqlite": "keywright.db", "postgresql": "keywright.dump"}
_FILES = "files/"
_FILE_NAME = re.compile(f"{_FILES}[0-9a-f]{{64}}")
CHUNK = 1 << 20
#: The maximum size of the manifest, the secret and the signature, in bytes.
_MAX_SMALL_PART = 1 << 16
#: Bytes between two syncs. A single sync at the end would write everything at once, and delay a server that
#: syncs to the same disk.
_SYNC_INTERVAL = 32 << 20

#: Called with the current step, the bytes done, and the bytes in total, 0 if unknown.
Progress = Callable[[str, int, int], None]


class _Format(msgspec.Struct):
    format: int
    made_by: str = "unknown"


def write(
    output: BinaryIO,
    manifest: Manifest,
    payload: Path,
    secret: str | None,
    *,
    files: Sequence[Path] = (),
    signed_by: KeyRing | None,
    progress: Progress,
) -> int:
    """Write a backup of the database in the file ``payload``, with these files of releases, which are named
    by their SHA-256; return its size in bytes. Raises ``StoreError`` for a file that was altered.

    Without ``signed_by``, the backup is not signed.
    """
    size = payload.stat().st_size
    total = size + sum(one.stat().st_size for one in files)
    target = _Output(output, lambda done: progress("written", done, total))
    archive = tarfile.TarFile(fileobj=target, mode="w", format=tarfile.GNU_FORMAT)
    _add(archive, _MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n", manifest)
    if secret is not None:
        _add(archive, _SECRET, f"{secret}\n".encode(), manifest)
    with payload.open("rb") as file:
        archive.addfile(_entry(_PARTS[manifest.database], size, manifest), file)
    for path in files:
        _add_file(archive, path, manifest)
    lines = [target.digest.hexdigest()]
    if signed_by is not None:
        lines.append(_sign(signed_by, manifest, lines[0]))
    target.write(_signature_part(lines, manifest))
    return target.tell()


def _add_file(archive: tarfile.TarFile, path: Path, manifest: Manifest) -> None:
    with path.open("rb") as file:
        reader = _Hashed(file)
        archive.addfile(_entry(f"{_FILES}{path.name}", os.fstat(file.fileno()).st_size, manifest), reader)
    if reader.digest.hexdigest() != path.name:
        raise StoreError(
            f"the file {path} was altered on disk: `keywright doctor` names its release. Restore the "
            "original file, or make the backup without --with-files."
        )


class _Hashed(BufferedIOBase):
    """Reads a file, and hashes the bytes read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = sha256()

    def read(self, size: int | None = -1, /) -> bytes:
        piece = self._file.read(-1 if size is None else size)
        self.digest.update(piece)
        return piece


class _Output(BufferedIOBase):
    """Writes to a file or a pipe; hashes, counts and syncs the bytes written."""

    def __init__(self, output: BinaryIO, progress: Callable[[int], None]) -> None:
        self._output = output
        self._progress = progress
        self._is_file = output.seekable()
        self._size = 0
        self._synced = 0
        self.digest = sha256()

    def write(self, content: Any, /) -> int:
        self._output.write(content)
        self.digest.update(content)
        self._size += len(content)
        if self._is_file and self._size >= self._synced + _SYNC_INTERVAL:
            self._output.flush()
            os.fsync(self._output.fileno())
            self._synced = self._size
        self._progress(self._size)
        return len(content)

    def tell(self) -> int:
        return self._size


class FilePart(NamedTuple):
    """A release file in a backup: its SHA-256, and where its bytes are."""

    sha256: str
    offset: int
    size: int


class Backup:
    """An open backup. Do not trust its ``manifest`` and ``secret`` before ``read`` has returned."""

    manifest: Manifest
    secret: str | None
    #: The size of the database, in bytes.
    size: int
    files: list[FilePart]

    def __init__(self, path: Path, name: str = "") -> None:
        """``name`` replaces the path in messages. Raises ``StoreError`` if the file is not a backup or has
        another format, ``OSError`` if it cannot be read.
        """
        self.path = Path(name or path)
        self._file = path.open("rb")
        #: The hash of the bytes before the database, updated while they are read.
        self._digest = sha256()
        try:
            self._read_structure()
        except BaseException:
            self._file.close()
            raise

    def _read_structure(self) -> None:
        if not _begins_with_manifest(self._file):
            raise not_a_backup_error(self.path)
        self.manifest = _parse_manifest(self._read_small_part(_MANIFEST), self.path)
        self.secret = self._read_small_part(_SECRET).strip() if self.manifest.has_secret else None
        self.size = self._read_header(_PARTS[self.manifest.database])
        self._payload_at, head = self._file.tell(), self._digest.copy()
        self._file.seek(self.size + _padding(self.size), os.SEEK_CUR)
        self.files = [self._read_file_header() for _ in range(self.manifest.files)]
        self._signature_at = self._file.tell()
        self._signature = self._read_small_part(_SIGNATURE).splitlines()[1:]
        self._digest = head

    def read(self, into: BinaryIO | None, progress: Progress, *, signed_by: KeyRing | None) -> None:
        """Check every byte of the backup, and write its database ``into`` a file.

        Raises ``StoreError`` if any bit has changed, or if the backup is not signed with this secret; then
        discard what was written ``into`` the file. Without ``signed_by``, the signature is not checked.
        """
        if signed_by is not None and not self._signature:
            raise _no_signature_error(self.path)
        digest, done, total = self._digest.copy(), 0, self._signature_at - self._payload_at
        for chunk in self._read_pieces(self._payload_at, total):
            digest.update(chunk)
            if into is not None:
                into.write(chunk[: max(0, self.size - done)])
            done += len(chunk)
            progress("read", done, total)
        expected = _signature_part([digest.hexdigest(), *self._signature], self.manifest)
        if self._file.read(len(expected) + 1) != expected:
            raise _damage_error(self.path)
        if signed_by is not None:
            signature = _sign(signed_by, self.manifest, digest.hexdigest())
            if not hmac.compare_digest("".join(self._signature).encode(), signature.encode()):
                raise _wrong_signature_error(self.path)

    def read_file(self, part: FilePart) -> Iterator[bytes]:
        """Yield the bytes of a release file."""
        return self._read_pieces(part.offset, part.size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_pieces(self, offset: int, size: int) -> Iterator[bytes]:
        self._file.seek(offset)
        while size:
            piece = self._file.read(min(size, CHUNK))
            if not piece:
                raise _damage_error(self.path)
            size -= len(piece)
            yield piece

    def _read_small_part(self, name: str) -> str:
        size = self._read_header(name)
        if size > _MAX_SMALL_PART:
            raise _damage_error(self.path)
        try:
            return self._take(size + _padding(size))[:size].decode()
        except UnicodeDecodeError:
            raise _damage_error(self.path) from None

    def _read_file_header(self) -> FilePart:
        name, size = self._read_next_header()
        if not _FILE_NAME.fullmatch(name):
            raise _damage_error(self.path)
        offset = self._file.tell()
        self._file.seek(size + _padding(size), os.SEEK_CUR)
        return FilePart(name.removeprefix(_FILES), offset, size)

    def _read_header(self, name: str) -> int:
        """Read the header of the next part, which must have this name; return the part's size."""
        found, size = self._read_next_header()
        if found != name:
            raise _damage_error(self.path)
        return size

    def _read_next_header(self) -> tuple[str, int]:
        """The name and the size of the next part."""
        # Parse each header here: tarfile.TarFile would follow any tar extensions in an untrusted file.
        try:
            header = tarfile.TarInfo.frombuf(self._take(tarfile.BLOCKSIZE), "ascii", "strict")
        except (tarfile.HeaderError, ValueError):
            raise _damage_error(self.path) from None
        is_file = header.type == tarfile.REGTYPE
        if not is_file or not 0 <= header.size <= os.fstat(self._file.fileno()).st_size:
            raise _damage_error(self.path)
        return header.name, header.size

    def _take(self, size: int) -> bytes:
        content = self._file.read(size)
        if len(content) < size:
            raise _damage_error(self.path)
        self._digest.update(content)
        return content


def unpack(source: BinaryIO, path: Path, name: str, *, is_compressed: bool) -> None:
    """Write a backup from a pipe, perhaps compressed with gzip, to a new file. Raises ``StoreError`` if
    compressed data is damaged or truncated.
    """
    try:
        with new_file(path) as file:
            copyfileobj(GzipFile(fileobj=source) if is_compressed else source, file, CHUNK)
    except (EOFError, BadGzipFile, zlib.error):
        raise _damage_error(Path(name)) from None


def is_backup(path: Path) -> bool:
    """Return whether the file begins like a backup."""
    with path.open("rb") as file:
        return _begins_with_manifest(file)


def not_a_backup_error(path: Path) -> StoreError:
    """Build the error for a file that is not a backup."""
    return StoreError(f"{path} is not a backup made by `keywright backup`.")


def _damage_error(path: Path) -> StoreError:
    return StoreError(f"{path} is damaged or truncated. Use another backup.")


def _no_signature_error(path: Path) -> StoreError:
    return StoreError(
        f"{path} is not signed, so it may have been altered, including passwords and limits, by anyone "
        "with write access to it. If you trust every place where it was stored, use --unsigned."
    )


def _wrong_signature_error(path: Path) -> StoreError:
    return StoreError(
        f"the signature of {path} does not match: the file was altered, perhaps including passwords and "
        "limits, or signed with another secret. Use another backup; to use this one anyway, use "
        "--unsigned."
    )


def _sign(key_ring: KeyRing, manifest: Manifest, digest: str) -> str:
    """Sign with the secret that the database was written with, if available, else with the current one."""
    ring = key_ring.find_ring(manifest.secret_id) or key_ring
    return ring.sign(_PURPOSE, digest).hex()


def _signature_part(lines: Sequence[str], manifest: Manifest) -> bytes:
    """Build the last part of a backup, including the end of the archive."""
    part = BytesIO()
    with tarfile.TarFile(fileobj=part, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, _SIGNATURE, "".join(f"{line}\n" for line in lines).encode(), manifest)
    return part.getvalue()


def _parse_manifest(text: str, path: Path) -> Manifest:
    try:
        header = msgspec.json.decode(text, type=_Format)
        if header.format != FORMAT:
            raise StoreError(
                f"{path} has backup format {header.format}, but this version of Keywright reads format "
                f"{FORMAT}. Restore it with the version that made it ({header.made_by})."
            )
        return msgspec.json.decode(text, type=Manifest)
    except msgspec.DecodeError:
        raise _damage_error(path) from None


def _begins_with_manifest(file: BinaryIO) -> bool:
    name = f"{_MANIFEST}\0".encode()
    begins = file.read(len(name)) == name
    file.seek(0)
    return begins


def _add(archive: tarfile.TarFile, name: str, content: bytes, manifest: Manifest) -> None:
    archive.addfile(_entry(name, len(content), manifest), BytesIO(content))


def _entry(name: str, size: int, manifest: Manifest) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, int(manifest.made_at.timestamp()), 0o600
    return info


def _padding(size: int) -> int:
    return -size % tarfile.BLOCKSIZE
