"""The how-to pages about v3 are right: their commands run, and print what the pages show.

A block of JSON shows a part of what the last command before it prints; "…" in it stands for any value.
``$POLICY`` and ``$LICENSE`` are what a reader sets: the first ones that a page makes.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keywright.identity.model import Permissions
from tests.docs.test_documents import BLOCK, ROOT
from tests.server import RunningServer, running

pytestmark = pytest.mark.tier("ordinary")

HOW_TO = ROOT / "docs" / "how-to"
PAGES = sorted(page.name for page in HOW_TO.glob("*.md") if "127.0.0.1:8000/v3/" in page.read_text())
END = "--- end of a block ---"


def blocks_of(page: Path) -> list[tuple[str, list[Any]]]:
    """Return each block of commands, with the JSON that the page shows after it."""
    found: list[tuple[str, list[Any]]] = []
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "sh":
            found.append((block, []))
        elif kind == "json" and found:
            found[-1][1].append(json.loads(block))
    return found


def run(server: RunningServer, commands: list[str], token: str) -> list[list[Any]]:
    """Run the blocks in one shell; return the JSON values that each prints."""
    script = "".join(f"{one}echo '{END}'\n" for one in commands)
    done = subprocess.run(
        ["sh", "-e", "-c", script.replace("http://127.0.0.1:8000", server.base_url)],
        check=True,
        env={**os.environ, "TOKEN": token, "POLICY": "1", "LICENSE": "1"},
        capture_output=True,
        text=True,
    )
    return [list(read_values(one)) for one in done.stdout.split(END)[:-1]]


def read_values(text: str) -> Iterator[Any]:
    """Yield the JSON values that stand one after the other."""
    decoder = json.JSONDecoder()
    while text := text.strip():
        value, end = decoder.raw_decode(text)
        yield value
        text = text[end:]


def is_shown(shown: Any, real: Any) -> bool:
    """Return whether the real value has all that is shown."""
    if isinstance(shown, dict):
        return isinstance(real, dict) and all(
            name in real and is_shown(value, real[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        pairs = zip(shown, real, strict=False)
        return isinstance(real, list) and len(shown) == len(real) and all(is_shown(*one) for one in pairs)
    if isinstance(shown, str) and "…" in shown:
        pattern = ".*".join(map(re.escape, shown.split("…")))
        return real is not None and re.fullmatch(pattern, str(real)) is not None
    return bool(shown == real)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_its_commands_print(name: str, tmp_path: Path) -> None:
    with running(tmp_path / "keywright-data") as server:
        key, secret = server.api_key(Permissions.READ_WRITE)
        page = blocks_of(HOW_TO / name)
        printed = run(server, [commands for commands, _ in page], f"kw_{key[3:]}{secret[3:]}")
    assert any(shown for _, shown in page)
    for (commands, shown), values in zip(page, printed, strict=True):
        for one in shown:
            assert is_shown(one, values[-1]), f"{commands}\nprints\n{json.dumps(values[-1], indent=1)}"
        problems = [one for one in values if "code" in one and "status" in one and "valid" not in one]
        assert problems in ([], [values[-1]] if shown else []), f"{commands}\nis refused"


def test_a_value_that_is_not_printed_is_found() -> None:
    real = {"code": "grace", "items": [{"id": 1}], "at": "2026-11-22T08:54:00Z", "none": None}
    assert is_shown({"code": "grace", "items": [{"id": 1}], "at": "2026-…Z"}, real)
    others: tuple[Any, ...] = ({"code": "valid"}, {"items": []}, {"at": "2027-…"}, {"x": "…"}, {"none": "…"})
    assert not any(is_shown(one, real) for one in others)
