"""Every refusal, with its exact text, code, status and body; and which comes first."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.http.asking import (
    Client,
    Reply,
    a_key,
    assert_invalid,
    assert_refused,
    core,
    license_path,
    written,
)
from tests.server import NO_LIMITS, running
from tests.tables import each_row

DATABASES = ("sqlite",)

UNKNOWN_TOKEN = "0" * 40
UNUSABLE = [4, 5]


@each_row("method", ["GET", "POST"])
@each_row("call", ["activate", "validate"])
@each_row("query", ["", f"token={UNKNOWN_TOKEN}", "token="])
def test_activate_and_validate_of_an_unknown_key_is_refused(
    program: Client, method: str, call: str, query: str
) -> None:
    key = a_key()
    reply = program.ask(method, core(call, key), query=query)
    assert_refused(reply, f"License Key: {key} could not be found.")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("query", ["", f"token={UNKNOWN_TOKEN}"])
def test_deactivate_of_an_unknown_key_is_refused(program: Client, method: str, query: str) -> None:
    key = a_key()
    reply = program.ask(method, core("deactivate", key), query=query)
    assert_refused(reply, f"License Key: {key} could not be found or is deactivated.")


def test_get_of_an_unknown_key_is_refused(vendor: Client) -> None:
    key = a_key()
    assert_refused(vendor.get(license_path(key)), f"License Key: {key} could not be found.")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
def test_update_of_an_unknown_key_is_refused(vendor: Client, method: str) -> None:
    key = a_key()
    reply = vendor.ask(method, license_path(key), json_body={"status": "sold"})
    assert_refused(reply, f"License Key: {key} could not be found.")


def test_delete_of_an_unknown_key_is_refused(vendor: Client) -> None:
    reply = vendor.delete(license_path(a_key()))
    assert_refused(reply, "The license key could not be found or deleted.")


@pytest.mark.parametrize("reactivating", [False, True])
def test_activate_of_an_expired_license_is_refused(
    vendor: Client, program: Client, reactivating: bool
) -> None:
    key = vendor.license()
    token = _deactivated(program, key) if reactivating else None
    vendor.put(license_path(key), json_body={"expires_at": "2020-01-01 00:00:00"})
    assert_refused(
        program.activate(key, token),
        "The license Key expired on 2020-01-01 00:00:00 (UTC).",
        code="lmfwc_rest_license_expired",
    )


def test_a_license_is_good_up_to_but_not_including_its_end(vendor: Client, program: Client) -> None:
    now = datetime.now(UTC)
    key = vendor.license(expires_at=written(now + timedelta(minutes=5)))
    assert program.activate(key).status == 200
    vendor.put(license_path(key), json_body={"expires_at": written(now)})
    assert program.activate(key).json["code"] == "lmfwc_rest_license_expired"


@pytest.mark.parametrize("reactivating", [False, True])
@pytest.mark.parametrize(("status", "word"), [(4, "inactive"), (5, "disabled")])
def test_activate_of_an_inactive_or_disabled_license_is_refused(
    vendor: Client, program: Client, status: int, word: str, reactivating: bool
) -> None:
    key = vendor.license()
    token = _deactivated(program, key) if reactivating else None
    vendor.put(license_path(key), json_body={"status": status})
    reply = program.activate(key, token)
    assert_refused(reply, f"License Key: {key} is {word}.", code="lmfwc_rest_license_inactive")


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


def test_activate_with_a_token_that_is_active_is_refused(vendor: Client, program: Client) -> None:
    key = vendor.license()
    token = program.activated(key)
    reply = program.activate(key, token)
    assert_refused(reply, f"Activation Token: {token} is already activated.")


def test_validate_and_deactivate_with_a_token_that_is_deactivated_is_refused(
    vendor: Client, program: Client
) -> None:
    key = vendor.license()
    token = _deactivated(program, key)
    gone = f"Activation Token: {token} could not be found or is deactivated."
    assert_refused(program.validate(key, token), gone)
    assert_refused(program.deactivate(key, token), gone)


def test_deactivate_without_a_token_and_with_nothing_active_is_refused(
    vendor: Client, program: Client
) -> None:
    key = vendor.license()
    never = f"License Key: {key} has not been activated yet."
    assert_refused(program.deactivate(key), never)
    _deactivated(program, key)
    assert_refused(program.deactivate(key), never)


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


# --- which comes first ----------------------------------------------------------------------------


def test_an_unknown_key_comes_before_an_unknown_token(program: Client) -> None:
    key = a_key()
    assert "License Key" in program.activate(key, UNKNOWN_TOKEN).message


def test_expired_comes_before_inactive(vendor: Client, program: Client) -> None:
    key = vendor.license(status=5, expires_at="2020-01-01")
    assert program.activate(key).json["code"] == "lmfwc_rest_license_expired"


def test_expired_inactive_and_disabled_come_before_the_token(vendor: Client, program: Client) -> None:
    for fields, code in (
        ({"expires_at": "2020-01-01"}, "lmfwc_rest_license_expired"),
        ({"status": 4}, "lmfwc_rest_license_inactive"),
        ({"status": 5}, "lmfwc_rest_license_inactive"),
    ):
        key = vendor.license()
        active = program.activated(key)
        vendor.put(license_path(key), json_body=fields)
        assert program.activate(key, UNKNOWN_TOKEN).json["code"] == code
        assert program.activate(key, active).json["code"] == code


def test_the_token_comes_before_the_limit(vendor: Client, program: Client) -> None:
    key = vendor.license(times_activated_max=1)
    active = program.activated(key)
    assert_refused(
        program.activate(key, UNKNOWN_TOKEN), f"Activation Token: {UNKNOWN_TOKEN} could not be found."
    )
    assert_refused(program.activate(key, active), f"Activation Token: {active} is already activated.")


def test_expired_and_inactive_come_before_the_limit(vendor: Client, program: Client) -> None:
    for fields, code in (
        ({"expires_at": "2020-01-01"}, "lmfwc_rest_license_expired"),
        ({"status": 4}, "lmfwc_rest_license_inactive"),
    ):
        key = vendor.license(times_activated_max=1)
        program.activate(key)
        vendor.put(license_path(key), json_body=fields)
        assert program.activate(key).json["code"] == code


# --- create, update, list -------------------------------------------------------------------------


@each_row(
    "fields",
    [
        {},
        {"license_key": ""},
        {"license_key": " \t\n "},
        {"license_key": None},
        {"license_key": True},
        {"license_key": "x" * 256},
        {"license_key": "a\nb"},
        {"license_key": "a\0b"},
        {"license_key": "a\x7fb"},
        {"license_key": "a\x85b"},
    ],
)
def test_create_without_a_usable_key_is_refused(vendor: Client, fields: dict[str, object]) -> None:
    reply = vendor.post("licenses", json_body={"status": "active", **fields})
    assert_refused(reply, "License key is invalid.")


@each_row("key", ["", " ", None, True, "x" * 256, "a\nb"])
def test_update_to_an_unusable_key_is_refused(vendor: Client, key: object) -> None:
    before = vendor.license()
    reply = vendor.put(license_path(before), json_body={"license_key": key})
    assert_refused(reply, "License key is invalid.")
    assert vendor.get(license_path(before)).status == 200


def test_create_with_a_key_that_is_taken_is_refused(vendor: Client) -> None:
    key = vendor.license()
    for same in (key, f"  {key}\n"):
        reply = vendor.post("licenses", json_body={"license_key": same})
        assert_refused(reply, "This license key already exists.")


def test_update_to_a_key_that_is_taken_is_refused(vendor: Client) -> None:
    mine, taken = vendor.license(), vendor.license()
    reply = vendor.put(license_path(mine), json_body={"license_key": taken, "order_id": 5})
    assert_refused(reply, "This license key already exists.")
    assert vendor.get(license_path(mine)).data["orderId"] is None


def test_update_to_its_own_key_is_allowed(vendor: Client) -> None:
    key = vendor.license()
    assert vendor.put(license_path(key), json_body={"license_key": key}).data["licenseKey"] == key


@each_row("status", ["", "good", "0", 0, 6, -1, True, None, 3.0, "33", "3.0"])
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


@each_row(
    "field",
    [
        "id",
        "hash",
        "times_activated",
        "source",
        "created_at",
        "created_by",
        "updated_at",
        "updated_by",
        "colour",
        "timesActivatedMax",
        "activation_data",
    ],
)
@each_row("method", ["PUT", "PATCH", "POST"])
def test_update_of_a_field_that_may_not_be_written_is_refused(
    vendor: Client, method: str, field: str
) -> None:
    path = license_path(vendor.license(order_id=1))
    before = vendor.get(path).body
    reply = vendor.ask(method, path, json_body={"order_id": 2, field: 3})
    assert_refused(reply, "The license key could not be updated.")
    assert vendor.get(path).body == before


@pytest.mark.parametrize("query", ["", "&page=1", "&page=2&per_page=7"])
def test_list_without_any_license_is_refused(vendor: Client, query: str) -> None:
    assert_refused(vendor.get(f"licenses?order_id=999999999{query}"), "No License Keys available")


# --- what could not be understood -----------------------------------------------------------------

BAD_JSON = [b"{", b'{"status": }', b"{'a': 1}", b'{"a": 1} x', b"nonsense", b'{"a": NaN}', b'{"a": "\xff"}']


@each_row("body", BAD_JSON)
def test_malformed_json_is_refused(vendor: Client, program: Client, body: bytes) -> None:
    key = vendor.license()
    json_type = {"Content-Type": "application/json"}
    asked: list[Callable[[], Reply]] = [
        lambda: vendor.post("licenses", body=body, headers=json_type),
        lambda: vendor.put(license_path(key), body=body, headers=json_type),
        lambda: program.post(core("activate", key), body=body, headers=json_type),
        lambda: vendor.post("generators", body=body, headers=json_type),
    ]
    for ask in asked:
        assert_refused(ask(), "Invalid JSON body passed.", code="rest_invalid_json", status=400)
    assert program.counter(key) == 0


def test_a_label_may_have_255_characters(vendor: Client, program: Client) -> None:
    key = vendor.license()
    for label in ("x" * 255, "🔑" * 255):
        assert program.activate(key, query={"label": label}).data["activationData"]["label"] == label
    assert_invalid(program.activate(key, query={"label": "x" * 256}), "label")
    assert_invalid(program.post(core("activate", key), json_body={"label": ["x"]}), "label")
    assert program.counter(key) == 2


@each_row("meta", ["x", "[]", '["a"]', '{"a": 1}', '{"a": {"b": "c"}}', '{"a": null}', "{"])
def test_meta_that_is_no_object_of_texts_is_refused(vendor: Client, program: Client, meta: str) -> None:
    key = vendor.license()
    assert_invalid(program.activate(key, query={"meta": meta}), "meta")
    assert program.counter(key) == 0


def test_meta_may_have_4_kib(vendor: Client, program: Client) -> None:
    key = vendor.license()
    # {"m":"…"} is eight bytes around the text.
    fits = {"m": "x" * (4096 - 8)}
    reply = program.post(core("activate", key), json_body={"meta": fits})
    assert reply.data["activationData"]["meta_data"] == fits
    assert_invalid(program.post(core("activate", key), json_body={"meta": {"m": "x" * (4097 - 8)}}), "meta")
    assert program.counter(key) == 1


def test_every_wrong_parameter_is_named(vendor: Client, program: Client) -> None:
    key = vendor.license()
    reply = program.activate(key, query={"label": "x" * 256, "meta": "x"})
    assert_invalid(reply, "label", "meta")
    fields = {"license_key": a_key(), "order_id": "x", "expires_at": "soon", "times_activated_max": -1}
    assert_invalid(vendor.post("licenses", json_body=fields), "order_id", "expires_at", "times_activated_max")


@pytest.mark.parametrize(
    "path", ["nothing", "licenses/activate/K/L", "licenses/K/activate", "generators/1/2"]
)
def test_an_address_that_is_not_there_is_refused(vendor: Client, path: str) -> None:
    reply = vendor.get(path)
    message = "No route was found matching the URL and request method."
    assert_refused(reply, message, code="rest_no_route")


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
        for change, token_is_sent in [
            (change, is_sent) for change in (past, {"status": 4}, {"status": 5}) for is_sent in (False, True)
        ]:
            key = vendor.license()
            token = program.activated(key)
            assert program.validate(key).status == 200
            vendor.put(license_path(key), json_body=change)
            refused = program.validate(key, token if token_is_sent else None)
            assert (refused.status, refused.body) == (404, program.activate(key).body), change
            assert vendor.get(license_path(key)).status == 200
            assert program.deactivate(key, token).status == 200
