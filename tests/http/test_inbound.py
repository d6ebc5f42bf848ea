"""Events from shops: `POST /in/{shop}/{connection}`, from the bytes to the license."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keywright.provisioning.shops.model import Shop
from keywright.registry import open_executor
from tests.connections import SECRET, a_body, a_paid_order, connect, do, signed
from tests.http.asking import Client, Reply
from tests.makers import create_policy
from tests.server import NO_LIMITS, RunningServer, running, wait_until

PATH = "/in/generic/1"


@pytest.fixture(scope="module")
def shop(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with connection 1, a generic one that sells "pro"."""
    folder: Path = tmp_path_factory.mktemp("shops") / "data"
    with running(folder, database, **NO_LIMITS) as server:
        with server.storage() as storage:
            executor = open_executor(storage)
            do(executor, create_policy())
            connect(executor)
            connect(executor, shop=Shop.WOOCOMMERCE)
        yield server
        server.assert_consistent()


@pytest.fixture
def sender(shop: RunningServer) -> Iterator[Client]:
    with Client(shop) as client:
        yield client


def now() -> datetime:
    return datetime.now(UTC)


def send(sender: Client, body: bytes, message_id: str | None = None, path: str = PATH) -> Reply:
    headers = signed(body, now(), message_id or secrets.token_hex(8))
    return sender.post(path, body=body, headers=headers)


def sold(server: RunningServer, order: str) -> int:
    return int(server.sql("SELECT count(*) FROM sold_licenses WHERE order_ref = ?", order)[0][0])


@pytest.mark.smoke
def test_a_signed_sale_is_a_license_a_moment_later(shop: RunningServer, sender: Client) -> None:
    body = a_paid_order("first", now(), quantity=2)
    for _ in range(2):
        reply = send(sender, body, "msg_first")
        assert (reply.status, reply.json) == (200, {"received": True})
    wait_until(lambda: sold(shop, "first") == 2, "the licenses")
    assert send(sender, body).status == 200
    refund = a_body("order.refunded", now() + timedelta(seconds=2), order="first")
    assert send(sender, refund).status == 200
    wait_until(
        lambda: shop.sql("SELECT DISTINCT status FROM sold_licenses WHERE order_ref = 'first'") == [(5,)],
        "the refund",
    )
    assert sold(shop, "first") == 2


def test_a_wrong_signature_is_refused_before_anything_is_stored(shop: RunningServer, sender: Client) -> None:
    """Also the signature of another body, and an old one."""
    body, before = a_paid_order("wrong", now()), shop.count("shop_events")
    signature, old = (signed(body, now() - timedelta(seconds=age), "msg_wrong") for age in (0, 310))
    wrong = ({"webhook-signature": "v1,AAAA"}, {"webhook-id": "another"}, {"webhook-timestamp": "1"})
    for sent, headers in (
        (body + b" ", signature),
        (body, old),
        (body, {}),
        *((body, signature | one) for one in wrong),
    ):
        reply = sender.post(PATH, body=sent, headers=headers)
        assert (reply.status, reply.json["code"]) == (401, "credentials_invalid")
        assert reply.json["detail"] == "The signature is missing, wrong or too old."
    assert shop.count("shop_events") == before


@pytest.mark.parametrize("path", ["/in/nowhere/1", "/in/generic/0", "/in/generic/x", "/in/"])
def test_there_is_nothing_at_other_addresses(sender: Client, path: str) -> None:
    assert send(sender, a_paid_order("none", now()), path=path).status == 404


@pytest.mark.parametrize("shop_name", [one.value for one in Shop])
def test_a_connection_that_is_not_there_is_answered_like_a_wrong_signature(
    sender: Client, shop_name: str
) -> None:
    """Connection 1 is generic, 2 is WooCommerce, 9 does not exist; the signatures are for another one."""
    body = a_paid_order("none", now())
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for headers, sent in ((signed(body, now(), "msg_none"), body), ({}, body), (form, b"webhook_id=7")):
        answers = [
            sender.post(f"/in/{shop_name}/{number}", body=sent, headers=dict(headers))
            for number in (1, 2, 9)
            if (shop_name, number) != ("generic", 1)
        ]
        assert len({(one.status, one.body) for one in answers}) == 1


def test_only_post_is_taken(sender: Client) -> None:
    reply = sender.get(PATH)
    assert (reply.status, reply.header("allow")) == (405, "POST, OPTIONS")


def test_a_ping_of_woocommerce_is_answered_and_not_stored(shop: RunningServer, sender: Client) -> None:
    before = shop.count("shop_events")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert sender.post("/in/woocommerce/2", body=b"webhook_id=7", headers=form).status == 200
    assert shop.count("shop_events") == before


def test_a_signed_body_that_cannot_be_read_waits_for_a_person(shop: RunningServer, sender: Client) -> None:
    for body in (b"[1]", b'{"type": 1}', b"\xff", b"[" * 5_000):
        assert send(sender, body).status == 200
    found = shop.sql("SELECT state, reason FROM shop_events WHERE reason = 'unreadable'")
    assert found == [("unmatched", "unreadable")] * 4


def test_large_orders_are_taken_and_larger_bodies_refused(shop: RunningServer, sender: Client) -> None:
    lines = [{"product": "pro", "title": "x" * 4_000} for _ in range(100)]
    assert send(sender, a_paid_order("large", now(), lines=lines)).status == 200
    wait_until(lambda: sold(shop, "large") == 100, "the licenses")
    assert send(sender, a_paid_order("huge", now(), note="x" * 600_000)).status == 413


def test_a_stranger_is_limited(database: str, tmp_path: Path) -> None:
    with running(tmp_path / "data", database, bad_request_limit=5) as server, Client(server) as stranger:
        answers = [stranger.post(PATH, body=b"{}").status for _ in range(8)]
    assert answers == [401] * 5 + [429] * 3


def test_the_log_has_no_address_and_no_secret(shop: RunningServer, sender: Client) -> None:
    body = a_paid_order("logged", now())
    assert send(sender, body).status == 200
    assert send(sender, b'{"email": "ada@example.com"}').status == 200
    assert sender.post(PATH, body=body, headers={"webhook-id": "unsigned"}).status == 401
    wait_until(lambda: sold(shop, "logged") == 1, "the license")
    assert '"connection:1"' in shop.log
    assert "ada@example.com" not in shop.log
    assert SECRET not in shop.log
