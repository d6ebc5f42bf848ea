"""All refusals, with exact text, code, status and body; and their precedence."""

from itertools import product
from pathlib import Path

import pytest

from tests.http.asking import Client, a_key, assert_invalid, assert_refused, core, license_path
from tests.http.test_create_and_update import READ_ONLY
from tests.server import NO_LIMITS, running
from tests.tables import each_row

DATABASES = ("sqlite",)

UNKNOWN_TOKEN = "0" * 40


@each_row("method", ["GET", "POST"])
@each_row("call", ["activate", "validate", "deactivate"])
@each_row("query", ["", f"token={UNKNOWN_TOKEN}", "token="])
def test_a_core_call_about_an_unknown_key_is_refused(
    program: Client, method: str, call: str, query: str
) -> None:
    key = a_key()
    more = " or is deactivated" if call == "deactivate" else ""
    reply = program.ask(method, core(call, key), query=query)
    assert_refused(reply, f"License Key: {key} could not be found{more}.")


def test_a_management_call_about_an_unknown_key_is_refused(vendor: Client) -> None:
    key = a_key()
    path, unknown = license_path(key), f"License Key: {key} could not be found."
    assert_refused(vendor.get(path), unknown)
    for method in ("PUT", "PATCH", "POST"):
        assert_refused(vendor.ask(method, path, json_body={"status": "sold"}), unknown)
    assert_refused(vendor.delete(path), "The license key could not be found or deleted.")


@each_row(
    ("fields", "code", "sentence"),
    [
        (
            {"expires_at": "2020-01-01 00:00:00"},
            "expired",
            "The license Key expired on 2020-01-01 00:00:00 (UTC).",
        ),
        ({"status": 4}, "inactive", "License Key: {key} is inactive."),
        ({"status": 5}, "inactive", "License Key: {key} is disabled."),
    ],
)
def test_an_unusable_license_is_refused_before_its_tokens_are_looked_at(
    vendor: Client, program: Client, fields: dict[str, object], code: str, sentence: str
) -> None:
    key = vendor.license()
    given_up, active = _deactivated(program, key), program.activated(key)
    vendor.put(license_path(key), json_body=fields)
    for token in (None, given_up, active, UNKNOWN_TOKEN):
        reply = program.activate(key, token)
        assert_refused(reply, sentence.format(key=key), code=f"lmfwc_rest_license_{code}")


@pytest.mark.smoke
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_activate_at_the_limit_is_refused(vendor: Client, program: Client, method: str) -> None:
    key = vendor.license(times_activated_max=1)
    program.activate(key)
    reply = program.ask(method, core("activate", key))
    assert_refused(reply, f"License Key: {key} reached maximum activation count.")


@pytest.mark.smoke
@each_row("token", [UNKNOWN_TOKEN, 'odd "token" {e} \\ ü', "x" * 500, "\0"])
def test_an_unknown_token_is_refused(vendor: Client, program: Client, token: str) -> None:
    key = vendor.license()
    program.activate(key)
    gone = f"Activation Token: {token} could not be found or is deactivated."
    assert_refused(program.activate(key, token), f"Activation Token: {token} could not be found.")
    assert_refused(program.validate(key, token), gone)
    assert_refused(program.deactivate(key, token), gone)


def test_what_is_not_active_is_neither_validated_nor_deactivated(vendor: Client, program: Client) -> None:
    key = vendor.license()
    never = f"License Key: {key} has not been activated yet."
    assert_refused(program.deactivate(key), never)
    token = _deactivated(program, key)
    assert_refused(program.deactivate(key), never)
    gone = f"Activation Token: {token} could not be found or is deactivated."
    assert_refused(program.validate(key, token), gone)
    assert_refused(program.deactivate(key, token), gone)


def test_tokens_compare_byte_for_byte(vendor: Client, program: Client) -> None:
    key = vendor.license()
    token = program.activated(key)
    for wrong in (token.upper(), token[:-1]):
        gone = f"Activation Token: {wrong} could not be found or is deactivated."
        assert_refused(program.validate(key, wrong), gone)


def test_keys_compare_byte_for_byte(vendor: Client, program: Client) -> None:
    key = vendor.license()
    for wrong in (key.lower(), f" {key}", f"{key} ", key[:-1], f"{key}\0"):
        assert_refused(program.validate(wrong), f"License Key: {wrong} could not be found.")


def test_the_token_comes_before_the_limit(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=1)
    active = program.activated(key)
    assert_refused(
        program.activate(key, UNKNOWN_TOKEN), f"Activation Token: {UNKNOWN_TOKEN} could not be found."
    )
    assert_refused(program.activate(key, active), f"Activation Token: {active} is already activated.")


# --- create, update, list -------------------------------------------------------------------------


@each_row("key", ["", " \t\n ", None, True, "x" * 256, "a\nb", "a\x7fb"])
def test_an_unusable_key_is_refused(vendor: Client, key: object) -> None:
    assert_refused(vendor.post("licenses", json_body={"license_key": key}), "License key is invalid.")
    before = vendor.license()
    reply = vendor.put(license_path(before), json_body={"license_key": key})
    assert_refused(reply, "License key is invalid.")
    assert vendor.get(license_path(before)).status == 200


