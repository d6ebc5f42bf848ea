"""The fields of records: all of them, in order, with their types."""

from datetime import timedelta
from typing import Any

import pytest

from tests.http.asking import (
    A_TOKEN,
    AN_ID,
    JUST_NOW,
    Client,
    a_key,
    assert_common_headers,
    assert_success,
    license_path,
    moment,
    written,
)
from tests.tables import each_row

DATABASES = ("sqlite",)

AGENT = {"User-Agent": "machine-7"}


def a_license(key: str, **fields: Any) -> dict[str, Any]:
    """A license without activation data, as returned by create."""
    return {
        "id": AN_ID,
        "orderId": None,
        "productId": None,
        "userId": None,
        "licenseKey": key,
        "expiresAt": None,
        "validFor": None,
        "source": 3,
        "status": 3,
        "timesActivated": 0,
        "timesActivatedMax": None,
        "createdAt": JUST_NOW,
        "createdBy": AN_ID,
        "updatedAt": JUST_NOW,
        "updatedBy": None,
        **fields,
    }


def without_authors(license: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in license.items() if name not in ("createdBy", "updatedBy")}


def an_activation(license_id: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": AN_ID,
        "token": A_TOKEN,
        "license_id": license_id,
        "label": None,
        "source": 2,
        "ip_address": "127.0.0.1",
        "user_agent": "",
        "meta_data": None,
        "created_at": JUST_NOW,
        "updated_at": None,
        "deactivated_at": None,
        **fields,
    }


FIELDS = {
    "order_id": 11,
    "product_id": 22,
    "user_id": 33,
    "status": "sold",
    "valid_for": 30,
    "times_activated_max": 5,
}
WRITTEN = {
    "orderId": 11,
    "productId": 22,
    "userId": 33,
    "validFor": 30,
    "status": 1,
    "timesActivatedMax": 5,
}


@pytest.mark.smoke
def test_create_answers_with_the_license(vendor: Client) -> None:
    key = a_key()
    reply = vendor.post("licenses", json_body={"license_key": key, **FIELDS})
    assert_success(reply, a_license(key, **WRITTEN))
    assert_common_headers(reply)
    assert reply.data["createdAt"] == reply.data["updatedAt"]


@pytest.mark.smoke
@each_row("method", ["PUT", "PATCH", "POST"])
def test_update_answers_with_the_license(vendor: Client, method: str) -> None:
    key = vendor.license()
    reply = vendor.ask(method, license_path(key), json_body=FIELDS)
    assert_success(reply, a_license(key, **WRITTEN, updatedBy=AN_ID))
    assert reply.data["updatedBy"] == reply.data["createdBy"]


@pytest.mark.smoke
def test_get_answers_with_the_license_and_all_its_activations(vendor: Client, program: Client) -> None:
    key = vendor.license()
    empty = a_license(key, activationData=[])
    assert_success(vendor.get(license_path(key)), empty)
    token = program.activated(key)
    program.deactivate(key, token)
    program.activate(key)
    license_id = vendor.get(license_path(key)).data["id"]
    ended = an_activation(license_id, updated_at=JUST_NOW, deactivated_at=JUST_NOW)
    records = [ended, an_activation(license_id)]
    assert_success(vendor.get(license_path(key)), a_license(key, timesActivated=1, activationData=records))


@pytest.mark.smoke
def test_list_answers_with_an_array_of_the_same(vendor: Client, program: Client) -> None:
    first, second = (vendor.license(product_id=4711) for _ in range(2))
    program.activate(second)
    one, two = (vendor.get(license_path(key)).data for key in (first, second))
    assert_success(vendor.get("licenses", query="product_id=4711"), [one, two])
    assert len(two["activationData"]) == 1


