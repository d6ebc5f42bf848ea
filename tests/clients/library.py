"""The client libraries that make calls, each driven by a program of ``drivers`` in its language."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.deploy.programs import program

DRIVERS, CLIENTS = Path(__file__).parent / "drivers", Path(__file__).parents[2] / "clients"
#: Parameters of tests; all but Python are tested by ``make test-rest``.
LIBRARIES = (
    "python",
    "javascript",
    "go",
    "php",
    "csharp",
)
DEVICE, LICENSE_KEY = "device-of-the-tests", "EDTR-7QKX-M2VD-9RTA"
#: How many processes share the calls: PHP makes one after the other.
_PROCESSES = {"php": 16}


class Made(NamedTuple):
    """What a call returned, and after how many seconds by the library's own clock."""

    valid: bool
    state: str
    detail: str
    seconds: float


class Call(NamedTuple):
    """``check``, ``activate``, ``choose`` or ``trial``, with what is kept in ``file``; or with a lease of
    ``holder``. ``choose`` activates, and again in the place of the first of the devices: ``state`` has both
    states, ``detail`` the name of that device.

    ``lease`` takes, renews, checks and gives back; ``take`` never gives back; ``watch`` takes one of 2 s and
    goes on until there is the file ``end``. ``valid`` means that it was held. Without a license key, the kept
    one counts.
    """

    call: str
    url: str
    file: Path
    license_key: str = LICENSE_KEY
    ca_file: str = ""
    holder: str = ""
    end: str = ""

    def to_json(self) -> dict[str, str]:
        return {name: str(value) for name, value in self._asdict().items()}


class Library(NamedTuple):
    """A client library. ``command`` starts its driver."""

    language: str
    command: Sequence[str]
    public_key: str
    device: str = DEVICE

    def run(self, *calls: Call, timeout: float = 30, environ: dict[str, str] | None = None) -> list[Made]:
        """Make the calls at the same moment, as far as the language does; ``timeout`` is the library's."""
        number = min(_PROCESSES.get(self.language, 1), len(calls))
        parts = [calls[one::number] for one in range(number)]
        with ThreadPoolExecutor(number) as threads:
            made = list(threads.map(lambda part: self._run(part, timeout, environ or {}), parts))
        return [made[at % number][at // number] for at in range(len(calls))]

    def _run(self, calls: Sequence[Call], timeout: float, environ: dict[str, str]) -> list[Made]:
        command = [*self.command, str(timeout), self.public_key, self.device]
        names = {"PYTHONPATH": str(CLIENTS / "python"), "KEYWRIGHT_FINGERPRINT": self.device}
        done = subprocess.run(
            command,
            input=json.dumps([one.to_json() for one in calls]),
            env={**os.environ, **names, **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        # A look-up that goes on would keep some drivers: these end with a signal.
        assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
        return [Made(**one) for one in json.loads(done.stdout)]

    def file(self, folder: Path) -> Path:
        """The file in which the library keeps a license below this folder."""
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "editor.json"

    def read(self, file: Path) -> dict[str, Any]:
        """What is kept, by the same names for every library."""
        kept = json.loads(file.read_text())
        go = {"LicenseKey": "license_key", "Answer": "answer", "Latest": "latest", "KeySets": "key_sets"}
        return {go.get(name, name): value for name, value in kept.items()}

    def edit(self, file: Path, **members: Any) -> None:
        """Change what is kept, as somebody with an editor would."""
        kept = json.loads(file.read_text())
        names = {"license_key": "LicenseKey", "answer": "Answer", "latest": "Latest"}
        changed = {names[name] if names[name] in kept else name: value for name, value in members.items()}
        file.write_text(json.dumps({**kept, **changed}))

    def copy(self, file: Path, folder: Path) -> Path:
        """A copy of what is kept, below another folder."""
        return Path(shutil.copy(file, self.file(folder)))

    def copy_unwritable(self, file: Path, folder: Path) -> Path:
        """A copy of what is kept that can be read and not written, by the system's administrator either."""
        copied = self.copy(file, folder)
        if self.language == "python":
            copied.with_name(f"{copied.name}.lock").mkdir()
            return copied
        # No file beside it has a name that is short enough.
        return copied.rename(folder / ("e" * 250))


def build(language: str, folder: Path, public_key: str) -> Library:
    """The library of a language; skips the test where the machine does not have it."""
    return Library(language, _COMMANDS[language](folder), public_key)


def _build_go(folder: Path) -> Sequence[str]:
    built = str(folder / "calls")
    subprocess.run([program("go"), "build", "-o", built, "."], cwd=DRIVERS, check=True)
    return (built,)


def _build_csharp(folder: Path) -> Sequence[str]:
    built, client = str(folder / "calls.exe"), CLIENTS / "csharp"
    sources = [client / name for name in ("Keywright.cs", "Json.cs", "Ed25519.cs")]
    command = [program("mcs"), "-warnaserror", "-r:System.Numerics", f"-out:{built}"]
    subprocess.run([*command, *sources, DRIVERS / "Calls.cs"], check=True)
    return program("mono"), built


_COMMANDS: dict[str, Callable[[Path], Sequence[str]]] = {
    "python": lambda _: (sys.executable, str(DRIVERS / "calls.py")),
    "javascript": lambda _: (program("node"), str(DRIVERS / "calls.mjs")),
    "php": lambda _: (program("php"), str(DRIVERS / "calls.php")),
    "go": _build_go,
    "csharp": _build_csharp,
}
