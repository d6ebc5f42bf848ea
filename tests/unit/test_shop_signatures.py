"""Only what a shop signed with the connection's secret, a moment ago, is believed."""

from datetime import UTC, datetime, timedelta

import pytest

from keywright.core.errors import BadSignature
from keywright.provisioning.shops.model import Shop
from keywright.provisioning.shops.payloads import MODULES
from tests.shop_events import SECRETS, names, recorded, sent, sign
from tests.tables import each_row

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
BODY = b'{"a": "\xc3\xa4 body"}'
#: The shops whose signatures have a time, and those that may send several signatures, and what joins them.
TIMED = (Shop.STRIPE, Shop.PADDLE, Shop.GENERIC)
JOINED = {Shop.STRIPE: ("stripe-signature", ",v1="), Shop.PADDLE: ("paddle-signature", ";h1=")}
#: The header of each shop's signature.
HEADER = {
    Shop.STRIPE: "stripe-signature",
    Shop.PADDLE: "paddle-signature",
    Shop.WOOCOMMERCE: "x-wc-webhook-signature",
    Shop.LEMONSQUEEZY: "x-signature",
    Shop.GENERIC: "webhook-signature",
}


def verify(shop: Shop, headers: dict[str, str], body: bytes = BODY, now: datetime = NOW) -> None:
    MODULES[shop].verify(headers, body, SECRETS[shop], now)


def test_every_shop_has_a_module_and_is_tried_here() -> None:
    assert set(MODULES) == set(Shop) == set(SECRETS) == set(HEADER)


@pytest.mark.parametrize("shop", Shop)
def test_what_a_shop_signed_is_believed(shop: Shop) -> None:
    verify(shop, sign(shop, BODY, SECRETS[shop], NOW))


@pytest.mark.parametrize("shop", Shop)
def test_another_secret_is_not_believed(shop: Shop) -> None:
    other = SECRETS[shop][:-1] + "A"
    with pytest.raises(BadSignature):
        verify(shop, sign(shop, BODY, other, NOW))


@each_row("shop", Shop)
@each_row("altered", [BODY + b" ", BODY[:-1], BODY.replace(b"a", b"b", 1), b""])
def test_an_altered_body_is_not_believed(shop: Shop, altered: bytes) -> None:
    with pytest.raises(BadSignature):
        verify(shop, sign(shop, BODY, SECRETS[shop], NOW), altered)


@pytest.mark.parametrize("shop", Shop)
def test_a_body_without_a_signature_is_not_believed(shop: Shop) -> None:
    headers = sign(shop, BODY, SECRETS[shop], NOW)
    for name in list(headers):
        with pytest.raises(BadSignature):
            verify(shop, {other: value for other, value in headers.items() if other != name})


@each_row("shop", Shop)
@each_row(
    "value",
    ["", " ", "=", "v1", "v1=", "t=,v1=", "ts=;h1=", "t=1;h1=2", "é\udcff", ",;=" * 1000, "v1,", "0" * 64],
)
def test_what_is_no_signature_is_refused_and_breaks_nothing(shop: Shop, value: str) -> None:
    headers = sign(shop, BODY, SECRETS[shop], NOW) | {HEADER[shop]: value}
    with pytest.raises(BadSignature):
        verify(shop, headers)


@each_row("shop", TIMED)
@each_row("seconds", [-301, 301, -86400])
def test_a_signature_from_another_time_is_not_believed(shop: Shop, seconds: int) -> None:
    with pytest.raises(BadSignature):
        verify(shop, sign(shop, BODY, SECRETS[shop], NOW + timedelta(seconds=seconds)))


@each_row("shop", TIMED)
@each_row("seconds", [-299, 299])
def test_a_clock_may_be_some_minutes_off(shop: Shop, seconds: int) -> None:
    verify(shop, sign(shop, BODY, SECRETS[shop], NOW + timedelta(seconds=seconds)))


@pytest.mark.parametrize("shop", TIMED)
def test_the_time_of_a_signature_cannot_be_changed(shop: Shop) -> None:
    old = sign(shop, BODY, SECRETS[shop], NOW - timedelta(hours=1))
    before, after = str(int(NOW.timestamp()) - 3600), str(int(NOW.timestamp()))
    with pytest.raises(BadSignature):
        verify(shop, {name: value.replace(before, after) for name, value in old.items()})


@pytest.mark.parametrize("shop", JOINED)
def test_one_right_signature_among_several_is_enough(shop: Shop) -> None:
    name, joint = JOINED[shop]
    headers = sign(shop, BODY, SECRETS[shop], NOW)
    signature = headers[name].rpartition("=")[2]
    verify(shop, {name: headers[name].replace(signature, "0" * 64) + joint + signature})


@pytest.mark.parametrize("shop", [one for one in Shop if one is not Shop.GENERIC])
def test_every_recorded_event_names_its_page_and_is_believed(shop: Shop) -> None:
    assert len(names(shop)) >= 20
    for name in names(shop):
        found = recorded(shop, name)
        assert found.page.startswith("https://"), name
        assert found.read_on >= "2026-11-23", name
        headers, body = sent(shop, name, at=NOW)
        if name != "ping":
            verify(shop, headers, body)


def test_only_woocommerce_tries_an_address_without_a_signature() -> None:
    headers, body = sent(Shop.WOOCOMMERCE, "ping")
    pinged = {shop for shop in Shop if MODULES[shop].is_ping(headers, body)}
    assert pinged == {Shop.WOOCOMMERCE}


@each_row("body", [b"", b"webhook_id=", b"webhook_id=5&a=b", b"webhook_id=x", b"{}", b"webhook_id=5\n"])
def test_a_ping_is_a_number_and_nothing_else(body: bytes) -> None:
    assert not MODULES[Shop.WOOCOMMERCE].is_ping({}, body)


def test_what_claims_to_be_signed_is_no_ping() -> None:
    assert not MODULES[Shop.WOOCOMMERCE].is_ping({"x-wc-webhook-signature": "x"}, b"webhook_id=5")
