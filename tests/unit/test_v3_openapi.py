"""The OpenAPI document and the page of v3 match the table of routes, for all routes."""

import ast
import json
import re
import shlex
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml  # type: ignore[import-untyped]

from keywright.config import Settings
from keywright.core.errors import InvalidTerms
from keywright.core.errors.problems import PROBLEMS
from keywright.http.openapi import v3_page
from keywright.http.openapi.v3_document import build, example_of, example_url, problems_of, write_yaml
from keywright.http.openapi.v3_page import LANGUAGES, Example
from keywright.http.v3.license_schemas import License
from keywright.http.v3.route import Route
from keywright.http.v3.routes import ROUTES
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import merge_terms
from tests.http.v3_app import OWN_ROUTES
from tests.tables import each_row

#: The tests' own routes have everything that a route can have.
ALL = (*ROUTES, *OWN_ROUTES)
DOCUMENT = build(Settings(), ALL)


RECORDS = DOCUMENT["components"]["schemas"]


def operation_of(route: Route) -> dict[str, Any]:
    item: dict[str, Any] = DOCUMENT["paths"][route.public_path]
    operation: dict[str, Any] = item[route.method.lower()]
    return operation


def of(route: Route) -> str:
    return route.operation


def validator(schema: dict[str, Any]) -> Any:
    whole = schema | {"components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(whole)


@each_row("route", ALL, ids=of)
def test_a_route_is_in_the_document_whole(route: Route) -> None:
    operation = operation_of(route)
    statuses = {str(PROBLEMS[code].status) for code in problems_of(route)}
    assert set(operation["responses"]) == {str(route.status), *map(str, route.also), *statuses}
    assert operation["summary"]
    assert operation["description"].endswith(".")
    assert [one["name"] for one in operation["parameters"] if one["in"] == "path"] == [
        name for name, _ in route.parameters
    ]


def test_no_two_routes_have_the_same_name_or_place() -> None:
    assert len({one.operation for one in ROUTES}) == len(ROUTES)
    assert len({(one.method, one.words) for one in ROUTES}) == len(ROUTES)


@each_row("route", [one for one in ALL if one.body or one.query], ids=of)
def test_the_example_of_a_route_is_one_that_it_takes(route: Route) -> None:
    if route.body is not None:
        example = dict(route.example)
        route.body.decode_json(msgspec.json.encode(example))
        validator(operation_of(route)["requestBody"]["content"]["application/json"]["schema"]).validate(
            example
        )
    elif route.query is not None:
        _, _, query = example_url(route, "").partition("?")
        route.query.decode_query(query.encode(), is_closed=True)


@each_row("route", [one for one in ALL if one.gives], ids=of)
def test_the_example_of_an_answer_has_all_its_members(route: Route) -> None:
    msgspec.convert(example_of(route.gives), route.gives)
    content = operation_of(route)["responses"][str(route.status)]["content"]["application/json"]
    validator(content["schema"]).validate(content["example"])


def test_only_client_calls_the_index_and_public_keys_need_no_api_key() -> None:
    free = {one.operation for one in ALL if not (security := operation_of(one)["security"]) or {} in security}
    assert free == {"get_index", "list_key_sets"} | {one.operation for one in ALL if one.is_client}
    closed = build(Settings(require_api_key=True), ALL)
    assert {} not in closed["paths"]["/check"]["post"]["security"]


@each_row("route", ROUTES, ids=of)
def test_a_management_body_refuses_unknown_members_and_a_clients_ignores_them(route: Route) -> None:
    if route.body is not None:
        assert route.body.struct.__struct_config__.forbid_unknown_fields is not route.is_client


def test_every_schema_has_a_target_for_its_references() -> None:
    text = json.dumps(DOCUMENT)
    for kind in ("schemas", "examples"):
        targets = {f"#/components/{kind}/{name}" for name in DOCUMENT["components"][kind]}
        assert targets == set(re.findall(rf'"(#/components/{kind}/[^"]*)"', text))
    jsonschema_rs.meta.validate(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": DOCUMENT["components"]["schemas"],
        }
    )


def test_each_failure_is_a_problem_whose_examples_are_its_codes() -> None:
    problem = validator(RECORDS["Problem"])
    for route in ALL:
        codes = set()
        for status, response in operation_of(route)["responses"].items():
            if status < "400":
                continue
            content = response["content"]["application/problem+json"]
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
            for code in content["examples"]:
                value = DOCUMENT["components"]["examples"][code]["value"]
                problem.validate(value)
                assert (value["code"], str(value["status"])) == (code, status)
            codes.update(content["examples"])
        assert codes == problems_of(route), route.operation


