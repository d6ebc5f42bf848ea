"""The pages about update frameworks are right: what their build scripts upload is what apps are given."""

import base64
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.docs.test_documents import ROOT, blocks, run
from tests.server import RunningServer, running
from tests.unit.test_versions import CONTENT, MINISIGN_KEY, minisign

pytestmark = pytest.mark.tier("rest")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("updates") / "keywright-data") as started:
        yield started


def build(folder: Path, script: str) -> list[str]:
    """Make the files that a script uploads; returns their names."""
    (upload,) = [line for line in script.splitlines() if line.startswith("keywright release upload")]
    places = [folder / one.rpartition("=")[2] for one in shlex.split(upload)[5:]]
    for place in places:
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(CONTENT)
    return [place.name for place in places]


def run_script(server: RunningServer, script: str, product: str) -> None:
    run(server, re.sub("^keywright", ".venv/bin/keywright", script, flags=re.M).replace(" paint ", product))


@pytest.mark.parametrize(
    ("framework", "kinds"),
    [
        ("electron", ["feed", "installer", "blockmap"]),
        ("velopack", ["feed", "archive", "delta", "installer"]),
        ("sparkle", ["feed", "archive", "delta"]),
    ],
)
def test_a_build_script_ships_what_apps_are_given(
    server: RunningServer, framework: str, kinds: list[str]
) -> None:
    folder = server.data_dir.parent
    (script,) = blocks(ROOT / "docs" / "how-to" / f"update-{framework}-apps.md", "sh")
    names = build(folder, script)
    run(server, f".venv/bin/keywright product create --name {framework} --code {framework} --updates open")
    run_script(server, script, f" {framework} ")
    stored = dict(server.sql("SELECT name, kind FROM release_files ORDER BY id"))
    assert [stored[one] for one in names] == kinds
    at = f"{server.base_url}/u/open/{framework}/by-hand"
    assert {one: httpx.get(f"{at}/{one}").content for one in names} == dict.fromkeys(names, CONTENT)


def test_a_tauri_app_is_shipped_and_asks_why(server: RunningServer) -> None:
    folder = server.data_dir.parent
    script, ask = blocks(ROOT / "docs" / "how-to" / "update-tauri-apps.md", "sh")
    key = f"untrusted comment: minisign public key\n{MINISIGN_KEY}\n"
    (folder / "paint.key.pub").write_text(base64.b64encode(key.encode()).decode())
    (folder / "CHANGES.md").write_text("Faster.")
    for name in build(folder, script):
        signature = base64.b64encode(minisign(CONTENT).encode()).decode()
        (folder / "bundle" / f"{name}.sig").write_text(signature)
    run(server, ".venv/bin/keywright product create --name Paint --id 17 --code paint --updates open")
    run_script(server, script, " paint ")
    ask = ask.replace("https://licenses.example.com", server.base_url).replace("$UPDATE_TOKEN", "open")
    assert "keywright-update: up_to_date" in run(server, ask.replace("1.0.0", "2.0.0"))
    answer = httpx.get(f"{server.base_url}/u/open/paint/tauri/darwin/aarch64/1.0.0").json()
    assert httpx.get(answer["url"]).content == CONTENT
    assert answer["signature"] == signature
    assert answer["notes"] == "Faster."