def test_create_without_a_key_is_refused(vendor: Client) -> None:
    assert_refused(vendor.post("licenses", json_body={"status": "active"}), "License key is invalid.")


def test_a_key_that_is_taken_is_refused_but_not_to_its_own_license(vendor: Client) -> None:
    mine, taken = vendor.license(), vendor.license()
    for same in (taken, f"  {taken}\n"):
        reply = vendor.post("licenses", json_body={"license_key": same})
        assert_refused(reply, "This license key already exists.")
    reply = vendor.put(license_path(mine), json_body={"license_key": taken, "order_id": 5})
    assert_refused(reply, "This license key already exists.")
    own = vendor.put(license_path(mine), json_body={"license_key": mine}).data
    assert (own["licenseKey"], own["orderId"]) == (mine, None)


@each_row("status", ["", "good", 0, None, 3.0])
def test_create_and_update_with_a_status_that_is_none_is_refused(vendor: Client, status: object) -> None:
    created = vendor.post("licenses", json_body={"license_key": a_key(), "status": status})
    assert_refused(created, "License Key status is invalid")
    updated = vendor.put(license_path(vendor.license()), json_body={"status": status})
    assert_refused(updated, "License Key status is invalid")


@each_row("method", ["PUT", "PATCH", "POST"])
@each_row("body", [None, b"", b"{}", b"[]", b'["status"]', b"null", b'"status"', b"7"])
def test_update_with_nothing_is_refused(vendor: Client, method: str, body: bytes | None) -> None:
    path = license_path(vendor.license())
    reply = vendor.ask(method, path, body=body, headers={"Content-Type": "application/json"})
    assert_refused(reply, "No parameters were provided.")


@each_row("field", [*READ_ONLY, "colour", "timesActivatedMax", "activation_data"])
@each_row("method", ["PUT", "PATCH", "POST"])
def test_update_of_a_field_that_may_not_be_written_is_refused(
    vendor: Client, method: str, field: str
) -> None:
    path = license_path(vendor.license(order_id=1))
    before = vendor.get(path).body
    reply = vendor.ask(method, path, json_body={"order_id": 2, field: 3})
    assert_refused(reply, "The license key could not be updated.")
    assert vendor.get(path).body == before


# --- what could not be understood -----------------------------------------------------------------

BAD_JSON = [b"{", b'{"status": }', b"{'a': 1}", b'{"a": 1} x', b"nonsense", b'{"a": NaN}', b'{"a": "\xff"}']


@each_row("body", BAD_JSON)
def test_malformed_json_is_refused(vendor: Client, program: Client, body: bytes) -> None:
    key = vendor.license()
    json_type = {"Content-Type": "application/json"}
    for path in ("licenses", license_path(key), core("activate", key), "generators"):
        reply = vendor.post(path, body=body, headers=json_type)
        assert_refused(reply, "Invalid JSON body passed.", code="rest_invalid_json", status=400)
    assert program.counter(key) == 0


def test_every_wrong_parameter_is_named(vendor: Client, program: Client) -> None:
    key = vendor.license()
    reply = program.activate(key, query={"label": "x" * 256, "meta": "x"})
    assert_invalid(reply, "label", "meta")
    fields = {"license_key": a_key(), "order_id": "x", "expires_at": "soon", "times_activated_max": -1}
    assert_invalid(vendor.post("licenses", json_body=fields), "order_id", "expires_at", "times_activated_max")


@each_row("path", ["/nothing", "/wp-json/lmfwc", "/wp-json/lmfwc/v3/licenses", "/.."])
@each_row("method", ["GET", "POST", "DELETE", "PROPFIND"])
def test_an_address_outside_the_interface_is_refused_in_the_same_shape(
    program: Client, path: str, method: str
) -> None:
    reply = program.ask(method, path)
    message = "No route was found matching the URL and request method."
    assert_refused(reply, message, code="rest_no_route")


def _deactivated(program: Client, key: str) -> str:
    token = program.activated(key)
    program.deactivate(key, token)
    return token


def test_validate_refuses_what_activate_does_where_the_setting_says_so(tmp_path: Path) -> None:
    past = {"expires_at": "2020-01-01 00:00:00"}
    with (
        running(tmp_path / "data", v2_validate="refuse", **NO_LIMITS) as server,
        Client(server, server.api_key()) as vendor,
        Client(server) as program,
    ):
        for change, token_is_sent in product((past, {"status": 4}, {"status": 5}), (False, True)):
            key = vendor.license()
            token = program.activated(key)
            assert program.validate(key).status == 200
            vendor.put(license_path(key), json_body=change)
            refused = program.validate(key, token if token_is_sent else None)
            assert (refused.status, refused.body) == (404, program.activate(key).body), change
            assert vendor.get(license_path(key)).status == 200
            assert program.deactivate(key, token).status == 200
