"""``keywright connection reconcile``: what a shop sold and never told of."""

from keywright.provisioning.shops.model import Shop
from tests.cli.conftest import Keywright
from tests.shop_apis import API_KEYS, DOWN, running_api
from tests.shop_events import SECRETS
from tests.shop_scene import EDITOR

SHOP = Shop.WOOCOMMERCE


def test_orders_that_did_not_arrive_are_brought_in_once(keywright: Keywright) -> None:
    keywright("policy", "create", "--name", "Editor")
    with running_api(SHOP) as stub:
        site = ("--url", stub.url, "--api-key", API_KEYS[SHOP], "--secret", SECRETS[SHOP])
        keywright("connection", "add", SHOP.value, "--map", f"{EDITOR[SHOP]}=1", *site)
        first = keywright("connection", "reconcile", "1", "--days", "30")
        assert "3 changes, of which 3 were missing" in first
        assert keywright.json("connection", "reconcile", "1") == {
            "found": 3,
            "missing": 0,
            "unreadable": [],
        }
        waiting = keywright.json("connection", "events", "1")
        assert [one["state"] for one in waiting] == ["waiting"] * 3
        stub.fault = DOWN
        assert "does not answer" in keywright.refused("connection", "reconcile", "1")
        keywright("connection", "edit", "1", "--api-key", "another")
        stub.fault = None
        said = keywright.refused("connection", "reconcile", "1")
        assert "declined: 401" in said
        assert "another" not in said


def test_an_order_that_cannot_be_read_is_named_and_waits(keywright: Keywright) -> None:
    keywright("policy", "create", "--name", "Editor")
    with running_api(SHOP) as stub:
        site = ("--url", stub.url, "--api-key", API_KEYS[SHOP], "--secret", SECRETS[SHOP])
        keywright("connection", "add", SHOP.value, "--map", f"{EDITOR[SHOP]}=1", *site)
        stub.spoil_an_order()
        said = keywright("connection", "reconcile", "1", "--days", "30")
    assert "3 changes, of which 3 were missing" in said
    assert "One cannot be read, and waits in the list of events: " in said
    waiting = keywright.json("connection", "events", "1")
    assert sorted(one["state"] for one in waiting) == ["unmatched", "waiting", "waiting"]


def test_without_an_api_key_no_shop_can_be_asked(keywright: Keywright) -> None:
    keywright("connection", "add", "stripe", "--secret", SECRETS[Shop.STRIPE])
    assert "is missing" in keywright.refused("connection", "reconcile", "1")
