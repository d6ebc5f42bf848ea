"""The file of a backup: a tar archive, so that its parts can be had without Keywright, too.

In this order: ``manifest.json``, which says what it is; ``secret``, if it was asked for; ``keywright.db``
(an SQLite database) or ``keywright.dump`` (made by pg_dump); ``SHA256SUMS``, as sha256sum reads it;
``signature``, an HMAC-SHA-256 of ``SHA256SUMS`` in hex, by a key that derives from the installation's secret.
Nothing in it is left to chance, not even the time and the owner of its parts, so a reader knows every byte
that is not a part's own, and finds every byte that has changed. The sums find accidents: anyone can compute
them again. The signature covers all of them, hence every part, and only the secret's owner can compute it.
"""

import hmac
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreError
from keywright.maintenance.backup.describing import Manifest

#: Since 2, backups are signed; those of 1 are read as unsigned ones.
FORMAT: Final = 2
_MANIFEST, _SECRET, _SUMS, _SIGNATURE = "manifest.json", "secret", "SHA256SUMS", "signature"
#: The HMAC's key is of this purpose's own.
_PURPOSE = "a backup"
#: The database, by its kind.
PARTS: Final = {"sqlite": "keywright.db", "postgresql": "keywright.dump"}
_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
CHUNK = 1 << 20
#: The manifest, the secret and the sums are small; whatever says otherwise is no backup.
_MOST_OF_A_SMALL_PART = 1 << 16
#: What is to be written is on its way to the disk before it is much: whoever else syncs there, such as a
#: server that answers meanwhile, would have to wait for all of it.
_SYNCED_TOGETHER = 32 << 20

#: Hears what is being done, how many bytes of it are done, and of how many; 0 when that is not known.
Progress = Callable[[str, int, int], None]


class _Format(msgspec.Struct):
    format: int


