"""The OpenAPI document has no fault that linters find, and generators make clients from it that work.

Each generated client is compiled, with the types of a failure, and its script is run against a real server.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.asking import Client
from tests.packages.tools import HERE, NODE_MODULES, SCRIPTS, npm_program, python_program, run
from tests.server import NO_LIMITS, RunningServer, running

DOCUMENTS = ("v3.json", "v3.yaml", "v2.json")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("generated") / "data", **NO_LIMITS) as started:
        yield started


@pytest.fixture
def folder(server: RunningServer, tmp_path: Path) -> Path:
    """One with the documents of the server, ``v3.json`` and ``v3.yaml``, and what npm has installed."""
    with Client(server) as anyone:
        for name in DOCUMENTS:
            (tmp_path / name).write_bytes(anyone.get(f"/openapi/{name}").body)
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    return tmp_path


def variables(server: RunningServer) -> dict[str, str]:
    """The environment of a script."""
    key, secret = server.api_key()
    return {"SERVER": server.base_url, "TOKEN": "kw_" + re.sub("c[ks]_", "", key + secret)}


def test_redocly_finds_no_error(folder: Path) -> None:
    run([npm_program("redocly"), "lint", *DOCUMENTS], folder)


def test_redocly_finds_what_is_wrong(folder: Path) -> None:
    document = json.loads((folder / "v3.json").read_text(encoding="utf-8"))
    document["paths"][""] = document["paths"].pop("/")
    (folder / "v3.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(AssertionError, match="Property `` is not expected here"):
        run([npm_program("redocly"), "lint", "v3.json"], folder)


def test_spectral_finds_no_error(folder: Path) -> None:
    rules = str(HERE / "spectral.yaml")
    run([npm_program("spectral"), "lint", "-r", rules, "--fail-severity=error", "v3.json", "v2.json"], folder)


def test_openapi_python_client(server: RunningServer, folder: Path) -> None:
    generate = ["generate", "--path", "v3.json", "--meta", "none", "--output-path", "generated"]
    python = python_program("python")
    said = run(
        [python_program("openapi-python-client"), *generate, "--fail-on-warning"],
        folder,
        PATH=quiet_path(),
    )
    assert "may be missing" not in said
    shutil.copy(SCRIPTS / "script.py", folder)
    # Only the script: the client that is generated has faults of types in what it takes from httpx.
    check = [
        "--python-executable",
        python,
        "--follow-imports=silent",
        "--strict",
        "--config-file=",
        "script.py",
    ]
    run([sys.executable, "-m", "mypy", *check], folder)
    assert run([python, "script.py"], folder, **variables(server)) == "404 True\n"


@pytest.mark.parametrize(
    ("script", "generate"),
    [
        ("openapi_fetch.ts", ["openapi-typescript", "v3.json", "-o", "generated/schema.d.ts"]),
        ("hey_api.ts", ["openapi-ts", "-i", "v3.json", "-o", "generated"]),
    ],
)
def test_a_generator_for_typescript(
    server: RunningServer, folder: Path, script: str, generate: list[str]
) -> None:
    run([npm_program(generate[0]), *generate[1:]], folder)
    shutil.copy(SCRIPTS / script, folder / "script.ts")
    shutil.copy(SCRIPTS / "tsconfig.json", folder)
    run([npm_program("tsc"), "-p", "tsconfig.json"], folder)
    bundle = ["script.ts", "--bundle", "--platform=node", "--format=esm", "--outfile=script.mjs"]
    run([npm_program("esbuild"), *bundle], folder)
    assert run(["node", "script.mjs"], folder, **variables(server)) == "404 true\n"


def quiet_path() -> str:
    """With ruff, which the generator runs over what it has written."""
    return os.pathsep.join([str(Path(python_program("ruff")).parent), os.environ["PATH"]])