@pytest.mark.smoke
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_activate_answers_with_the_license_and_one_activation(
    vendor: Client, program: Client, method: str
) -> None:
    key = vendor.license(times_activated_max=2)
    license_id = vendor.get(license_path(key)).data["id"]
    query = {"label": "Office", "meta[os]": "linux", "meta[cpu]": "arm"}
    reply = program.ask(method, f"licenses/activate/{key}", query=query, headers=AGENT)
    expected = without_authors(a_license(key, timesActivated=1, timesActivatedMax=2))
    activation = an_activation(
        license_id, label="Office", user_agent="machine-7", meta_data={"os": "linux", "cpu": "arm"}
    )
    assert_success(reply, {**expected, "activationData": activation})
    assert_common_headers(reply)


@pytest.mark.smoke
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_reactivate_answers_with_the_same_activation(vendor: Client, program: Client, method: str) -> None:
    key = vendor.license(times_activated_max=2)
    first = program.activate(key, headers=AGENT).data["activationData"]
    program.deactivate(key, first["token"])
    reply = program.ask(method, f"licenses/activate/{key}", query={"token": first["token"]})
    expected = without_authors(a_license(key, timesActivated=1, timesActivatedMax=2))
    assert_success(reply, {**expected, "activationData": {**first, "updated_at": JUST_NOW}})


@pytest.mark.smoke
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_deactivate_with_a_token_answers_with_that_activation(
    vendor: Client, program: Client, method: str
) -> None:
    key = vendor.license(times_activated_max=2)
    first = program.activate(key).data["activationData"]
    program.activate(key)
    reply = program.ask(method, f"licenses/deactivate/{key}", query={"token": first["token"]})
    expected = without_authors(a_license(key, timesActivated=1, timesActivatedMax=2))
    ended = {**first, "updated_at": JUST_NOW, "deactivated_at": JUST_NOW}
    assert_success(reply, {**expected, "activationData": ended})


@pytest.mark.smoke
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_deactivate_without_a_token_answers_with_those_it_deactivated(
    vendor: Client, program: Client, method: str
) -> None:
    key = vendor.license()
    program.deactivate(key, program.activated(key))
    active = [program.activate(key).data["activationData"] for _ in range(2)]
    reply = program.ask(method, f"licenses/deactivate/{key}")
    ended = [{**one, "updated_at": JUST_NOW, "deactivated_at": JUST_NOW} for one in active]
    assert_success(reply, {**without_authors(a_license(key)), "activationData": ended})


@pytest.mark.smoke
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_validate_answers_with_all_activations_and_what_remains(
    vendor: Client, program: Client, method: str
) -> None:
    key = vendor.license(times_activated_max=3)
    ended = program.activate(key).data["activationData"]
    program.deactivate(key, ended["token"])
    active = program.activate(key).data["activationData"]
    records = [{**ended, "updated_at": JUST_NOW, "deactivated_at": JUST_NOW}, active]
    expected = a_license(key, timesActivated=1, timesActivatedMax=3, remainingActivations=2)
    reply = program.ask(method, f"licenses/validate/{key}")
    assert_success(reply, {**expected, "activationData": records})
    assert_common_headers(reply)


@pytest.mark.smoke
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_validate_with_a_token_answers_with_that_one_activation(
    vendor: Client, program: Client, method: str
) -> None:
    key = vendor.license()
    program.activate(key)
    active = program.activate(key).data["activationData"]
    expected = a_license(key, timesActivated=2, remainingActivations=None)
    reply = program.ask(method, f"licenses/validate/{key}", query={"token": active["token"]})
    assert_success(reply, {**expected, "activationData": [active]})


def test_a_user_agent_is_cut_at_512_characters(vendor: Client, program: Client) -> None:
    key = vendor.license()
    for length, kept in ((511, 511), (512, 512), (513, 512), (4000, 512)):
        reply = program.activate(key, headers={"User-Agent": "x" * length})
        assert reply.data["activationData"]["user_agent"] == "x" * kept


@pytest.mark.smoke
def test_the_first_activation_sets_the_end_of_a_license_that_is_valid_for_some_days(
    vendor: Client, program: Client
) -> None:
    key = vendor.license(valid_for=30)
    assert program.validate(key).data["expiresAt"] is None
    first = program.activate(key).data
    created_at = moment(first["activationData"]["created_at"])
    assert first["expiresAt"] == written(created_at + timedelta(days=30))
    assert first["validFor"] == 30
