"""The OpenAPI document says what the code's own tables say, no more and no less."""

import json
from typing import Any

import msgspec
import pytest

from keywright.config import Settings
from keywright.core import errors as e
from keywright.http.openapi import examples
from keywright.http.openapi.document import build, path_of
from keywright.http.openapi.operations import OPERATIONS
from keywright.http.openapi.refusals import WHEN
from keywright.http.openapi.responses import STATUSES, errors_of
from keywright.http.v2 import routes, wire
from keywright.http.v2.messages import PROBLEMS

DOCUMENT = build(Settings())
SCHEMAS = DOCUMENT["components"]["schemas"]
#: Errors that no call of this interface meets.
NEVER = {e.GeneratorTooWeak}


def _names(struct: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(struct)]


def _without(left_out: str) -> list[str]:
    return [name for name in _names(wire.LicenseOut) if name not in left_out.split()]


def test_every_address_and_method_is_in_the_document_and_no_other() -> None:
    said = {
        (path, method.upper())
        for path, item in DOCUMENT["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert said == {(path_of(address), method) for address in routes.ADDRESSES for method in address.methods}


def test_every_operation_is_described_and_no_other() -> None:
    actions = {one.operation for address in routes.ADDRESSES for one in address.actions.values()}
    assert actions == set(OPERATIONS) == set(examples.SUCCESSES)


def test_every_problem_is_the_answer_of_some_operation() -> None:
    met = {
        one
        for address in routes.ADDRESSES
        for method in address.methods
        for one in errors_of(address, method)
    }
    assert met == set(PROBLEMS) - NEVER


def test_every_problem_is_described() -> None:
    assert set(WHEN) == set(PROBLEMS)
    assert set(STATUSES) == {problem.status for problem in PROBLEMS.values()}


@pytest.mark.parametrize("address", routes.ADDRESSES, ids=path_of)
def test_the_statuses_of_an_operation_are_those_of_its_errors(address: routes.Address) -> None:
    for method in address.methods:
        responses = DOCUMENT["paths"][path_of(address)][method.lower()]["responses"]
        statuses = {str(PROBLEMS[one].status) for one in errors_of(address, method)}
        assert set(responses) == {"200", *statuses}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_every_problem_has_an_example_that_is_its_own(kind: type[e.KeywrightError]) -> None:
    body = examples.refusal(kind, {})
    assert type(examples.instance(kind)) is kind
    assert (body["data"]["status"], body["code"]) == PROBLEMS[kind][:2]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Activation", _names(wire.ActivationOut)),
        ("Generator", _names(wire.GeneratorOut)),
        ("License", _without("remainingActivations activationData")),
        ("LicenseWithActivations", _without("remainingActivations")),
        ("ValidatedLicense", _names(wire.LicenseOut)),
        ("ActivatedLicense", _without("createdBy updatedBy remainingActivations")),
        ("DeactivatedLicense", _without("createdBy updatedBy remainingActivations")),
    ],
)
def test_a_record_has_the_fields_of_the_wire_in_their_order(name: str, fields: list[str]) -> None:
    assert list(SCHEMAS[name]["properties"]) == fields == SCHEMAS[name]["required"]


@pytest.mark.parametrize(
    ("operation", "example", "schema"),
    [
        ("activate", "activated", "ActivatedLicense"),
        ("validate", "validated", "ValidatedLicense"),
        ("deactivate", "every place", "DeactivatedLicense"),
        ("create_license", "created", "License"),
        ("get_license", "license", "LicenseWithActivations"),
        ("create_generator", "created", "Generator"),
    ],
)
def test_what_is_answered_has_the_fields_of_its_schema(operation: str, example: str, schema: str) -> None:
    assert list(examples.successes(operation)[example]["data"]) == SCHEMAS[schema]["required"]


def test_a_field_may_be_null_where_the_wire_says_so() -> None:
    def may_be_null(schema: dict[str, Any]) -> bool:
        return "null" in schema.get("type", ())

    nullable = {name for name, one in SCHEMAS["ValidatedLicense"]["properties"].items() if may_be_null(one)}
    assert nullable == set(
        "orderId productId userId expiresAt validFor timesActivatedMax updatedBy remainingActivations".split()
    )
    nullable = {name for name, one in SCHEMAS["Activation"]["properties"].items() if may_be_null(one)}
    assert nullable == {"label", "meta_data", "updated_at", "deactivated_at"}


def test_an_installation_gets_its_own_addresses() -> None:
    built = build(Settings(api_root="api", namespace="ours"))
    assert built["servers"][0]["url"] == "/api/ours/v2"
    assert "wp-json" not in json.dumps(built["paths"])


@pytest.mark.parametrize("address", routes.ADDRESSES, ids=path_of)
def test_the_parameters_of_an_operation_are_those_that_it_knows(address: routes.Address) -> None:
    for action in address.actions.values():
        assert {field.name for field in OPERATIONS[action.operation].takes} == action.takes
