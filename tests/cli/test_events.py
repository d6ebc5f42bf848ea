"""``keywright events``"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import forking
from tests.cli.conftest import Keywright
from tests.server import environment, wait_until

DATABASES = ("sqlite",)


def test_events_are_listed_the_oldest_first(used: Keywright) -> None:
    listed = used.json("events")
    assert [one["type"] for one in listed] == ["license.created", "license.activated"]
    assert listed[1]["subject"] == {"type": "license", "id": 1}
    assert listed[1]["details"]["activation_id"] == 1
    table = used("events", "--since", "yesterday")
    assert table.index("license.created") < table.index("license.activated")


@pytest.mark.smoke
def test_events_are_filtered_by_type_license_and_time(used: Keywright) -> None:
    used("license", "create", "--key", "B")
    used("policy", "create", "--name", "P")

    def types(*options: str) -> list[str]:
        return [one["type"] for one in used.json("events", *options)]

    assert types("--type", "policy.*") == ["policy.created"]
    assert types("--type", "license.activated") == ["license.activated"]
    assert types("--license", "B") == ["license.created"]
    assert types("--limit", "1") == ["license.created"]
    assert types("--since", "2099-01-01") == []
    for since in ("1h", "30m", "2d", "today", "2020-01-01"):
        assert types("--since", since, "--type", "policy.*") == ["policy.created"]
    for option, value in (("--since", "soon"), ("--type", "license"), ("--limit", "0")):
        assert f"'{option}'" in used.refused("events", option, value, status=2)


def test_new_events_are_followed(keywright: Keywright, tmp_path: Path) -> None:
    assert "either" in keywright.refused("events", "--follow", "--limit", "1", status=2)
    options = ("--follow", "--since", "1h", "--json", "--data-dir", str(keywright.data_dir))
    command = [forking.command(), "events", *options]
    own = {name: value for name, value in os.environ.items() if name.startswith("KEYWRIGHT_")}
    printed = tmp_path / "printed"
    with (
        printed.open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=environment() | own) as following,
    ):

        def wait_for(type: str, line: int) -> None:
            try:
                wait_until(lambda: printed.read_text().count("\n") > line, type)
                assert json.loads(printed.read_text().splitlines()[line])["type"] == type
            except AssertionError as problem:
                problem.add_note(f"It printed: {printed.read_text()!r}")
                raise

        try:
            keywright("license", "create", "--key", "A")
            wait_for("license.created", 0)
            keywright("license", "activate", "A")
            wait_for("license.activated", 1)
        finally:
            following.terminate()
