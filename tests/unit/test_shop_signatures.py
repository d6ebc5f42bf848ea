"""Events are accepted only if the shop recently signed them with the connection's secret."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from keywright.core.errors import BadSignature
from keywright.provisioning.shops.model import Shop
from keywright.provisioning.shops.payloads import MODULES
from tests.shop_events import SECRETS, names, recorded, sent, sign
from tests.tables import each_row

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
BODY = b'{"a": "\xc3\xa4 body"}'
#: The shops whose signatures include a time; and those that may send several signatures, with the separator.
TIMED = (Shop.STRIPE, Shop.PADDLE, Shop.GENERIC)
JOINED = {Shop.STRIPE: ("stripe-signature", ",v1="), Shop.PADDLE: ("paddle-signature", ";h1=")}
#: The signature header of each shop.
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


def forge(shop: Shop) -> Iterator[tuple[str, dict[str, str], bytes]]:
    """Yield calls that the shop did not send just now: the flaw, the headers and the body."""
    good = sign(shop, BODY, SECRETS[shop], NOW)
    yield "another secret", sign(shop, BODY, SECRETS[shop][:-1] + "A", NOW), BODY
    for altered in (BODY + b" ", BODY[:-1], BODY.replace(b"a", b"b", 1), b""):
        yield f"the body {altered!r}", good, altered
    for name in good:
        yield f"no {name}", {other: value for other, value in good.items() if other != name}, BODY
    no_times = ("t=,v1=", "ts=;h1=", "t=1;h1=2")
    for value in ("", " ", "=", "v1", "v1=", *no_times, "é\udcff", ",;=" * 1000, "v1,", "0" * 64):
        yield f"the signature {value}", good | {HEADER[shop]: value}, BODY
    if shop in TIMED:
        for seconds in (-301, 301, -86400):
            yield f"{seconds} s", sign(shop, BODY, SECRETS[shop], NOW + timedelta(seconds=seconds)), BODY
        old = sign(shop, BODY, SECRETS[shop], NOW - timedelta(hours=1))
        before, after = str(int(NOW.timestamp()) - 3600), str(int(NOW.timestamp()))
        yield "a new time", {name: value.replace(before, after) for name, value in old.items()}, BODY


@each_row("shop", Shop)
def test_what_a_shop_signed_some_minutes_ago_is_believed_and_nothing_else(shop: Shop) -> None:
    for seconds in (-299, 0, 299) if shop in TIMED else (0,):
        verify(shop, sign(shop, BODY, SECRETS[shop], NOW + timedelta(seconds=seconds)))
    believed = []
    for wrong, headers, body in forge(shop):
        with suppress(BadSignature):
            verify(shop, headers, body)
            believed.append(wrong)
    assert believed == []


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
    assert not MODULES[Shop.WOOCOMMERCE].is_ping({"x-wc-webhook-signature": "x"}, b"webhook_id=5")
