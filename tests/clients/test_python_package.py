"""keywright-client as others get it: a wheel, for every Python from 3.9 on, small and quick to start."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from clients.vectors.pieces import NOW
from tests.clients.conftest import Program
from tests.clients.signing_server import KEY, LICENSE_KEY
from tests.vectors import FOLDER as VECTORS

CLIENT = Path(__file__).parents[2] / "clients" / "python"
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
RUN_VECTORS = """
import json, sys, pathlib
from keywright_client.verify import Trust, VerificationError, follow_key_sets, verify
wrong = []
for path in pathlib.Path(sys.argv[1]).glob("*.json"):
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        text = case["text"] + " " * ((case["pad_to"] or 0) - len(case["text"].encode()))
        trust = follow_key_sets(Trust(tuple(case["public_keys"])), case["key_sets"], case["now"])
        names = "product license_key fingerprint nonce operation issuer built_at now".split()
        expected = {name: case[name] for name in names}
        body = None if case["body"] is None else case["body"].encode()
        try:
            verify(text, public_keys=trust.keys, body=body, **expected)
            result = "ok"
        except VerificationError as error:
            result = error.code
        wrong += [case["name"]] * (result != case["result"])
print(sys.version_info[:2], wrong)
"""
COLD = """
import sys, time
began = time.process_time()
from keywright_client import Keywright
url, key, folder, now = sys.argv[1:]
options = {"product": "editor", "public_keys": [key], "named_by": "environment"}
status = Keywright(url, folder=folder, clock=lambda: float(now), **options).check()
print(status.state, round((time.process_time() - began) * 1000), *sys.modules)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=CLIENT, check=True, capture_output=True)
    (built,) = folder.glob("keywright_client-*.whl")
    return built


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    return tmp_path / "installed"


def python(version: str) -> str | None:
    """An interpreter of this version that starts."""
    found = shutil.which(f"python{version}")
    done = found and subprocess.run([found, "-c", ""], capture_output=True, check=False)
    if done and done.returncode == 0:
        return found
    for beside in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")):
        return str(beside)
    return None


@pytest.mark.tier("rest")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_serves_a_program_of_every_python(
    installed: Path, program: Program, tmp_path: Path, version: str
) -> None:
    interpreter = python(version)
    if interpreter is None:
        pytest.skip(f"there is no Python {version} here")
    environ = {**os.environ, "PYTHONPATH": str(installed), "PYTHONWARNINGS": "error"}
    command = [interpreter, "-c", RUN_VECTORS, str(VECTORS)]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(" []\n"), done.stdout
    code = (
        "import sys; from keywright_client import Keywright\n"
        "url, key, folder, now, license_key = sys.argv[1:]\n"
        "options = {'product': 'editor', 'public_keys': [key], 'clock': lambda: float(now)}\n"
        "keywright = Keywright(url, folder=folder, **options)\n"
        "print(keywright.activate(license_key).state, keywright.check(now=True).state)\n"
        "with keywright.lease() as lease: print(lease.is_held)\n"
        "keywright.deactivate(); print(keywright.check().state)"
    )
    arguments = [program.server.url, KEY.x, str(program.folder), str(NOW), LICENSE_KEY]
    done = subprocess.run(
        [interpreter, "-c", code, *arguments],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["valid", "valid", "True", "not_activated"], "")


def test_the_wheel_has_types_license_and_command(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"keywright_client/py.typed", "keywright_client/LICENSE"} <= names
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "keywright-client = keywright_client.__main__:main" in zipfile.ZipFile(wheel).read(entry).decode()


def test_a_kept_answer_is_checked_without_slow_modules(program: Program) -> None:
    program.start().activate(LICENSE_KEY)
    arguments = [program.server.url, KEY.x, str(program.folder), str(NOW)]
    environ = {**os.environ, "PYTHONPATH": str(CLIENT)}
    command = [sys.executable, "-c", COLD, *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    state, milliseconds, *modules = done.stdout.split()
    print(f"import and check() from a kept answer: {milliseconds} ms of the processor")
    assert state == "valid"
    assert not {"asyncio", "ssl", "urllib.request", "http.client", "threading", "dataclasses"} & set(modules)


def test_the_package_is_small() -> None:
    files = {path.name: lines_of(path.read_text()) for path in (CLIENT / "keywright_client").glob("*.py")}
    # A program that does not update itself needs no file of updates.
    updates = files.pop("updates.py")
    lines = sum(files.values())
    print(f"{lines} lines of code and docstrings, and {updates} for updates")
    assert lines <= 1_180
    assert updates <= 250


@pytest.mark.parametrize(
    "name",
    [
        "javascript/keywright.js",
        "go/keywright.go",
        "php/keywright.php",
        "c/keywright.c",
        "csharp/Keywright.cs",
    ],
)
def test_a_client_of_one_file_is_small(name: str) -> None:
    text = (CLIENT.parent / name).read_text()
    lines = lines_of(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
    print(f"{name}: {lines} lines of code")
    assert lines <= 465


def lines_of(text: str) -> int:
    """Those that are neither empty nor a comment alone."""
    lines = map(str.strip, text.splitlines())
    return sum(bool(line) and not line.startswith(("# ", "#:", "//")) for line in lines)


def test_what_is_kept_names_no_secret_but_the_license_key(program: Program) -> None:
    program.start().activate(LICENSE_KEY)
    kept = json.loads((program.folder / "editor.json").read_text())
    assert {name for name, value in kept.items() if LICENSE_KEY in str(value)} == {"license_key"}
