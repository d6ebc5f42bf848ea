"""Build a release in dist/release. The build is reproducible: the same files give the same bytes in any
folder.

python -m tools.release [folder]
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tools import clients

ROOT = Path(__file__).parents[1]
SUMS = "SHA256SUMS"
#: The environment variable with the path of minisign's secret key; without it, the sums are not signed.
KEY_VARIABLE = "MINISIGN_KEY"
#: The files for building an image: the Dockerfile, and what it copies.
IMAGE = (
    "LICENSE",
    "README.md",
    "converter",
    "deploy/Dockerfile",
    "deploy/Dockerfile.dockerignore",
    "deploy/compose.yaml",
    "docs",
    "pyproject.toml",
    "requirements.lock",
    "src",
)
_HEADING = re.compile(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)


def read_version() -> str:
    """The version of the server."""
    return _read_constant("__init__.py", "__version__")


def _read_constant(module: str, name: str) -> str:
    text = (ROOT / "src" / "keywright" / module).read_text(encoding="utf-8")
    found = re.search(rf'^{name} = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def read_notes(version: str, changes: str) -> tuple[str, int]:
    """The release notes in the text of CHANGELOG.md, and the version's date in seconds since 1970.

    Raises ``SystemExit`` if there is no heading like ``## 1.2.3 (2026-01-31)``.
    """
    parts = _HEADING.split(changes)
    for name, day, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if name == version:
            date = datetime.fromisoformat(day).replace(tzinfo=UTC)
            return f"# Keywright {version}\n\n{text.strip()}\n", int(date.timestamp())
    sys.exit(f"CHANGELOG.md has no heading `## {version} (year-month-day)`: write it first.")


def build(folder: Path) -> None:
    """Build everything except the signature in the folder, which is recreated.

    ``dist/keywright.cdx.json`` must exist (``make sbom``). Raises ``SystemExit`` if there are uncommitted
    changes.
    """
    _require_committed()
    version = read_version()
    notes, date = read_notes(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or date)
    if folder.exists() and any(folder.iterdir()) and not (folder / SUMS).exists():
        sys.exit(f"{folder} is not empty, and not a release: choose another folder.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _build_python(folder, ROOT, time)
    _build_python(folder, ROOT / "converter", time, "--target", "wheel")
    _build_clients(folder)
    clients.write_tar(folder / f"keywright-image-{version}.tar.gz", "", _read(ROOT, IMAGE), time)
    shutil.copyfile(ROOT / "dist" / "keywright.cdx.json", folder / f"keywright-{version}.cdx.json")
    # The exact dependencies that the release was tested with.
    shutil.copyfile(ROOT / "requirements.lock", folder / "requirements.lock")
    revisions = (ROOT / "src" / "keywright" / "db" / "migrations" / "versions").glob("[0-9]*.py")
    schema = max(one.name[:4] for one in revisions)
    oldest = _read_constant("db/migrate.py", "OLDEST_COMPATIBLE")
    notes += f"\nThe schema is {schema}; versions whose schema is at least {oldest} work on it, too.\n"
    (folder / "NOTES.md").write_text(notes, encoding="utf-8")
    lines = [
        f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in sorted(folder.iterdir())
    ]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def sign(folder: Path, key: str | None) -> None:
    """Sign the sums with minisign and the secret key in this file; without one, print how to do so later.

    Raises ``CalledProcessError`` if minisign fails.
    """
    # With -t, because the default comment contains the time.
    command = ["minisign", "-S", "-m", str(folder / SUMS), "-t", f"keywright {read_version()}"]
    if key:
        subprocess.run([*command, "-s", key], check=True)
        print(f"Signed: {folder / SUMS}.minisig")
        return
    shown = f"{' '.join(command[:-1])} {command[-1]!r}"
    print(f"Not signed: {KEY_VARIABLE} names no secret key of minisign. To sign it later:\n  {shown} -s KEY")


def _require_committed() -> None:
    if not (ROOT / ".git").exists():
        return
    command = ["git", "status", "--porcelain"]
    changed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    if changed:
        sys.exit(f"A release contains what is committed, and this is not:\n{changed}Commit or remove it.")


def _build_python(folder: Path, project: Path, time: int, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder.absolute()), *options]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)


def _build_clients(folder: Path) -> None:
    """Build all client packages; those for Go, which are folders, as an archive."""
    with tempfile.TemporaryDirectory() as temporary:
        built = Path(temporary)
        clients.build(built)
        go = _read(built, ["go"])
        clients.write_tar(folder / f"keywright-client-go-{clients.read_version()}.tar.gz", "", go)
        for one in built.iterdir():
            if one.is_file():
                shutil.copyfile(one, folder / one.name)


def _read(root: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Read the files with these names and in these folders: contents by path, sorted."""
    paths = [
        path
        for name in names
        for path in ((root / name).rglob("*") if (root / name).is_dir() else [root / name])
    ]
    kept = sorted(one for one in paths if one.is_file() and "__pycache__" not in one.parts)
    return {one.relative_to(root).as_posix(): one.read_bytes() for one in kept}


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "release"
    build(target)
    for built in sorted(target.iterdir()):
        print(f"{built.stat().st_size:>10,}  {os.path.relpath(built)}")
    sign(target, os.environ.get(KEY_VARIABLE))
