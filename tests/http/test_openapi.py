"""The OpenAPI document is sound, and the running server keeps to it."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import BaseSchema, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from keywright.config import Settings
from keywright.http import v2
from keywright.http.openapi.document import build, path_of
from tests.databases import KINDS
from tests.http.asking import Client
from tests.http.conftest import assert_clean
from tests.server import NO_LIMITS, RunningServer, running

Document = dict[str, Any]
AnyCase = Case[Any]

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
#: How many cases an operation gets on each database: with data as the document asks for it, and with
#: other data.
FITTING, UNFITTING = 28, 20
FITTING_HEAD, UNFITTING_HEAD = 5, 5
OPERATIONS = [(path_of(address), method) for address in v2.ADDRESSES for method in address.methods]
#: Generating the most licenses that are allowed, again and again, would only take long.
_MOST_GENERATED = 5


# --- the document -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for these tests alone: they change whatever they come upon."""
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


def test_every_reference_leads_somewhere_and_every_component_is_used(document: Document) -> None:
    targets = set(re.findall(r'"\$ref": "#/components/(\w+/[\w-]+)"', json.dumps(document)))
    there = {
        f"{kind}/{name}"
        for kind, parts in document["components"].items()
        if kind != "securitySchemes"
        for name in parts
    }
    assert targets == there


def test_every_operation_has_a_name_of_its_own(document: Document) -> None:
    names = [one["operationId"] for _, one in _operations(document)]
    assert len(names) == len(set(names)) == len(OPERATIONS)


def test_every_example_is_what_its_schema_says(document: Document) -> None:
    checked = 0
    for _, operation in _operations(document):
        for response in operation["responses"].values():
            for content in _resolved(document, response)["content"].values():
                validator = _validator(document, content["schema"])
                for example in content["examples"].values():
                    validator.validate(example["value"])
                    checked += 1
        if "requestBody" in operation:
            content = _resolved(document, operation["requestBody"])["content"]["application/json"]
            _validator(document, content["schema"]).validate(content["example"])
    assert checked > 300


def test_the_settings_are_in_it() -> None:
    changed = build(Settings(api_root="api", namespace="our/licenses", require_api_key=True))
    assert changed["servers"][0]["url"] == "/api/our/licenses/v2"
    assert {} not in changed["paths"]["/licenses/activate/{key}"]["get"]["security"]


def test_the_page_needs_nobody_else(own_server: RunningServer, shop: Client, document: Document) -> None:
    reply = shop.get("/openapi/v2")
    page = reply.body.decode()
    assert (reply.status, reply.header("content-type")) == (200, "text/html; charset=utf-8")
    policy = reply.header("content-security-policy") or ""
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "<script" not in page
    assert set(re.findall(r"https?://[\w.:-]+", page)) == {own_server.base_url}
    assert not [one for one in re.findall(r'(?:src|href)="([^"]*)"', page) if "//" in one]
    for path, operation in _operations(document):
        assert operation["tags"][0] in page
        assert path.replace("{key}", "<i>{key}</i>").replace("{id}", "<i>{id}</i>") in page
    anchors = set(re.findall(r' id="([^"]*)"', page))
    assert {one for one in re.findall(r'href="#([^"]*)"', page)} <= anchors


def test_a_page_does_not_repeat_a_host_that_is_none(shop: Client) -> None:
    page = shop.get("/openapi/v2", headers={"Host": 'evil"><script>'}).body
    assert b"evil" not in page


def test_the_first_page_leads_on(shop: Client) -> None:
    page = shop.get("/").body.decode()
    assert "Keywright runs" in page
    for link in re.findall(r'href="([^":]+)"', page):
        assert shop.get(f"/{link}").status == 200
    assert shop.get("/", query="rest_route=/other/v1/things").status == 404


# --- the running server -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema(document: Document) -> BaseSchema:
    """The document, read strictly: an answer has no other fields than those in it."""
    strict = deepcopy(document)
    for one in strict["components"]["schemas"].values():
        one["additionalProperties"] = False
    return schemathesis.openapi.from_dict(strict)


@pytest.fixture(scope="module")
def check(own_server: RunningServer, schema: BaseSchema, shop: Client) -> Iterator[Callable[[AnyCase], int]]:
    """Makes a case's call, compares what comes back with the document, and returns its status."""
    base_url = own_server.base_url + schema.base_path
    with requests.Session() as session:
        session.auth = shop.credentials

        def check(case: AnyCase) -> int:
            response = case.call(base_url=base_url, session=session)
            case.validate_response(response, checks=CHECKS)
            return response.status_code

        yield check


