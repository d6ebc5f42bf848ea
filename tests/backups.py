"""Backups for tests: made, checked, restored, taken apart, and built by hand."""

import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from keywright.core.crypto import KeyRing
from keywright.maintenance.backup import Backup, NewBackup, make_backup, restore
from tests.makers import KEY_RING


def ignore_progress(_step: str, _done: int, _total: int) -> None:
    pass


def back_up(
    url: str,
    file: Path,
    *,
    key_ring: KeyRing | None = KEY_RING,
    secret: str | None = None,
    is_overwriting: bool = False,
) -> NewBackup:
    return make_backup(
        url,
        file,
        made_by="a test",
        key_ring=key_ring,
        secret=secret,
        is_overwriting=is_overwriting,
        progress=ignore_progress,
    )


def restore_backup(
    file: Path,
    url: str,
    *,
    key_ring: KeyRing = KEY_RING,
    is_unsigned: bool = False,
    is_overwriting: bool = False,
    before_replacing: Callable[[], None] = lambda: None,
) -> Path | None:
    with closing(Backup(file)) as backup:
        return restore(
            backup,
            url,
            key_ring,
            is_unsigned=is_unsigned,
            is_overwriting=is_overwriting,
            before_replacing=before_replacing,
            progress=ignore_progress,
        )


def check_backup(file: Path, signed_by: KeyRing | None = KEY_RING) -> None:
    with closing(Backup(file)) as backup:
        backup.read(None, ignore_progress, signed_by=signed_by)


def extract_parts(file: Path) -> dict[str, bytes]:
    """The parts of a backup by name, read as any program can."""
    with tarfile.open(file) as archive:
        return {one.name: content.read() for one in archive if (content := archive.extractfile(one))}


def build_backup(parts: Mapping[str, bytes], signature: Sequence[str]) -> bytes:
    """A well-formed backup of these parts, with the right sum and these lines after it: all that anyone can
    write without the secret.
    """
    manifest = json.loads(parts["manifest.json"])
    return build_archive(parts, int(datetime.fromisoformat(manifest["made_at"]).timestamp()), signature)


def build_archive(parts: Mapping[str, bytes], moment: int, signature: Sequence[str]) -> bytes:
    """The same of parts that may be no backup's."""
    output, end = BytesIO(), BytesIO()
    archive = tarfile.TarFile(fileobj=output, mode="w", format=tarfile.GNU_FORMAT)
    for name, content in parts.items():
        _add(archive, name, content, moment)
    lines = [sha256(output.getvalue()).hexdigest(), *signature]
    with tarfile.TarFile(fileobj=end, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, "signature", "".join(f"{line}\n" for line in lines).encode(), moment)
    return output.getvalue() + end.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, moment: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(content), moment, 0o600
    archive.addfile(info, BytesIO(content))
