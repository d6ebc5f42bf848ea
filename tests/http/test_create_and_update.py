"""The parameters of create and update: allowed values, bounds, and fields that do not change."""

import secrets
from typing import Any

import pytest

from tests.http.asking import Client, a_key, assert_invalid, license_path
from tests.http.test_records import FIELDS
from tests.server import RunningServer
from tests.tables import each_row

DATABASES = ("sqlite",)

NUMBERS = {"order_id": "orderId", "product_id": "productId", "user_id": "userId"}
COUNTS = {"valid_for": "validFor", "times_activated_max": "timesActivatedMax"}
READ_ONLY = "id hash times_activated source created_at created_by updated_at updated_by".split()
MAX_ID, MAX_COUNT = 2**63 - 1, 2**31 - 1


def created(vendor: Client, **fields: Any) -> dict[str, Any]:
    license: dict[str, Any] = vendor.post("licenses", json_body={"license_key": a_key(), **fields}).data
    return license


def updated(vendor: Client, **fields: Any) -> dict[str, Any]:
    license: dict[str, Any] = vendor.put(license_path(vendor.license()), json_body=fields).data
    return license


@pytest.mark.smoke
@each_row(
    ("fields", "value"),
    [
        *((NUMBERS, value) for value in (0, 1, MAX_ID, "007", str(MAX_ID), None)),
        *((COUNTS, value) for value in (1, MAX_COUNT, str(MAX_COUNT), None)),
    ],
)
def test_numbers_and_counts_may_be_any_integer(vendor: Client, fields: dict[str, str], value: object) -> None:
    expected = dict.fromkeys(fields.values(), None if value is None else int(str(value)))
    for license in (
        created(vendor, **dict.fromkeys(fields, value)),
        updated(vendor, **dict.fromkeys(fields, value)),
    ):
        assert {name: license[name] for name in expected} == expected


@each_row(
    ("names", "value"),
    [(NUMBERS, MAX_ID + 1), (NUMBERS, ""), (COUNTS, MAX_COUNT + 1), (COUNTS, "x"), (COUNTS, [1])],
    ids=repr,
)
def test_what_is_no_integer_is_refused(vendor: Client, names: dict[str, str], value: object) -> None:
    path = license_path(vendor.license())
    before = vendor.get(path).body
    for name in names:
        key = a_key()
        assert_invalid(vendor.post("licenses", json_body={"license_key": key, name: value}), name)
        assert vendor.get(license_path(key)).status == 404
        assert_invalid(vendor.put(path, json_body={name: value}), name)
        assert vendor.get(path).body == before


def test_a_limit_of_zero_and_zero_days_are_none(vendor: Client, program: Client) -> None:
    zero = dict.fromkeys(COUNTS, 0)
    path = license_path(vendor.license(**dict.fromkeys(COUNTS, 5)))
    for license in (created(vendor, **zero), vendor.put(path, json_body=zero).data):
        assert (license["validFor"], license["timesActivatedMax"]) == (None, None)
        assert program.validate(license["licenseKey"]).data["remainingActivations"] is None


@each_row(("status", "number"), [("sold", 1), ("DELIVERED", 2), (3, 3), ("4", 4), ("disabled", 5)])
def test_a_status_is_a_name_in_any_case_or_its_number(vendor: Client, status: object, number: int) -> None:
    assert created(vendor, status=status)["status"] == number
    assert updated(vendor, status=status)["status"] == number


def test_the_default_status_is_active(vendor: Client) -> None:
    assert created(vendor)["status"] == 3
    path = license_path(vendor.license(status="sold"))
    assert vendor.put(path, json_body={"order_id": 1}).data["status"] == 1


@each_row(
    ("sent", "stored"),
    [
        ("9999-12-31 23:59:59", "9999-12-31 23:59:59"),
        ("2030-06-01T12:00:00.999-0730", "2030-06-01 19:30:00"),
        ("", None),
        (None, None),
    ],
)
def test_an_end_is_a_time_or_none(vendor: Client, sent: str | None, stored: str | None) -> None:
    assert created(vendor, expires_at=sent)["expiresAt"] == stored
    path = license_path(vendor.license(expires_at="2050-05-05"))
    assert vendor.put(path, json_body={"expires_at": sent}).data["expiresAt"] == stored
    assert vendor.get(path).data["expiresAt"] == stored


@each_row(
    "value", ["0000-00-00 00:00:00", "2030-001", "2030-06-01T12:00:00 Europe/Berlin", 0, ["2030-01-01"]]
)
def test_an_end_that_is_no_time_is_refused(vendor: Client, value: object) -> None:
    key = a_key()
    assert_invalid(vendor.post("licenses", json_body={"license_key": key, "expires_at": value}), "expires_at")
    path = license_path(vendor.license(expires_at="2050-05-05"))
    before = vendor.get(path).body
    assert_invalid(vendor.put(path, json_body={"expires_at": value, "order_id": 9}), "expires_at")
    assert vendor.get(path).body == before


