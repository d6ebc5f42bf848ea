"""Keys may contain any character; addresses are decoded exactly once."""

from urllib.parse import quote, unquote

import pytest

from tests.http.asking import CANARY, Client, assert_refused, core, license_path
from tests.tables import each_row

DATABASES = ("sqlite",)

ODD = [
    "/", "//", "a/b", "a//b", "/a", "a/", "/a/", "a/../b", "..", ".", "../..", "%2F", "a%2Fb", "%252F",
    "a%252Fb", "%", "%%", "%zz", "%2", "a%20b", "%00", "%0A", "+", "a+b", "++", "a b", "a  b", "&", "a&b=c",
    "?", "a?b", "a?token=x", "#", "a#b", "=", "a=b", ";", "a;b", ",", ":", "a:b", "@", "a@b", "!", "$", "*",
    "'", "''", '"', '""', "`", "\\", "a\\b", "\\n", "\\u0041", "|", "~", "^", "(", ")", "[", "]", "a[b]",
    "{", "}", "{e.key}", "{0}", "%s", "<", ">", "<script>alert(1)</script>", "&amp;", "' OR 1=1 --",
    '"; DROP TABLE licenses; --', "ключ", "鍵", "مفتاح", "मुख्य", "é", "e\u0301", "ß", "İ", "ﬁ",
    "\u00c5", "\u212b",
    "🔑", "👩‍👩‍👧", "🇩🇪", "x\u00a0y", "x\u200b", "\u202ex", "\ufeffx", "\U0010ffff", "null", "None",
    "0", "-1", "true", "activate", "validate", "deactivate", "licenses", "v2",
]  # fmt: skip


@each_row("odd", ODD, ids=ascii)
def test_an_odd_key_goes_through_every_call_unchanged(vendor: Client, program: Client, odd: str) -> None:
    key = f"{odd}{CANARY}{odd}"
    created = vendor.post("licenses", json_body={"license_key": key, "times_activated_max": 2})
    assert created.data["licenseKey"] == key
    activated = program.activate(key).data
    assert activated["licenseKey"] == key
    token = activated["activationData"]["token"]
    assert program.deactivate(key, token).data["licenseKey"] == key
    assert program.post(core("activate", key), query={"token": token}).data["licenseKey"] == key
    assert program.validate(key, token).data["licenseKey"] == key
    assert vendor.get(license_path(key)).data["licenseKey"] == key
    assert vendor.put(license_path(key), json_body={"order_id": 3}).data["licenseKey"] == key
    assert program.deactivate(key).data["timesActivated"] == 0
    assert program.deactivate(key).message == f"License Key: {key} has not been activated yet."
    assert vendor.delete(license_path(key)).data == []
    assert_refused(program.validate(key), f"License Key: {key} could not be found.")


@pytest.mark.smoke
def test_a_key_may_consist_of_nothing_else(vendor: Client, program: Client) -> None:
    for odd in ODD:
        vendor.post("licenses", form={"license_key": odd})
        assert program.validate(odd).data["licenseKey"] == odd
        assert vendor.delete(license_path(odd)).data == []


def test_an_address_is_not_decoded_twice(vendor: Client, program: Client) -> None:
    for odd in ODD:
        encoded = quote(odd, safe="")
        if encoded == odd:
            continue
        key = f"{CANARY}{odd}twice"
        vendor.license(license_key=key)
        twice = quote(key, safe="")
        assert_refused(program.validate(twice), f"License Key: {twice} could not be found.")
        if unquote(key) != key:
            assert program.validate(unquote(key)).status == 404
        vendor.delete(license_path(key))


@pytest.mark.smoke
def test_keys_may_have_255_characters(vendor: Client, program: Client) -> None:
    for letter in ("x", "🔑"):
        key = CANARY + letter * (255 - len(CANARY))
        assert vendor.license(license_key=key) == key
        assert program.activate(key).data["licenseKey"] == key
        longer = vendor.post("licenses", json_body={"license_key": key + letter})
        assert_refused(longer, "License key is invalid.")
