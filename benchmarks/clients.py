"""Measure client libraries: the time of a verification in each, and the start of the Python client."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clients.vectors.pieces import FINGERPRINT, GOOD, LICENSE_KEY, NOW, A

CLIENTS = Path(__file__).parent.parent / "clients"
_TIMES = 200
_STARTS = 9
_PYTHON = f"""
import sys, time
if sys.argv[1] == "alone":
    sys.modules["cryptography.exceptions"] = None
from keywright_client.verify import verify
text, key, now = sys.argv[2], sys.argv[3], float(sys.argv[4])
began = time.process_time()
for _ in range({_TIMES}):
    verify(text, public_keys=[key], now=now)
print("one verification:", (time.process_time() - began) * 1000 / {_TIMES}, "ms")
"""
_START = """
import time
began = time.perf_counter(), time.process_time()
import sys
from keywright_client import Keywright
key, folder, now = sys.argv[1:]
options = {"product": "editor", "public_keys": [key], "named_by": "environment"}
keywright = Keywright("http://127.0.0.1:9", folder=folder, clock=lambda: float(now), **options)
assert keywright.check().state == "valid"
print((time.perf_counter() - began[0]) * 1000, (time.process_time() - began[1]) * 1000)
"""


def measure(folder: Path, say: Callable[[str], None]) -> dict[str, float]:
    """Measure in milliseconds, by name; clients whose language is not installed are omitted."""
    figures = {}
    for name, (command, place) in _verifiers(folder).items():
        if shutil.which(command[0]) is None:
            continue
        say(f"verifying with {name} …")
        found = re.search(r"one verification: ([\d.]+) ms", _run(command, CLIENTS / place))
        assert found is not None, name
        figures[f"one verification by {name}"] = float(found[1])
    say("starting the Python client …")
    return figures | _measure_start(folder)


def _verifiers(folder: Path) -> Mapping[str, tuple[Sequence[str], str]]:
    """The command for each client, which prints the time of a verification, and the folder to run it in."""
    vectors = str(CLIENTS / "vectors")
    python = (sys.executable, "-c", _PYTHON)
    return {
        "JavaScript": (("node", "vectors.mjs", vectors), "javascript"),
        "Go": (("go", "test", "-count=1", "-v", "."), "go"),
        "C#": (("mono", _build_csharp(folder), vectors), "csharp"),
        "PHP": (("php", "vectors.php", vectors), "php"),
        "C": ((_build_c(folder), str(_write_case(folder)), "altered"), "c"),
        "Python with cryptography": ((*python, "with", GOOD, A.x, str(NOW)), "python"),
        "Python alone": ((*python, "alone", GOOD, A.x, str(NOW)), "python"),
    }


def _build_c(folder: Path) -> str:
    built, compiler = folder / "vectors", shutil.which("gcc")
    if compiler is not None:
        _run((compiler, "-O2", "keywright.c", "vectors.c", "-lcrypto", "-o", str(built)), CLIENTS / "c")
    return str(built)


def _build_csharp(folder: Path) -> str:
    built, compiler = folder / "vectors.exe", shutil.which("mcs")
    if compiler is not None:
        sources = ("Keywright.cs", "Json.cs", "Ed25519.cs", "Vectors.cs")
        _run((compiler, "-r:System.Numerics", f"-out:{built}", *sources), CLIENTS / "csharp")
    return str(built)


def _write_case(folder: Path) -> Path:
    """Write a valid answer in the format of the C test runner."""
    case = folder / "case"
    case.write_text("\n".join([A.x, "", "-", "editor", LICENSE_KEY, FINGERPRINT, *"----", str(NOW), GOOD]))
    return case


def _measure_start(folder: Path) -> dict[str, float]:
    """Measure the median of several starts, each in a new interpreter."""
    kept = folder / "kept"
    kept.mkdir()
    known = {"license_key": LICENSE_KEY, "answer": GOOD, "issued_at": NOW - 60, "latest": NOW - 60}
    known |= {"version": "None|None", "fingerprint": FINGERPRINT, "source": "environment"}
    (kept / "editor.json").write_text(json.dumps(known | {"installation_id": "0" * 32}))
    command = (sys.executable, "-c", _START, A.x, str(kept), str(NOW))
    starts = [_run(command, CLIENTS / "python").split() for _ in range(_STARTS)]
    seconds, processor = (statistics.median(map(float, one)) for one in zip(*starts, strict=True))
    name = "import keywright_client and check() from a kept answer"
    return {name: seconds, f"{name}, processor time": processor}


def _run(command: Sequence[str], folder: Path) -> str:
    environ = os.environ | {"PYTHONPATH": str(CLIENTS / "python"), "KEYWRIGHT_FINGERPRINT": FINGERPRINT}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout
