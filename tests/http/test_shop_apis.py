"""Requests to the shops' APIs, and the handling of their failures."""

import gzip
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.errors import ShopRefused, ShopUnavailable, UnreadableEvent
from keywright.provisioning.shops.model import (
    Buyer,
    Connection,
    Fact,
    Lines,
    Mode,
    Nothing,
    OpenedConnection,
    Renewal,
    Sale,
    SaleLine,
    SaleState,
    Shop,
    ShopEvent,
    StateChange,
    UnreadableOrder,
)
from keywright.provisioning.shops.payloads import MODULES
from keywright.provisioning.shops.reconciling import find_missing_topics, list_running
from keywright.provisioning.shops.shop_module import ApiAccess, open_api
from tests.shop_apis import API_KEYS, BUSY, DOWN, GIANT, HTML, REDIRECT, Fault, ShopApiStub, running_api
from tests.shop_events import recorded
from tests.tables import each_row

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
SHOPS = [one for one in Shop if one is not Shop.GENERIC]
#: One event of each shop that requires a request to its API.
ASKING = {
    Shop.STRIPE: "checkout_paid",
    Shop.PADDLE: "transaction_completed",
    Shop.WOOCOMMERCE: "order_renewed",
    Shop.LEMONSQUEEZY: "subscription_payment_success",
}


@pytest.fixture(params=SHOPS, ids=str)
def stub(request: pytest.FixtureRequest) -> Iterator[ShopApiStub]:
    with running_api(request.param) as running:
        yield running


def connection(stub: ShopApiStub) -> Connection:
    return Connection(
        id=1, shop=stub.shop, name="a shop", url=stub.url, has_api_key=True, created_at=NOW, updated_at=NOW
    )


def complete(stub: ShopApiStub, name: str, *, key: str | None = None, timeout: float = 30) -> ShopEvent:
    module, found = MODULES[stub.shop], recorded(stub.shop, name)
    event = module.read(found.headers, found.body, connection(stub))[0]
    # The lines of a subscription are also requested if two events contradict each other.
    event = replace(event, needs_api=event.needs_api or isinstance(event.change, Lines))
    assert event.needs_api
    access = module.find_api(connection(stub), key or API_KEYS[stub.shop])
    assert access is not None
    with open_api(access, timeout=timeout) as api:
        return module.complete(event, api)


def list_orders(stub: ShopApiStub, since: datetime = LONG_AGO) -> list[Any]:
    module = MODULES[stub.shop]
    access = module.find_api(connection(stub), API_KEYS[stub.shop])
    assert access is not None
    with open_api(access, timeout=30) as api:
        return list(module.list_orders(api, connection(stub), since))


def orders(stub: ShopApiStub, since: datetime = LONG_AGO) -> list[ShopEvent]:
    listed = list_orders(stub, since)
    assert [one for one in listed if isinstance(one, UnreadableOrder)] == []
    return [one for one in listed if isinstance(one, ShopEvent)]


def change_of(shop: Shop, name: str) -> Any:
    with running_api(shop) as stub:
        return complete(stub, name).change


# --- what webhooks leave out ----------------------------------------------------------------------


def test_stripe_is_asked_for_the_lines_of_an_order() -> None:
    sale = change_of(Shop.STRIPE, "checkout_paid")
    assert sale.lines == (SaleLine("li_000001", ("price_editor", "prod_editor"), 2, "Editor", recurs=False),)


def test_paddle_is_asked_who_bought() -> None:
    sale = change_of(Shop.PADDLE, "transaction_completed")
    assert sale.buyer == Buyer("ada@example.com", "Ada Example", "de")


@pytest.mark.parametrize(
    ("shop", "name", "quantity"),
    [(Shop.STRIPE, "subscription_of_many_items", 5), (Shop.PADDLE, "subscription_addon", 5),
     (Shop.LEMONSQUEEZY, "subscription_more_seats", 1), (Shop.WOOCOMMERCE, "subscription_more_seats", 1)],
)  # fmt: skip
def test_a_shop_is_asked_for_the_lines_of_a_subscription(shop: Shop, name: str, quantity: int) -> None:
    change = change_of(shop, name)
    assert isinstance(change, Lines)
    assert ([one.quantity for one in change.lines], change.is_asked) == ([quantity], True)


def test_a_shop_is_asked_what_runs_and_which_events_it_was_not_asked_to_send(stub: ShopApiStub) -> None:
    opened = OpenedConnection(connection(stub), "a secret", API_KEYS[stub.shop])
    (running,) = list_running(opened)
    assert isinstance(running.change, Lines)
    wanted = 1 if stub.shop is Shop.WOOCOMMERCE else 5
    assert ([one.quantity for one in running.change.lines], running.change.is_asked) == ([wanted], True)
    missing = {
        Shop.STRIPE: "customer.subscription.updated",
        Shop.PADDLE: "subscription.updated",
        Shop.WOOCOMMERCE: "subscription.updated",
        Shop.LEMONSQUEEZY: "subscription_updated",
    }
    assert find_missing_topics(opened) == (missing[stub.shop],)
    elsewhere = replace(opened, connection=replace(opened.connection, id=2))
    assert find_missing_topics(elsewhere) == tuple(sorted(MODULES[stub.shop].TOPICS))


def test_topics_that_a_key_may_not_read_are_not_known(stub: ShopApiStub) -> None:
    opened = OpenedConnection(connection(stub), "a secret", "another key")
    assert find_missing_topics(opened) is None


def test_woocommerce_is_asked_whether_a_deleted_order_is_gone() -> None:
    """The topic is not signed: the signed body may be about the deletion of a user with the same ID."""
    suspended = StateChange(state=SaleState.SUSPENDED, order="101")
    with running_api(Shop.WOOCOMMERCE) as stub:
        for fault, change in (
            (None, suspended),
            (Fault(404, b"{}"), suspended),
            (Fault(200, b'{"id":101,"status":"trash"}'), suspended),
            (Fault(200, b'{"id":101,"status":"completed"}'), Nothing("the order still exists")),
        ):
            stub.fault = fault
            found = complete(stub, "order_deleted")
            assert (found.change, found.needs_api) == (change, False)
        for fault, error in (
            (Fault(401), ShopRefused),
            (DOWN, ShopUnavailable),
            (Fault(200, b"[]"), UnreadableEvent),
        ):
            stub.fault = fault
            with pytest.raises(error):
                complete(stub, "order_deleted")
    assert stub.asked[0] == "/wp-json/wc/v3/orders/101"


RENEWAL = Renewal(subscription="110", until=datetime(2027, 1, 1, 13, tzinfo=UTC))
REFUNDED = StateChange(state=SaleState.REFUNDED, order="in_000002", fact=Fact.REFUND)
#: For each event: the subject of a payment, an invoice or an order, according to the API.
ABOUT: list[tuple[Shop, str, Any]] = [
    (Shop.STRIPE, "charge_of_renewal_refunded", REFUNDED),
    (Shop.STRIPE, "charge_refunded", replace(REFUNDED, order="pi_000001")),
    (
        Shop.WOOCOMMERCE,
        "order_renewed",
        replace(RENEWAL, order="120", lines=(SaleLine("7", ("50", "CLOUD"), 1, "Editor"),)),
    ),
    (Shop.WOOCOMMERCE, "order_switched", replace(RENEWAL, until=None, order="130", is_change=True)),
    (Shop.WOOCOMMERCE, "order_renewal_failed", StateChange(state=SaleState.GRACE, subscription="110")),
    (
        Shop.LEMONSQUEEZY,
        "subscription_payment_success",
        replace(RENEWAL, subscription="210", order="invoices/502"),
    ),
    (Shop.LEMONSQUEEZY, "subscription_first_payment_refunded", replace(REFUNDED, order="210")),
]


@each_row(("shop", "name", "change"), ABOUT)
def test_a_shop_is_asked_what_an_event_is_about(shop: Shop, name: str, change: Any) -> None:
    assert change_of(shop, name) == change


# --- when it fails --------------------------------------------------------------------------------


def test_a_failing_api_is_told_from_one_that_declines(stub: ShopApiStub) -> None:
    """An HTML page may become JSON later; huge bodies are not read, compressed ones not unpacked."""
    compressed = Fault(200, gzip.compress(b"{}"), {"Content-Encoding": "gzip"})
    failing, declining = (DOWN, BUSY, HTML, compressed), (Fault(403), REDIRECT, GIANT)
    for fault in (*failing, *declining):
        stub.fault = fault
        with pytest.raises(ShopUnavailable if fault in failing else ShopRefused) as refused:
            complete(stub, ASKING[stub.shop])
        assert getattr(refused.value, "retry_after", None) == (7 if fault is BUSY else None)
        assert API_KEYS[stub.shop] not in str(refused.value)


def test_an_api_that_does_not_answer_is_given_up(stub: ShopApiStub) -> None:
    stub.is_slow = True
    with pytest.raises(ShopUnavailable):
        complete(stub, ASKING[stub.shop], timeout=0.1)


def test_an_answer_that_comes_byte_by_byte_is_given_up() -> None:
    """Also in its headers: each wait for a byte is short."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            with listening.accept()[0] as caller, suppress(OSError):
                caller.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not is_over.wait(0.05):
                    caller.sendall(b"x")

        is_over = Event()
        thread = Thread(target=drip, daemon=True)
        thread.start()
        access = ApiAccess(f"http://127.0.0.1:{listening.getsockname()[1]}", {})
        with pytest.raises(ShopUnavailable), open_api(access, timeout=1.0) as api:
            api.get("/orders")
        is_over.set()
        thread.join()


def test_a_shop_that_is_away_is_given_up() -> None:
    with running_api(Shop.STRIPE) as stub:
        pass
    with pytest.raises(ShopUnavailable):
        complete(stub, "checkout_paid")


def test_a_wrong_key_is_declined(stub: ShopApiStub) -> None:
    with pytest.raises(ShopRefused, match="401"):
        complete(stub, ASKING[stub.shop], key="another")


@each_row("body", [b"null", b"[]", b"{}", b'{"data": null}', b'{"data": [3]}', b'"text"'])
def test_json_that_is_not_the_documented_is_unreadable(stub: ShopApiStub, body: bytes) -> None:
    stub.fault = Fault(200, body)
    with pytest.raises(UnreadableEvent):
        complete(stub, ASKING[stub.shop])
    if (stub.shop, body) != (Shop.WOOCOMMERCE, b"[]"):
        with pytest.raises(UnreadableEvent):
            orders(stub)


# --- the orders of the last days ------------------------------------------------------------------


def test_a_shop_lists_its_orders_over_all_pages_oldest_first(stub: ShopApiStub) -> None:
    listed = orders(stub)
    assert len(stub.asked) >= 2
    sold = [one for one in listed if isinstance(one.change, Sale)]
    assert len(sold) == 2
    assert sold == sorted(sold, key=lambda one: str(one.at))
    assert not [one for one in listed if isinstance(one.change, Nothing)]


def test_an_order_that_cannot_be_read_stops_no_other(stub: ShopApiStub) -> None:
    sold = {one.id for one in orders(stub) if isinstance(one.change, Sale)}
    spoiled = stub.spoil_an_order()
    listed = list_orders(stub)
    (unreadable,) = [one for one in listed if isinstance(one, UnreadableOrder)]
    assert spoiled in unreadable.body
    assert unreadable.reason
    left = {one.id for one in listed if isinstance(one, ShopEvent) and isinstance(one.change, Sale)}
    assert left < sold
    assert len(left) == len(sold) - 1
    with pytest.raises(UnreadableEvent):
        MODULES[stub.shop].read({}, unreadable.body, connection(stub))


def test_a_listed_order_is_the_event_that_the_shop_sent(stub: ShopApiStub) -> None:
    name = {
        Shop.STRIPE: "checkout_paid",
        Shop.PADDLE: "transaction_completed",
        Shop.WOOCOMMERCE: "order_completed",
        Shop.LEMONSQUEEZY: "order_created",
    }[stub.shop]
    found = recorded(stub.shop, name)
    sent = MODULES[stub.shop].read(found.headers, found.body, connection(stub))[0]
    (listed,) = [one for one in orders(stub) if one.id == sent.id]
    assert isinstance(sent.change, Sale)
    # Lemon Squeezy's list of orders lacks their custom data.
    metadata = {} if stub.shop is Shop.LEMONSQUEEZY else sent.change.metadata
    assert listed.change == replace(sent.change, metadata=metadata)
    assert listed.at == sent.at


@pytest.mark.parametrize("shop", [Shop.PADDLE, Shop.LEMONSQUEEZY])
def test_lists_that_cannot_be_asked_for_a_time_end_at_it(shop: Shop) -> None:
    with running_api(shop) as stub:
        assert len(orders(stub, datetime(2026, 11, 1, 11, tzinfo=UTC))) == 1


def test_woocommerce_lists_subscriptions_where_it_has_them() -> None:
    with running_api(Shop.WOOCOMMERCE) as stub:
        assert [one.name for one in orders(stub)][-1] == "subscription cancelled"
        assert all("modified_after=2026-01-01T00%3A00%3A00" in one for one in stub.asked)


def test_a_site_without_an_address_cannot_be_asked() -> None:
    site = Connection(id=1, shop=Shop.WOOCOMMERCE, name="a shop", created_at=NOW, updated_at=NOW)
    assert MODULES[Shop.WOOCOMMERCE].find_api(site, "a:b") is None


def test_paddles_sandbox_is_another_address() -> None:
    live = Connection(id=1, shop=Shop.PADDLE, name="a shop", created_at=NOW, updated_at=NOW)
    urls = [MODULES[Shop.PADDLE].find_api(replace(live, mode=mode), "key") for mode in Mode]
    assert [one and one.url for one in urls] == ["https://api.paddle.com", "https://sandbox-api.paddle.com"]
