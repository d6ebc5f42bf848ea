"""The running server behaves as the OpenAPI document of v3 says, whatever is sent."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from schemathesis.core.failures import FailureGroup

from tests.http import faulty
from tests.http.conftest import assert_clean
from tests.http.v3_cases import OPERATIONS, V3CaseRunner, v3_case_runner
from tests.server import NO_LIMITS, RunningServer, running

pytestmark = pytest.mark.tier("rest")


@pytest.fixture(scope="module")
def own_server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for these tests alone: they change everything that it stores."""
    with running(tmp_path_factory.mktemp("v3") / "data", database, **NO_LIMITS) as server:
        yield server
        server.assert_consistent()
    assert_clean(server)


@pytest.fixture(scope="module")
def runner(database: str, own_server: RunningServer) -> Iterator[V3CaseRunner]:
    with v3_case_runner(own_server, f"v3, {database}") as runner:
        yield runner


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_server_answers_as_the_document_says(runner: V3CaseRunner, path: str, method: str) -> None:
    runner.run(path, method)
    print(f"{method} {path}: {dict(sorted(runner.statuses.items()))}")


@pytest.mark.parametrize(
    ("fault", "path", "found"),
    [
        (faulty.names_a_member_wrongly, "/validate", "answers out of shape"),
        (faulty.fails_without_a_fingerprint, "/activate", "answers 5xx"),
    ],
)
def test_a_fault_of_the_server_is_detected(
    fault: Callable[[], None], path: str, found: str, tmp_path: Path
) -> None:
    what = fault.__name__.replace("_", " ")
    with (
        running(tmp_path / "data", program=faulty.program(fault), **NO_LIMITS) as server,
        v3_case_runner(server, f"control: {what}") as runner,
    ):
        with pytest.raises(FailureGroup):
            runner.run(path, "POST")
        assert runner.answers.found[found] > 0