def test_setting_an_end_clears_valid_for(vendor: Client) -> None:
    both = created(vendor, expires_at="2050-05-05", valid_for=10)
    assert (both["expiresAt"], both["validFor"]) == ("2050-05-05 00:00:00", None)
    path = license_path(vendor.license(valid_for=10))
    license = vendor.put(path, json_body={"expires_at": "2050-05-05"}).data
    assert (license["expiresAt"], license["validFor"]) == ("2050-05-05 00:00:00", None)


def test_valid_for_may_stand_beside_no_end(vendor: Client) -> None:
    for nothing in ("", None):
        license = created(vendor, expires_at=nothing, valid_for=10)
        assert (license["expiresAt"], license["validFor"]) == (None, 10)
        path = license_path(vendor.license(expires_at="2050-05-05"))
        license = vendor.put(path, json_body={"expires_at": nothing, "valid_for": 10}).data
        assert (license["expiresAt"], license["validFor"]) == (None, 10)


@pytest.mark.smoke
def test_update_changes_the_given_fields_only(vendor: Client, program: Client) -> None:
    key = vendor.license(**FIELDS | {"expires_at": "2050-05-05"})
    program.activate(key)
    path = license_path(key)
    before = vendor.get(path).data
    for sent, field, value in (
        ({"order_id": 12}, "orderId", 12),
        ({"product_id": None}, "productId", None),
        ({"user_id": "34"}, "userId", 34),
        ({"status": "delivered"}, "status", 2),
        ({"times_activated_max": None}, "timesActivatedMax", None),
        ({"expires_at": None}, "expiresAt", None),
        ({"valid_for": 7}, "validFor", 7),
    ):
        vendor.put(path, json_body=sent)
        after = vendor.get(path).data
        changed = {name for name in before if before[name] != after[name]}
        assert after[field] == value
        assert changed - {"updatedAt", "updatedBy"} == {field}
        before = after


@each_row("number", ["{}", "-{}", "{}00000000000000000000", "{}.50", "{}e3", "{}e999"])
def test_a_key_that_is_a_number_in_json_is_taken_as_its_text(vendor: Client, number: str) -> None:
    first, second = (number.format(secrets.randbits(60)) for _ in range(2))
    headers = {"Content-Type": "application/json"}
    created = vendor.post("licenses", body=f'{{"license_key": {first}}}'.encode(), headers=headers)
    assert created.data["licenseKey"] == first
    path = license_path(first)
    changed = vendor.put(path, body=f'{{"license_key": {second}}}'.encode(), headers=headers)
    assert changed.data["licenseKey"] == second
    assert vendor.get(license_path(second)).data["id"] == created.data["id"]


@pytest.mark.smoke
def test_a_changed_key_is_found_under_its_new_name_only(vendor: Client, program: Client) -> None:
    key = vendor.license()
    token = program.activated(key)
    license = vendor.put(license_path(key), json_body={"license_key": f" {key}-new "}).data
    assert license["licenseKey"] == f"{key}-new"
    assert program.validate(key).status == 404
    assert program.validate(f"{key}-new", token).status == 200
    # The old key is free again.
    assert vendor.license(license_key=key) == key


@each_row("field", READ_ONLY)
def test_create_never_writes_what_may_not_be_written(vendor: Client, field: str) -> None:
    plain = created(vendor)
    license = created(vendor, **{field: 987_654_321})
    alike = {"id", "licenseKey", "createdAt", "updatedAt"}
    assert {name for name in plain if plain[name] != license[name]} <= alike
    assert 987_654_321 not in license.values()


def test_created_by_and_updated_by_are_the_api_key(server: RunningServer) -> None:
    with Client(server, server.api_key()) as one, Client(server, server.api_key()) as other:
        first, second = (number for (number,) in server.sql("SELECT id FROM api_keys ORDER BY id")[-2:])
        license = one.post("licenses", json_body={"license_key": a_key()}).data
        assert (license["createdBy"], license["updatedBy"]) == (first, None)
        changed = other.put(license_path(license["licenseKey"]), json_body={"order_id": 1}).data
        assert (changed["createdBy"], changed["updatedBy"]) == (first, second)


def test_a_license_that_no_api_key_has_made_was_created_by_0(server: RunningServer, vendor: Client) -> None:
    key = a_key()
    server.cli("license", "create", "--key", key, "--order-id", "7204815")
    assert vendor.get(license_path(key)).data["createdBy"] == 0
    assert [one["createdBy"] for one in vendor.get("licenses?order_id=7204815").data] == [0]


@pytest.mark.smoke
def test_a_deleted_license_is_gone_and_its_key_is_free(vendor: Client) -> None:
    key = vendor.license()
    assert vendor.delete(license_path(key)).data == []
    assert vendor.get(license_path(key)).status == 404
    assert vendor.delete(license_path(key)).status == 404
    assert vendor.license(license_key=key) == key