def test_members_of_answers_are_required_and_no_member_has_a_default() -> None:
    """Client generators assume that a member with a default is always present."""
    assert not [name for name, one in RECORDS.items() if '"default":' in json.dumps(one)]
    order = next(one for name, one in RECORDS.items() if name.endswith("license_schemas.Order"))
    assert order["required"] == ["source", "id", "line", "index"]
    assert not RECORDS["NewLicense"].get("required")
    status = RECORDS["NewLicense"]["properties"]["status"]
    assert status["description"] == 'The status set by the vendor. Default: `"active"`.'


def test_metadata_and_changes_of_terms_have_a_schema() -> None:
    for name, record in RECORDS.items():
        metadata = json.dumps(record.get("properties", {}).get("metadata", {}))
        assert "schemas/Metadata" in metadata or '"type": "object"' not in metadata, name
    assert RECORDS["Metadata"]["additionalProperties"] is True
    terms = RECORDS["NewLicense"]["properties"]["terms"]
    assert terms["$ref"] == "#/components/schemas/TermsPatch"
    assert set(RECORDS["TermsPatch"]["properties"]) == set(RECORDS["Terms"]["properties"])
    changes = validator(RECORDS["TermsPatch"])
    before = merge_terms(Terms(), {"meters": {"pages": {"limit": 1, "per": "day", "overage": "allow"}}})
    right = {"max_activations": None, "meters": {"pages": {"limit": 9}, "exports": None}, "new_devices": None}
    changes.validate(right)
    assert merge_terms(before, right).meters["pages"].limit == 9
    for wrong in ({"max_activation": 3}, {"starts": "tomorrow"}, {"meters": {"pages": {"limits": 1}}}):
        assert not changes.is_valid(wrong), wrong
        with pytest.raises(InvalidTerms):
            merge_terms(Terms(), wrong)


def test_several_licenses_are_answered_as_items() -> None:
    content = DOCUMENT["paths"]["/licenses"]["post"]["responses"]["201"]["content"]["application/json"]
    answer = validator(content["schema"])
    answer.validate({"items": [example_of(License)]})
    answer.validate(example_of(License))
    assert not answer.is_valid({})


def test_the_document_in_yaml_is_the_same() -> None:
    odd = {"": [], "no": {}, "é: #": 'a\n"b"', "n": [None, True, -1, 1.5, [[], {"x": [1]}]]}
    for value in (DOCUMENT, odd):
        assert yaml.safe_load(write_yaml(value)) == value


def test_the_page_has_every_route_in_every_language() -> None:
    page = v3_page.render_reference(Settings(), "https://keys.example", ALL)
    for route in ALL:
        assert f'id="{route.operation}"' in page
    assert page.count('class="panel"') >= len(ALL) * len(LANGUAGES)
    assert "https://keys.example/v3/things/17" in page


# --- languages --------------------------------------------------------------------------------------

URL = "https://keys.example/v3/things?color=red"
BODY = {"key": "O'KEY \"$x\\", "n": None, "yes": True, "list": [1, {}], "deep": {"é": "ü"}}
POST = Example("POST", URL, has_api_key=True, body=BODY)
GET = Example("GET", URL, has_api_key=False)


def test_the_shell_sends_what_the_example_says() -> None:
    words = shlex.split(LANGUAGES["curl"](POST).replace("\\\n", " "))
    assert words[:5] == [
        "curl", "-H", "Authorization: Bearer kw_…", "-H", "Content-Type: application/json"
    ]  # fmt: skip
    assert (words[5], json.loads(words[6]), words[7]) == ("-d", BODY, URL)
    assert shlex.split(LANGUAGES["curl"](GET).replace("\\\n", " ")) == ["curl", URL]


def test_python_sends_what_the_example_says() -> None:
    tree = ast.parse(LANGUAGES["Python"](POST))
    call = next(one for one in ast.walk(tree) if isinstance(one, ast.Call) and one.keywords)
    assert [ast.literal_eval(one) for one in call.args] == ["POST", URL]
    assert {one.arg: ast.literal_eval(one.value) for one in call.keywords} == {
        "headers": {"Authorization": "Bearer kw_…"},
        "json": BODY,
    }


@each_row("language", LANGUAGES)
def test_a_language_writes_each_call(language: str) -> None:
    for example in (POST, GET):
        text = LANGUAGES[language](example)
        assert example.url in text
        assert ("Bearer" in text) is example.has_api_key
    assert ['"strings"' in LANGUAGES["Go"](one) for one in (POST, GET)] == [True, False], "what it uses"
    assert r"'O\'KEY \"$x\\'".replace('\\"', '"') in LANGUAGES["PHP"](POST)
