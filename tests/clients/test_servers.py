"""What programs in other languages do with a real server."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.clients.test_vectors import CLIENTS, compiled, run
from tests.deploy.programs import program
from tests.http.asking import Client
from tests.server import RunningServer, running

DATABASES = ("sqlite",)
OFFLINE, DEVICE = "unreachable_but_valid_until", "example-device"
RECIPES = CLIENTS.parent / "docs" / "recipes"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.mark.parametrize(
    "command",
    [("python3", "v2.py"), ("node", "v2.mjs"), ("php", "v2.php"), ("go", "run", "v2.go")],
    ids=["python", "javascript", "php", "go"],
)
def test_a_recipe_makes_the_four_calls_of_v2(command: Sequence[str], server: RunningServer) -> None:
    with Client(server, server.api_key()) as vendor:
        key = vendor.license(times_activated_max=2)
    name, *arguments = command
    printed = run(RECIPES, program(name), *arguments, server.base_url, key)
    assert printed.splitlines() == ["activated: 1", "validated: 1", "deactivated: 0", "reactivated: 1"]
    with pytest.raises(AssertionError, match="could not be found"):
        run(RECIPES, program(name), *arguments, server.base_url, "NO-SUCH-KEY")


every_client = pytest.mark.parametrize(
    "command",
    [
        ("node", "javascript", "example.mjs"),
        ("php", "php", "example.php"),
        ("go", "go", "run", "./example"),
        ("mono", "csharp", "Example.cs"),
    ],
    ids=["javascript", "php", "go", "csharp"],
)


@every_client
def test_a_client_activates_and_goes_on_without_the_server(
    command: Sequence[str], server: RunningServer, tmp_path: Path
) -> None:
    with Client(server, server.api_key()) as vendor:
        key = vendor.license(times_activated_max=1)
        public, *_ = vendor.get("/.well-known/jwks.json").json["keys"]
    name, folder, *arguments = compiled(command, tmp_path)

    def states(
        url: str, license_key: str, pinned: str = public["x"], file: str = "kept", device: str = DEVICE
    ) -> list[object]:
        given = (url, license_key, pinned, str(tmp_path / file), device)
        lines = run(CLIENTS / folder, program(name), *arguments, *given).splitlines()
        found = [json.loads(line) for line in lines]
        assert [one["valid"] for one in found] == [one["state"] in ("valid", OFFLINE) for one in found]
        return [one["state"] for one in found]

    assert states(server.base_url, key) == ["not_activated", "valid", "valid"]
    away = "http://127.0.0.1:9"
    # What is kept is not yet due to be asked for again; without the server, nothing new is activated.
    assert states(away, key) == ["valid", "unreachable_too_long", "valid"]
    assert states(server.base_url, "NO-SUCH-KEY", file="unknown") == ["not_activated"] * 3
    # The answers of a server with another key are believed as little as none.
    other = "eUCpOtsXO3ow0Ga2z9i8SE7Q9NcRZfWNQvKTTQ7A9i4"
    assert states(server.base_url, key, other, "other") == [
        "not_activated",
        "unreachable_too_long",
        "not_activated",
    ]
    # A copy of what is kept is no license on another machine.
    assert states(away, key, device="another-device")[0] == "not_activated"
    kept = tmp_path / "kept"
    kept.write_text(
        kept.read_text().replace('"answer":"e', '"answer":"f').replace('"Answer":"e', '"Answer":"f')
    )
    assert states(away, key)[0] == "tampered"


@every_client
def test_a_client_that_pins_an_older_key_learns_the_newest(
    command: Sequence[str], server: RunningServer, tmp_path: Path
) -> None:
    with Client(server, server.api_key()) as vendor:
        key = vendor.license(times_activated_max=1)
        pinned = {one["x"] for one in vendor.get("/.well-known/jwks.json").json["keys"]}
        for _ in range(2):
            server.cli("signing-key", "rotate")
    name, folder, *arguments = compiled(command, tmp_path)
    for number, one in enumerate(sorted(pinned)):
        file = str(tmp_path / f"kept-{number}")
        given = (server.base_url, key, one, file, DEVICE)
        lines = run(CLIENTS / folder, program(name), *arguments, *given).splitlines()
        assert [json.loads(line)["state"] for line in lines] == ["not_activated", "valid", "valid"]


@every_client
def test_after_a_refusal_the_next_check_says_why(
    command: Sequence[str], server: RunningServer, tmp_path: Path
) -> None:
    with Client(server, server.api_key()) as vendor:
        public, *_ = vendor.get("/.well-known/jwks.json").json["keys"]
    name, folder, *arguments = compiled(command, tmp_path)
    given = (server.base_url, "NO-SUCH-KEY", public["x"], str(tmp_path / "license.json"), DEVICE)
    printed = run(CLIENTS / folder, program(name), *arguments, *given)
    before, refused, after = map(json.loads, printed.splitlines())
    assert (before["detail"], after["detail"]) == ("", refused["detail"])
    assert "No license has this key" in after["detail"]
    assert (after["valid"], after["state"]) == (False, "not_activated")
