"""Generators and their licenses."""

import re
from typing import Any

import pytest

from tests.http.asking import (
    AN_ID,
    DIGITS,
    JUST_NOW,
    Client,
    a_key,
    assert_invalid,
    assert_refused,
    assert_success,
    license_path,
)
from tests.http.test_records import a_license
from tests.server import RunningServer
from tests.tables import each_row

DATABASES = ("sqlite",)

MINIMAL: dict[str, Any] = {"name": "plain", "charset": "ABCDEFGH01234567", "chunks": 4, "chunk_length": 5}


def a_policy(**fields: Any) -> dict[str, Any]:
    """The parameters of a generator."""
    return {
        "id": AN_ID,
        "name": "plain",
        "charset": "ABCDEFGH01234567",
        "chunks": 4,
        "chunkLength": 5,
        "timesActivatedMax": None,
        "separator": None,
        "prefix": None,
        "suffix": None,
        "expiresIn": None,
        "createdAt": JUST_NOW,
        "createdBy": DIGITS,
        "updatedAt": JUST_NOW,
        "updatedBy": None,
        **fields,
    }


def new(vendor: Client, **fields: Any) -> str:
    """Create a generator whose keys are recognizable as a test's; return its address."""
    body = {**MINIMAL, "prefix": "CANARY-", **fields}
    return f"generators/{vendor.post('generators', json_body=body).data['id']}"


FULL = {"times_activated_max": 3, "separator": "-", "prefix": "P/", "suffix": "+S", "expires_in": 30}
FULL_WRITTEN = {"timesActivatedMax": "3", "separator": "-", "prefix": "P/", "suffix": "+S", "expiresIn": "30"}


@each_row("way", ["json_body", "form", "multipart", "query"])
def test_create_and_generate_take_parameters_in_every_way(vendor: Client, way: str) -> None:
    fields = {name: str(value) for name, value in {**MINIMAL, **FULL}.items()}
    assert_success(vendor.post("generators", **{way: fields}), a_policy(**FULL_WRITTEN))
    reply = vendor.post(f"{new(vendor)}/generate", **{way: {"amount": "2"}})
    first, second = (a_license(one["licenseKey"], source=1) for one in reply.data)
    assert_success(reply, [first, second])


@pytest.mark.parametrize("number", [int, str])
def test_four_numbers_of_a_generator_are_written_as_texts_and_taken_as_both(
    vendor: Client, number: type[int] | type[str]
) -> None:
    numbers = {"times_activated_max": number(3), "expires_in": number(30)}
    path = new(vendor, **numbers)
    vendor.put(path, json_body=numbers)
    written = vendor.get(path).data
    assert (written["timesActivatedMax"], written["expiresIn"]) == ("3", "30")
    assert written["createdBy"].isdigit()
    assert written["createdBy"] == written["updatedBy"]
    vendor.put(path, json_body=dict.fromkeys(numbers, number(0)))
    assert (vendor.get(path).data["timesActivatedMax"], vendor.get(path).data["expiresIn"]) == (None, None)


def test_create_needs_only_four_fields(vendor: Client) -> None:
    assert_success(vendor.post("generators", json_body=MINIMAL), a_policy())


@pytest.mark.smoke
def test_get_and_list_answer_with_the_same(vendor: Client) -> None:
    path = new(vendor, **FULL)
    reply = vendor.get(path)
    assert_success(reply, a_policy(**FULL_WRITTEN))
    listed = vendor.get("generators").data
    assert listed[-1] == reply.data
    assert [one["id"] for one in listed] == sorted(one["id"] for one in listed)


@pytest.mark.smoke
@each_row("method", ["PUT", "PATCH", "POST"])
def test_update_changes_the_given_fields(vendor: Client, method: str) -> None:
    path = new(vendor, prefix=None)
    reply = vendor.ask(method, path, json_body={"name": "new", "chunks": "6", "expires_in": 5})
    assert_success(reply, a_policy(name="new", chunks=6, expiresIn="5", updatedBy=DIGITS))
    cleared = vendor.ask(method, path, json_body={"expires_in": None, "separator": ""})
    assert (cleared.data["expiresIn"], cleared.data["separator"]) == (None, None)


@pytest.mark.smoke
def test_delete_answers_with_an_empty_array(vendor: Client) -> None:
    path = new(vendor)
    made = vendor.post(f"{path}/generate", json_body={"amount": 1}).data[0]["licenseKey"]
    assert_success(vendor.delete(path), [])
    assert vendor.get(path).status == 404
    assert vendor.get(license_path(made)).status == 200


# --- refusals -------------------------------------------------------------------------------------


@each_row(
    ("field", "words"),
    [("name", "name"), ("charset", "charset"), ("chunks", "chunks"), ("chunk_length", "chunk length")],
)
@each_row("absent", ["left out", "", None])
def test_create_without_a_required_field_is_refused(
    vendor: Client, field: str, words: str, absent: str | None
) -> None:
    fields = {**MINIMAL, field: absent}
    if absent == "left out":
        del fields[field]
    reply = vendor.post("generators", json_body=fields)
    assert_refused(reply, f"The Generator {words} is missing from the request.")


