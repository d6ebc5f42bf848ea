"""The OpenAPI document of v2, a file, matches the tables in the code exactly."""

import html
import json

import msgspec
import pytest

from keywright.config import Settings
from keywright.core import errors as e
from keywright.http.middleware.routing import Right
from keywright.http.openapi import v2
from keywright.http.v2 import parameters, wire
from tests.v2_document import ACTIONS, DOCUMENT, Document, operations, resolve

#: Errors that no call of this interface raises.
NEVER = {e.PolicyTooWeak, e.TooManyOffers, e.TooManyTrials, e.TooManyWaiting}


def test_every_address_and_method_is_in_the_document_and_no_other() -> None:
    assert [(path, method) for path, method, _ in operations()] == list(ACTIONS)


def test_the_parameters_of_an_operation_are_those_that_it_takes() -> None:
    for path, method, operation in operations():
        action, names = ACTIONS[path, method], names_of(operation)
        assert operation.get("security") == security_of(path, method), (path, method)
        if action is None:
            assert names == {}
        else:
            assert names.pop("Idempotency-Key", None) == ("header" if action.changes else None)
            assert names == dict.fromkeys(action.takes, "query"), (path, method)
            assert action.operation == operation["operationId"].partition("_by_")[0] or method == "HEAD"
        if "requestBody" in operation:
            for content in resolve(operation["requestBody"])["content"].values():
                assert action is not None
                assert tuple(content["schema"]["properties"]) == action.takes


def names_of(operation: Document) -> dict[str, str]:
    """The location of each parameter, by name."""
    return {one["name"]: one["in"] for one in operation.get("parameters", ())}


def security_of(path: str, method: str) -> list[Document]:
    """The security of an operation: core calls, which have the license key, and OPTIONS need no API key."""
    action = ACTIONS[path, method]
    with_key: list[Document] = [{"basicAuth": []}, {"consumerKey": [], "consumerSecret": []}]
    if action is None:
        return []
    return [{}, *with_key] if action.right is Right.CORE else with_key


def test_every_failure_in_it_is_what_the_server_says() -> None:
    """Each example is named after an error, and is the operation's response to it."""
    met = set()
    for path, method, operation in operations():
        action = ACTIONS[path, method]
        sentences = wire.NO_SENTENCES if action is None else action.sentences
        for status, response in operation["responses"].items():
            for content in resolve(response)["content"].values():
                for name, example in content["examples"].items() if status != "200" else ():
                    kind = getattr(e, name)
                    answer = wire.write(kind(*kind.example), sentences)
                    assert (int(status), example["value"]) == (answer[0], json.loads(answer[1])), (path, name)
                    met.add(answer[1])
    for kind in wire.PROBLEMS.keys() - NEVER:
        assert wire.write(kind(*kind.example), wire.NO_SENTENCES)[1] in met, kind
    codes = DOCUMENT["components"]["schemas"]["Failure"]["properties"]["code"]["enum"]
    assert set(codes) == {one.code for one in wire.PROBLEMS.values()}


def test_the_records_in_it_have_the_fields_of_those_that_are_written() -> None:
    for name, record in DOCUMENT["components"]["schemas"].items():
        if name not in ("Failure", "FailureData", "Methods"):
            fields = [one.encode_name for one in msgspec.structs.fields(getattr(parameters, name))]
            assert list(record["properties"]) == fields, name


def test_the_page_has_every_operation_and_every_failure() -> None:
    page = html.unescape(v2.read_page(Settings(), "https://keys.example"))
    for _, method, operation in operations():
        assert method in ("HEAD", "OPTIONS") or operation["summary"] in page
        for response in operation["responses"].values():
            for content in resolve(response)["content"].values():
                for example in content["examples"].values():
                    assert example["value"].get("message", "") in page


def test_a_field_may_be_null_where_the_wire_says_so() -> None:
    records = DOCUMENT["components"]["schemas"]

    def nullable(record: str) -> set[str]:
        fields = records[record]["properties"].items()
        return {name for name, one in fields if {"type": "null"} in one.get("anyOf", ())}

    assert nullable("ValidatedLicense") == set(
        "orderId productId userId expiresAt validFor timesActivatedMax updatedBy remainingActivations".split()
    )
    assert nullable("Activation") == {"label", "meta_data", "updated_at", "deactivated_at"}


@pytest.mark.parametrize("settings", [Settings(), Settings(api_root="api", namespace="ours")])
def test_an_installation_gets_its_own_addresses(settings: Settings) -> None:
    base = f"/{settings.api_root}/{settings.namespace}/v2"
    document, page = json.loads(v2.read_document(settings)), v2.read_page(settings, "https://keys.example")
    assert document["servers"][0]["url"] == base
    assert "wp-json" not in json.dumps(document["paths"])
    assert page.count(f"https://keys.example{base}/") == page.count("<pre>curl")
    assert "@" not in page.partition("</style>")[2] + json.dumps(document)
