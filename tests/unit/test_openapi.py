"""The OpenAPI document describes what the code's own tables hold, no more and no less."""

import json
from typing import Any

import msgspec
import pytest

from keywright.config import Settings
from keywright.core import errors as e
from keywright.http.openapi.document import build, path_of
from keywright.http.openapi.examples import SUCCESSES
from keywright.http.openapi.refusals import catalog
from keywright.http.openapi.responses import errors_of
from keywright.http.v2 import routes
from keywright.http.v2.messages import PROBLEMS

DOCUMENT = build(Settings())
ACTIONS = {one.operation: one for address in routes.ADDRESSES for one in address.actions.values()}
#: Errors that no call of this interface meets.
NEVER = {e.PolicyTooWeak, e.TooManyTrials, e.TooManyWaiting}


def test_every_address_and_method_is_in_the_document_and_no_other() -> None:
    described = {
        (path, method.upper())
        for path, item in DOCUMENT["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert described == {
        (path_of(address), method) for address in routes.ADDRESSES for method in address.methods
    }


def test_every_operation_has_an_example_and_a_description() -> None:
    assert set(SUCCESSES) == set(ACTIONS)
    assert all("\n\n" in (action.answer.__doc__ or "") for action in ACTIONS.values())


def test_every_problem_is_the_answer_of_some_operation() -> None:
    met = {
        one
        for address in routes.ADDRESSES
        for method in address.methods
        for one in errors_of(address, method)
    }
    assert met == set(PROBLEMS) - NEVER


@pytest.mark.parametrize("address", routes.ADDRESSES, ids=path_of)
def test_the_statuses_of_an_operation_are_those_of_its_errors(address: routes.Address) -> None:
    for method in address.methods:
        responses = DOCUMENT["paths"][path_of(address)][method.lower()]["responses"]
        statuses = {str(PROBLEMS[one].status) for one in errors_of(address, method)}
        assert set(responses) == {"200", *statuses}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_every_problem_is_described_for_readers(kind: type[e.KeywrightError]) -> None:
    refusal = catalog()[kind]
    assert (refusal.status, refusal.body["code"]) == PROBLEMS[kind][:2]
    assert "{" not in refusal.body["message"]
    assert refusal.when.endswith(".")
    # Markdown, not the markup of docstrings.
    assert "``" not in refusal.when


@pytest.mark.parametrize("operation", ACTIONS)
def test_an_example_of_a_success_has_every_field_of_its_record(operation: str) -> None:
    for one in SUCCESSES[operation].values():
        msgspec.convert(msgspec.to_builtins(one), ACTIONS[operation].gives)


def test_a_field_may_be_null_where_the_wire_says_so() -> None:
    records = DOCUMENT["components"]["schemas"]

    def nullable(record: str) -> set[str]:
        return {name for name, one in records[record]["properties"].items() if _is_nullable(one)}

    assert nullable("ValidatedLicense") == set(
        "orderId productId userId expiresAt validFor timesActivatedMax updatedBy remainingActivations".split()
    )
    assert nullable("Activation") == {"label", "meta_data", "updated_at", "deactivated_at"}


def _is_nullable(schema: dict[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


def test_an_installation_gets_its_own_addresses() -> None:
    built = build(Settings(api_root="api", namespace="ours"))
    assert built["servers"][0]["url"] == "/api/ours/v2"
    assert "wp-json" not in json.dumps(built["paths"])
