"""``keywright connection reconcile``: what a shop sold and never told of."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from keywright.config.installation import open_installation
from keywright.config.sources import read_settings
from keywright.provisioning.shops.model import Shop
from keywright.registry import open_executor
from tests.cli.conftest import Keywright
from tests.connections import work
from tests.shop_apis import API_KEYS, DOWN, ShopApiStub, running_api
from tests.shop_events import SECRETS
from tests.shop_scene import EDITOR

SHOP = Shop.WOOCOMMERCE


def connect(keywright: Keywright, stub: ShopApiStub) -> None:
    site = ("--url", stub.url, "--api-key", API_KEYS[SHOP], "--secret", SECRETS[SHOP])
    keywright("connection", "add", SHOP.value, "--map", f"{EDITOR[SHOP]}=1", *site)


@pytest.fixture
def stub(keywright: Keywright) -> Iterator[ShopApiStub]:
    """A shop whose orders did not arrive at connection 1."""
    keywright("policy", "create", "--name", "Editor")
    with running_api(SHOP) as stub:
        connect(keywright, stub)
        yield stub


def test_orders_that_did_not_arrive_are_brought_in_once(keywright: Keywright, stub: ShopApiStub) -> None:
    first = keywright("connection", "reconcile", "1", "--days", "30")
    assert "3 changes; 3 of them were missing" in first
    assert keywright.json("connection", "reconcile", "1") == {
        "found": 3,
        "missing": 0,
        "unreadable": [],
        "different": {},
    }
    assert "differ from what is paid: 0" in keywright("connection", "reconcile", "1", "--dry-run")
    waiting = keywright.json("connection", "events", "1")
    assert [one["state"] for one in waiting] == ["waiting"] * 3
    stub.fault = DOWN
    assert "is not responding" in keywright.refused("connection", "reconcile", "1")
    keywright("connection", "edit", "1", "--api-key", "another")
    stub.fault = None
    said = keywright.refused("connection", "reconcile", "1")
    assert "refused the request: 401" in said
    assert "another" not in said


def test_what_a_removed_connection_has_sold_is_taken_over_first(
    keywright: Keywright, stub: ShopApiStub
) -> None:
    keywright("connection", "reconcile", "1", "--days", "30")
    with closing(open_installation(read_settings({"data_dir": keywright.data_dir}))) as storage:
        executor = open_executor(storage)
        for one in keywright.json("connection", "events", "1"):
            work(executor, one["id"])
    sold = keywright.json("license", "list")
    keywright("connection", "remove", "1", "--yes")
    connect(keywright, stub)
    said = keywright.refused("connection", "reconcile", "2", status=2)
    assert "keywright connection take-over 2 1" in said
    assert keywright.json("connection", "events", "2") == []
    assert f"took over {len(sold)} license" in keywright("connection", "take-over", "2", "1")
    assert "3 of them were missing" in keywright("connection", "reconcile", "2", "--days", "30")


def test_an_order_that_cannot_be_read_is_named_and_waits(keywright: Keywright, stub: ShopApiStub) -> None:
    stub.spoil_an_order()
    said = keywright("connection", "reconcile", "1", "--days", "30")
    assert "3 changes; 3 of them were missing" in said
    assert "One change cannot be read, and waits in the list of events: " in said
    waiting = keywright.json("connection", "events", "1")
    assert sorted(one["state"] for one in waiting) == ["unmatched", "waiting", "waiting"]


def test_without_an_api_key_no_shop_can_be_asked(keywright: Keywright) -> None:
    keywright("connection", "add", "stripe", "--secret", SECRETS[Shop.STRIPE])
    assert "is missing" in keywright.refused("connection", "reconcile", "1")
