"""The OpenAPI document is valid, and the running server behaves as it says."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema_rs
import pytest
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from keywright.config import Settings
from keywright.http.openapi import v2
from tests.databases import KINDS
from tests.http import faulty, v3_cases
from tests.http.asking import Client
from tests.http.cases import OPERATIONS, CaseRunner, case_runner, planned
from tests.http.conftest import assert_clean
from tests.proving import size
from tests.server import NO_LIMITS, RunningServer, running
from tests.v2_document import Document, operations, resolve

pytestmark = pytest.mark.tier("rest")

# --- the document -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for these tests alone: they change everything that it stores."""
    with running(tmp_path_factory.mktemp("openapi") / "data", database, **NO_LIMITS) as server:
        yield server
        server.assert_consistent()
    assert_clean(server)


@pytest.fixture(scope="module")
def shop(own_server: RunningServer) -> Iterator[Client]:
    with Client(own_server, own_server.api_key()) as client:
        yield client


@pytest.fixture(scope="module")
def document(shop: Client) -> Document:
    reply = shop.get("/openapi/v2.json")
    assert reply.header("content-type") == "application/json; charset=UTF-8"
    document: Document = reply.json
    return document


def test_the_document_is_openapi_3_1(document: Document) -> None:
    OPENAPI_31_VALIDATOR.validate(document)
    assert document["openapi"].startswith("3.1.")


def test_every_schema_in_it_is_a_json_schema(document: Document) -> None:
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"})


def test_every_reference_has_a_target_and_every_component_is_used(document: Document) -> None:
    targets = set(re.findall(r'"\$ref": "#/components/(\w+/[\w-]+)"', json.dumps(document)))
    components = {
        f"{kind}/{name}"
        for kind, parts in document["components"].items()
        if kind != "securitySchemes"
        for name in parts
    }
    assert targets == components


def test_every_operation_has_a_name_of_its_own(document: Document) -> None:
    names = [one["operationId"] for _, _, one in operations(document)]
    assert len(names) == len(set(names)) == len(OPERATIONS)


def test_every_example_is_valid_for_its_schema(document: Document) -> None:
    checked = 0
    for _, _, operation in operations(document):
        for response in operation["responses"].values():
            for content in resolve(response, document)["content"].values():
                validator = _validator(document, content["schema"])
                for example in content["examples"].values():
                    validator.validate(example["value"])
                    checked += 1
        if "requestBody" in operation:
            content = resolve(operation["requestBody"], document)["content"]["application/json"]
            _validator(document, content["schema"]).validate(content["example"])
    assert checked > 300


def test_the_document_follows_the_settings() -> None:
    settings = Settings(api_root="api", namespace="our/licenses", require_api_key=True)
    changed = json.loads(v2.read_document(settings))
    assert changed["servers"][0]["url"] == "/api/our/licenses/v2"
    assert {} not in changed["paths"]["/licenses/activate/{key}"]["get"]["security"]


def test_the_page_loads_nothing_from_elsewhere(
    own_server: RunningServer, shop: Client, document: Document
) -> None:
    reply = shop.get("/openapi/v2")
    page = reply.body.decode()
    assert (reply.status, reply.header("content-type")) == (200, "text/html; charset=utf-8")
    policy = reply.header("content-security-policy") or ""
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "<script" not in page
    assert set(re.findall(r"https?://[\w.:-]+", page)) == {own_server.base_url}
    assert not [one for one in re.findall(r'(?:src|href)="([^"]*)"', page) if "//" in one]
    for path, _, operation in operations(document):
        assert operation["tags"][0] in page
        assert path.replace("{key}", "<i>{key}</i>").replace("{id}", "<i>{id}</i>") in page
    anchors = set(re.findall(r' id="([^"]*)"', page))
    assert {one for one in re.findall(r'href="#([^"]*)"', page)} <= anchors


def test_a_page_does_not_repeat_an_invalid_host(shop: Client) -> None:
    page = shop.get("/openapi/v2", headers={"Host": 'evil"><script>'}).body
    assert b"evil" not in page


def test_the_links_of_the_landing_page_work(shop: Client) -> None:
    page = shop.get("/").body.decode()
    assert "Keywright is running" in page
    for link in re.findall(r'href="([^":]+)"', page):
        # The admin pages redirect to the page where users sign in.
        assert shop.get(f"/{link}").status == (303 if link == "admin" else 200)
    assert shop.get("/", query="rest_route=/other/v1/things").status == 404


# --- the running server -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runner(database: str, own_server: RunningServer) -> Iterator[CaseRunner]:
    with case_runner(own_server, database) as runner:
        yield runner


def test_there_are_as_many_cases_as_the_documentation_promises() -> None:
    cases = sum(sum(planned(method)) for _, method in OPERATIONS)
    cases_of_v3 = sum(sum(v3_cases.planned(path)) for path, _ in v3_cases.OPERATIONS)
    assert (cases + cases_of_v3) * len(KINDS) >= size(2_000, 100_000)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_server_answers_as_the_document_says(runner: CaseRunner, path: str, method: str) -> None:
    runner.run(path, method)
    statuses = runner.statuses
    print(f"{method} {path}: {statuses.total()} cases, {dict(sorted(statuses.items()))}")


@pytest.mark.parametrize(
    ("fault", "path", "found"),
    [
        (faulty.fails_at_some_labels, "/licenses/activate/{key}", "answers 5xx"),
        (faulty.complains_in_html, "/licenses", "answers not JSON"),
        (faulty.leaves_a_field_out, "/licenses/validate/{key}", "answers out of shape"),
    ],
)
def test_a_fault_of_the_server_is_detected(
    fault: Callable[[], None], path: str, found: str, tmp_path: Path
) -> None:
    what = fault.__name__.replace("_", " ")
    with (
        running(tmp_path / "data", program=faulty.program(fault), **NO_LIMITS) as server,
        case_runner(server, f"control: {what}") as runner,
    ):
        with pytest.raises(FailureGroup):
            run_both_methods(runner, path)
        assert runner.answers.found[found] > 0


def run_both_methods(runner: CaseRunner, path: str) -> None:
    """The cases depend on what else is imported: those of one method alone, or fewer, may miss the fault."""
    for method in ("POST", "GET"):
        runner.run(path, method, times=2)


# --- reading the document ---------------------------------------------------------------------------


def _validator(document: Document, schema: Document) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema | {"components": document["components"]})