def test_there_are_at_least_2000_cases() -> None:
    assert sum(sum(_planned(method)) for _, method in OPERATIONS) * len(KINDS) >= 2000


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_server_keeps_to_the_document(
    schema: BaseSchema, check: Callable[[AnyCase], int], shop: Client, path: str, method: str
) -> None:
    operation = schema[path][method]
    statuses: Counter[int] = Counter()
    fitting, unfitting = _planned(method)
    for mode, cases in ((GenerationMode.POSITIVE, fitting), (GenerationMode.NEGATIVE, unfitting)):
        if not cases:
            continue

        @_at_most(cases)
        @given(operation.as_strategy(generation_mode=mode), st.sampled_from(_known(path)))
        def run(case: AnyCase, known: Callable[[Client], dict[str, Any]]) -> None:
            _put_in(case, known(shop))
            statuses[check(case)] += 1

        run()
    print(f"{method} {path}: {statuses.total()} cases, {dict(sorted(statuses.items()))}")
    assert statuses.total() >= fitting + unfitting
    assert statuses[200] >= statuses.total() // 20


def _planned(method: str) -> tuple[int, int]:
    """How many cases with fitting and with unfitting data; there is nothing unfitting in OPTIONS."""
    if method == "OPTIONS":
        return 1, 0
    return (FITTING_HEAD, UNFITTING_HEAD) if method == "HEAD" else (FITTING, UNFITTING)


def _at_most(cases: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return settings(
        max_examples=cases,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


# --- what is there already when a case comes --------------------------------------------------------


def _nothing(_shop: Client) -> dict[str, Any]:
    return {}


def _a_license(shop: Client) -> dict[str, Any]:
    return {"key": shop.license(), "token": None}


def _a_full_license(shop: Client) -> dict[str, Any]:
    key = shop.license(times_activated_max=1)
    shop.activated(key)
    return {"key": key}


def _an_expired_license(shop: Client) -> dict[str, Any]:
    return {"key": shop.license(expires_at="2020-01-01")}


def _a_disabled_license(shop: Client) -> dict[str, Any]:
    return {"key": shop.license(status="disabled")}


def _an_activation(shop: Client) -> dict[str, Any]:
    key = shop.license()
    return {"key": key, "token": shop.activated(key)}


def _a_deactivated_activation(shop: Client) -> dict[str, Any]:
    key = shop.license()
    token = shop.activated(key)
    assert shop.deactivate(key, token).status == 200
    return {"key": key, "token": token}


def _a_generator(shop: Client) -> dict[str, Any]:
    fields = {"name": "a test", "charset": "ABCDEFGH23456789", "chunks": 4, "chunk_length": 6}
    return {"id": shop.post("generators", json_body=fields).data["id"]}


# What stands first comes oftenest.
_LICENSES = (_a_license, _a_full_license, _an_expired_license, _a_disabled_license, _nothing)
_ACTIVATIONS = (_a_deactivated_activation, _an_activation)


def _known(path: str) -> tuple[Callable[[Client], dict[str, Any]], ...]:
    """What may be there for a case at this address."""
    if path.startswith("/generators"):
        return (_a_generator, _nothing)
    return _LICENSES if path in ("/licenses", "/licenses/{key}") else _ACTIVATIONS + _LICENSES


def _put_in(case: AnyCase, known: dict[str, Any]) -> None:
    """Let the case be about what is there."""
    for name in case.path_parameters or {}:
        if name in known:
            case.path_parameters = {name: known[name]}
    if "token" in known:
        token = {} if known["token"] is None else {"token": known["token"]}
        case.query = _without_token(case.query or {}) | token
        if isinstance(case.body, dict):
            case.body = _without_token(case.body) | token
    for holder in (case.query, case.body):
        if isinstance(holder, dict) and str(holder.get("amount", "")).isdecimal():
            holder["amount"] = min(int(str(holder["amount"])), _MOST_GENERATED)


def _without_token(sent: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sent.items() if name != "token"}


# --- reading the document ---------------------------------------------------------------------------


def _operations(document: Document) -> Iterator[tuple[str, Document]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, operation


def _resolved(document: Document, part: Document) -> Document:
    if "$ref" in part:
        kind, name = part["$ref"].removeprefix("#/components/").split("/")
        found: Document = document["components"][kind][name]
        return found
    return part


def _validator(document: Document, schema: Document) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema | {"components": document["components"]})