@each_row("number", ["987654321", "0", "x", "-1", "1.5", "9" * 30, "1x", "%20", "%C2%B2"])
def test_an_unknown_generator_is_refused(vendor: Client, number: str) -> None:
    path = f"generators/{number}"
    shown = {"%20": " ", "%C2%B2": "²"}.get(number, number)
    assert_refused(vendor.get(path), f"Generator with ID: {shown} could not be found.")
    made = vendor.post(f"{path}/generate", json_body={"amount": 1})
    assert_refused(made, f"Generator with ID: {shown} could not be found.")
    assert_refused(vendor.delete(path), "The generator key could not be found or deleted.")
    for method in ("PUT", "PATCH", "POST"):
        reply = vendor.ask(method, path, json_body={"name": "n"})
        assert_refused(reply, "The generator could not be updated.")


@each_row("field", ["name", "charset"])
@each_row("value", ["", " ", None, True, "x" * 256, "a\0b"], ids=repr)
def test_update_with_a_bad_text_is_refused(vendor: Client, field: str, value: object) -> None:
    reply = vendor.put(new(vendor), json_body={field: value})
    assert_refused(reply, f"Generator {field} is invalid.")


@each_row(
    ("field", "value"),
    [
        *(("times_activated_max", value) for value in ("x", True, 2**31)),
        *((field, value) for field in ("chunks", "chunk_length") for value in (0, "x", True, 2**31)),
    ],
)
def test_update_with_a_bad_integer_is_refused(vendor: Client, field: str, value: object) -> None:
    path = new(vendor)
    before = vendor.get(path).body
    reply = vendor.put(path, json_body={"name": "changed", field: value})
    assert_refused(reply, f"Generator {field} must be an absolute integer.")
    assert vendor.get(path).body == before


def test_keys_too_long_to_be_keys_are_refused(vendor: Client) -> None:
    fits = {**MINIMAL, "chunks": 5, "chunk_length": 51}
    assert vendor.post("generators", json_body=fits).status == 200
    assert_invalid(vendor.post("generators", json_body={**fits, "suffix": "x"}), "chunk_length")
    assert_invalid(vendor.put(new(vendor), json_body={"chunks": 2**31 - 1}), "chunk_length")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null"])
def test_update_with_nothing_is_refused(vendor: Client, body: bytes) -> None:
    reply = vendor.put(new(vendor), body=body, headers={"Content-Type": "application/json"})
    assert_refused(reply, "No parameters were provided.")


# --- generate -------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_generate_answers_with_the_new_licenses(vendor: Client) -> None:
    path = new(vendor, times_activated_max=3, separator="-", suffix="/S", expires_in=30)
    fields = {"amount": 3, "status": "sold", "order_id": 1, "product_id": 2, "user_id": 3}
    reply = vendor.post(f"{path}/generate", json_body=fields)
    keys = [one["licenseKey"] for one in reply.data]
    assert len(set(keys)) == 3
    assert all(re.fullmatch("CANARY-([A-H0-7]{5}-){3}[A-H0-7]{5}/S", key) for key in keys)
    written = {"orderId": 1, "productId": 2, "userId": 3, "validFor": 30, "source": 1, "status": 1}
    assert_success(reply, [a_license(key, **written, timesActivatedMax=3) for key in keys])
    assert [vendor.get(license_path(key)).data["licenseKey"] for key in keys] == keys


def test_a_generated_license_lives_from_its_first_activation(vendor: Client, program: Client) -> None:
    path = new(vendor, expires_in=30, times_activated_max=1)
    key = vendor.post(f"{path}/generate", json_body={"amount": 1}).data[0]["licenseKey"]
    assert program.validate(key).data["expiresAt"] is None
    assert program.activate(key).data["expiresAt"] is not None
    assert program.activate(key).message == f"License Key: {key} reached maximum activation count."


@each_row("amount", [10_001, 0, "x", "", None, []], ids=repr)
def test_other_amounts_are_refused(server: RunningServer, vendor: Client, amount: object) -> None:
    path = new(vendor)
    before = server.count("licenses")
    assert_invalid(vendor.post(f"{path}/generate", json_body={"amount": amount}), "amount")
    assert_invalid(vendor.post(f"{path}/generate"), "amount")
    assert server.count("licenses") == before


def test_generate_refuses_what_create_refuses(vendor: Client) -> None:
    path = f"{new(vendor)}/generate"
    bad = vendor.post(path, json_body={"amount": 1, "status": "good"})
    assert_refused(bad, "License Key status is invalid")
    assert_invalid(
        vendor.post(path, json_body={"amount": 1, "order_id": "x", "user_id": -1}), "order_id", "user_id"
    )


@pytest.mark.smoke
def test_all_licenses_are_made_or_none(server: RunningServer, vendor: Client) -> None:
    # It can make only eight keys.
    path = new(vendor, charset="01", chunks=1, chunk_length=3, prefix=a_key())
    before = server.count("licenses")
    for amount in (9, 10_000):
        refused = vendor.post(f"{path}/generate", json_body={"amount": amount})
        assert_invalid(refused, "amount")
        assert "10000" not in refused.json["data"]["params"]["amount"]
    assert server.count("licenses") == before
