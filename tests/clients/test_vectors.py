"""The clients in other languages pass every shared vector."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.programs import program
from tests.proving import record
from tests.vectors import CASES, FOLDER

CLIENTS = FOLDER.parent
DATABASES = ("sqlite",)
pytestmark = pytest.mark.tier("rest")


def run(folder: Path, *command: str) -> str:
    """What a command prints. Fails for another exit status than 0."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("node", "javascript", "vectors.mjs", str(FOLDER)),
        ("php", "php", "vectors.php", str(FOLDER)),
        ("go", "go", "test", "-count=1", "-v", "."),
        ("mono", "csharp", "Vectors.cs", str(FOLDER)),
    ],
    ids=["javascript", "php", "go", "csharp"],
)
def test_a_client_passes_every_vector(command: Sequence[str], tmp_path: Path) -> None:
    name, folder, *arguments = compiled(command, tmp_path)
    printed = run(CLIENTS / folder, program(name), *arguments)
    assert f"{len(CASES)} cases" in printed
    check_altered(folder, printed)


def check_altered(client: str, printed: str) -> None:
    """Of how many answers one bit was altered, and how many of these were accepted: none."""
    found = re.search(r"([0-9]+) altered, ([0-9]+) accepted", printed)
    assert found, printed
    altered, accepted = map(int, found.groups())
    record("R22", client, {"cases": len(CASES), "altered bits": altered, "wrongly accepted": accepted})
    assert altered > 0
    assert accepted == 0


def compiled(command: Sequence[str], folder: Path) -> Sequence[str]:
    """The command with a program in the place of its source, where it is in C#."""
    name, client, main, *arguments = command
    if name != "mono":
        return command
    built, sources = str(folder / "program.exe"), ("Keywright.cs", "Json.cs", "Ed25519.cs", main)
    run(CLIENTS / client, program("mcs"), "-warnaserror", "-r:System.Numerics", f"-out:{built}", *sources)
    return name, client, built, *arguments


@pytest.fixture(scope="session")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The verifier in C, with the checks of the compiler for memory and undefined behavior."""
    built = tmp_path_factory.mktemp("c") / "vectors"
    warnings = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-g")
    checks = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    sources = ("keywright.c", "vectors.c")
    run(CLIENTS / "c", program("gcc"), *warnings, *checks, *sources, "-lcrypto", "-o", str(built))
    return built


def test_the_verifier_in_c_passes_every_vector(verifier: Path, tmp_path: Path) -> None:
    wrong = [(one["name"], found) for one in CASES if (found := ask(verifier, one, tmp_path)) != wanted(one)]
    assert wrong == []


def test_the_verifier_in_c_refuses_an_answer_with_any_bit_altered(verifier: Path, tmp_path: Path) -> None:
    good = next(one for one in CASES if one["name"] == "a good answer")
    ok, altered, _time = ask(verifier, good, tmp_path, "altered").splitlines()
    assert ok == "ok true valid"
    assert altered == f"{len(good['text']) * 8} altered, 0 accepted"
    check_altered("c", altered)


def wanted(case: dict[str, Any]) -> str:
    good = f"ok {json.dumps(case['valid'])} {case['state']}"
    return good if case["result"] == "ok" else str(case["result"])


def ask(verifier: Path, case: dict[str, Any], folder: Path, *arguments: str) -> str:
    text = case["text"].encode("utf-8", "surrogatepass")
    if case["pad_to"] is not None:
        text = text.ljust(case["pad_to"])
    names = "issuer product license_key fingerprint built_at nonce operation body".split()
    expected = ["-" if case[name] is None else case[name] for name in names]
    lines = [" ".join(case["public_keys"]), " ".join(case["key_sets"]), *expected, str(case["now"]), ""]
    file = folder / "case"
    file.write_bytes("\n".join(lines).encode() + text)
    leaks = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [verifier, file, *arguments], capture_output=True, text=True, check=False, env=leaks
    )
    return done.stdout.strip() or done.stderr