def write(
    output: BinaryIO,
    manifest: Manifest,
    payload: Path,
    secret: str | None,
    *,
    signed_by: KeyRing | None,
    progress: Progress,
) -> int:
    """Write a backup, the database being in the file ``payload``; how many bytes it has. ``signed_by`` is
    given exactly when the manifest says that there is a signature.
    """
    writer = _Writer(output, int(manifest.made_at.timestamp()))
    writer.small(_MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    if secret is not None:
        writer.small(_SECRET, f"{secret}\n".encode())
    with payload.open("rb") as file:
        size = payload.stat().st_size
        writer.part(PARTS[manifest.database], size, _chunks(file, size, progress))
    sums = "".join(writer.sums)
    writer.small(_SUMS, sums.encode())
    if signed_by is not None:
        writer.small(_SIGNATURE, _signature(signed_by, manifest, sums))
    writer.put(_END)
    return writer.written


def _chunks(file: BinaryIO, size: int, progress: Progress) -> Iterator[bytes]:
    done = 0
    while chunk := file.read(CHUNK):
        yield chunk
        done += len(chunk)
        progress("written", done, size)


class _Writer:
    """Writes one part after the other, and keeps their sums."""

    def __init__(self, output: BinaryIO, moment: int) -> None:
        self._output = output
        self._moment = moment
        self._is_file = output.seekable()
        self._unsynced = 0
        self.sums: list[str] = []
        self.written = 0

    def small(self, name: str, content: bytes) -> None:
        self.part(name, len(content), [content])

    def part(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        self.put(_header(name, size, self._moment))
        sum, before = sha256(), self.written
        for chunk in chunks:
            sum.update(chunk)
            self.put(chunk)
        if self.written != before + size:
            raise StoreError(f"{name} changed while it was written into the backup. Try again.")
        self.put(_filling(size))
        self.sums.append(_line(name, sum.hexdigest()))

    def put(self, content: bytes) -> None:
        self._output.write(content)
        self.written += len(content)
        self._unsynced += len(content)
        if self._is_file and self._unsynced >= _SYNCED_TOGETHER:
            self._output.flush()
            os.fsync(self._output.fileno())
            self._unsynced = 0


class Backup:
    """A backup that is open. What it says of itself is known; ``read`` says whether it is whole."""

    def __init__(self, path: Path) -> None:
        """Raises ``StoreError`` for what is no backup or one of a newer Keywright, ``OSError`` for a file
        that cannot be read.
        """
        self.path = path
        self._file = path.open("rb")
        try:
            if not self._file.seekable():
                raise StoreError(
                    f"{path} is read twice, and can be read once only. Put it into a file first."
                )
            reader = _Reader(self._file, path)
            if not reader.is_first(_MANIFEST):
                raise StoreError(f"{path} is no backup that `keywright backup` has made.")
            self.manifest = _manifest(reader.small(_MANIFEST), path)
            self.secret = _text(reader.small(_SECRET), path) if self.manifest.has_secret else None
            self._payload_at, self._sums_before = self._file.tell(), reader.sums
            #: How many bytes the database has.
            self.size = reader.header(PARTS[self.manifest.database])
            self._moment = reader.moment
            if self._moment != int(self.manifest.made_at.timestamp()):
                raise damaged(path)
        except BaseException:
            self._file.close()
            raise

    def read(self, into: BinaryIO | None, progress: Progress, *, signed_by: KeyRing | None) -> None:
        """Read the database out of it, ``into`` a file or a pipe, and look at every byte of the backup.

        Raises ``StoreError`` unless it is, to the last bit, as it was written, and was signed by this secret;
        what went ``into`` the file is of no use then. With None, any signature will do, and none.
        """
        if signed_by is not None and not self.manifest.is_signed:
            raise _unsigned_error(self.path)
        self._file.seek(self._payload_at)
        reader, done = _Reader(self._file, self.path, self._moment, self._sums_before), 0
        for chunk in reader.part(PARTS[self.manifest.database]):
            if into is not None:
                into.write(chunk)
            done += len(chunk)
            progress("read", done, self.size)
        sums = "".join(reader.sums)
        if reader.small(_SUMS) != sums.encode():
            raise damaged(self.path)
        signature = reader.small(_SIGNATURE) if self.manifest.is_signed else b""
        if reader.rest() != _END:
            raise damaged(self.path)
        if signed_by is None:
            return
        if not hmac.compare_digest(signature, _signature(signed_by, self.manifest, sums)):
            raise _altered_error(self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Reader:
    """Reads one part after the other, and keeps their sums. Raises ``StoreError`` for what no backup has."""

    def __init__(
        self, file: BinaryIO, path: Path, moment: int | None = None, sums: Iterable[str] = ()
    ) -> None:
        self._file = file
        self._path = path
        self.moment = moment
        self.sums = list(sums)

    def is_first(self, name: str) -> bool:
        """Whether the file begins with this part."""
        begin = self._file.read(_BLOCK)
        self._file.seek(0)
        return begin.startswith(name.encode() + b"\0")

    def small(self, name: str) -> bytes:
        return b"".join(self.part(name, most=_MOST_OF_A_SMALL_PART))

    def part(self, name: str, most: int | None = None) -> Iterator[bytes]:
        size = self.header(name)
        if most is not None and size > most:
            raise damaged(self._path)
        found, left = sha256(), size
        while left:
            chunk = self._exactly(min(left, CHUNK))
            found.update(chunk)
            left -= len(chunk)
            yield chunk
        filling = _filling(size)
        if self._exactly(len(filling)) != filling:
            raise damaged(self._path)
        self.sums.append(_line(name, found.hexdigest()))

    def header(self, name: str) -> int:
        """The size of the part that comes next."""
        block = self._exactly(_BLOCK)
        try:
            found = tarfile.TarInfo.frombuf(block, "ascii", "strict")
            moment = int(found.mtime)
            is_ours = block == _header(name, found.size, moment) and self.moment in (None, moment)
        except (tarfile.HeaderError, ValueError):
            is_ours = False
        if not is_ours:
            raise damaged(self._path)
        self.moment = moment
        return found.size

    def rest(self) -> bytes:
        """What comes after the last part, as far as it matters."""
        return self._file.read(len(_END) + 1)

    def _exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise StoreError(f"{self._path} is cut off: its end is missing. Take another backup.")
        return found


def damaged(path: Path) -> StoreError:
    """It is not as it was written."""
    return StoreError(f"{path} is damaged: it is not as it was written. Take another backup.")


def _unsigned_error(path: Path) -> StoreError:
    return StoreError(
        f"{path} is not signed, so nothing shows that it is as your installation wrote it: anyone who could "
        "write to it may have altered it, passwords and limits included. If you trust every place where it "
        "was kept, say --unsigned."
    )


def _altered_error(path: Path) -> StoreError:
    return StoreError(
        f"{path} is not as your installation wrote it: its signature does not match. It was altered, "
        "passwords and limits perhaps included, or signed with another secret. Take another backup; to use "
        "this one in spite of that, say --unsigned."
    )


def _signature(key_ring: KeyRing, manifest: Manifest, sums: str) -> bytes:
    """By the secret that the database was written with, if it is there."""
    ring = key_ring.find_ring(manifest.secret_mark) or key_ring
    return f"{ring.sign(_PURPOSE, sums).hex()}\n".encode()


def _manifest(content: bytes, path: Path) -> Manifest:
    try:
        if msgspec.json.decode(content, type=_Format).format > FORMAT:
            raise StoreError(f"{path} was made by a newer Keywright. Install that version to restore it.")
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise damaged(path) from None


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode().strip()
    except UnicodeDecodeError:
        raise damaged(path) from None


def _header(name: str, size: int, moment: int) -> bytes:
    """What stands before a part: https://www.gnu.org/software/tar/manual/html_node/Standard.html."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, moment, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def _filling(size: int) -> bytes:
    """What fills the last block of a part."""
    return bytes(-size % _BLOCK)


def _line(name: str, digest: str) -> str:
    return f"{digest}  {name}\n"
