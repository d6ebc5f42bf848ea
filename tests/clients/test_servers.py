"""What programs in other languages do with a real server."""

from collections.abc import Iterator, Sequence

import pytest

from tests.clients.test_vectors import CLIENTS, run
from tests.deploy.programs import program
from tests.http.asking import Client
from tests.server import RunningServer, running

DATABASES = ("sqlite",)
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
