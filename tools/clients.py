"""Build the client packages in dist/clients. The build is reproducible: the same files give the same bytes.

python -m tools.clients [folder]
"""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENTS = ROOT / "clients"
GO_MODULE = "example.com/keywright"
#: Files in each package, besides its own.
_TEXTS = {"CHANGELOG.md": CLIENTS / "CHANGELOG.md", "LICENSE": ROOT / "LICENSE"}
_FILES = {
    "c": ("CMakeLists.txt", "keywright.c", "keywright.h", "keywright_client.pc.in"),
    "csharp": ("Ed25519.cs", "Json.cs", "Keywright.cs", "Keywright.csproj"),
    "go": ("go.mod", "keywright.go"),
    "javascript": (
        *("browser.d.ts", "browser.js", "keywright.d.ts", "keywright.js", "package.json"),
        *("updates.d.ts", "updates.js"),
    ),
    "php": ("composer.json", "keywright.php"),
}
#: 1980, the first year that zip supports.
_TIME = 315_532_800


def read_version() -> str:
    """Read the version of the clients from the Python package."""
    text = (CLIENTS / "python" / "keywright_client" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "(.+)"', text)
    assert found is not None
    return found[1]


def build(folder: Path) -> None:
    """Build all packages into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    version = read_version()
    _build_python(folder)
    write_tar(folder / f"keywright-client-{version}.tgz", "package/", _read("javascript"))
    write_tar(folder / f"keywright-client-c-{version}.tar.gz", f"keywright-client-c-{version}/", _read("c"))
    _write_zip(folder / f"keywright-client-php-{version}.zip", "", _read("php"))
    _write_zip(folder / f"keywright-client-csharp-{version}.zip", "", _read("csharp"))
    _build_go(folder / "go", f"v{version}")


def _read(client: str) -> dict[str, bytes]:
    """The files of a package, by name."""
    paths = {name: CLIENTS / client / name for name in (*_FILES[client], "README.md")} | _TEXTS
    return {name: paths[name].read_bytes() for name in sorted(paths)}


def _build_python(folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder.absolute())]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(_TIME)}
    subprocess.run(command, cwd=CLIENTS / "python", env=environment, check=True, capture_output=True)


def _build_go(folder: Path, version: str) -> None:
    """Write the files that a Go module proxy serves: GOPROXY may be this folder's URL, including file://."""
    at = folder / GO_MODULE / "@v"
    at.mkdir(parents=True, exist_ok=True)
    files = _read("go")
    (at / "list").write_text(f"{version}\n", encoding="utf-8")
    (at / f"{version}.info").write_text(json.dumps({"Version": version}), encoding="utf-8")
    (at / f"{version}.mod").write_bytes(files["go.mod"])
    _write_zip(at / f"{version}.zip", f"{GO_MODULE}@{version}/", files)


def write_tar(path: Path, prefix: str, files: Mapping[str, bytes], time: int = _TIME) -> None:
    """Write an archive of these files; each gets the prefix and this modification time."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{prefix}{name}")
            entry.size, entry.mtime, entry.mode = len(content), time, 0o644
            archive.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(written.getvalue(), mtime=0))


def _write_zip(path: Path, prefix: str, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(prefix + name)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "clients"
    build(target)
    for built in sorted(one for one in target.rglob("*") if one.is_file()):
        print(os.path.relpath(built, ROOT))
