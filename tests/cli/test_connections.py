"""``keywright connection …``"""

import io

import pytest

from keywright.cli.installation import InstallationOptions, open_here
from keywright.registry import open_executor
from tests.cli.conftest import Keywright
from tests.connections import a_sale, an_event, store, work


@pytest.fixture
def connected(keywright: Keywright) -> Keywright:
    """Connection 1 is a generic one that sells "pro" by policy 1."""
    keywright("policy", "create", "--name", "Pro")
    keywright("connection", "add", "generic", "--name", "Our shop", "--map", "pro=1")
    return keywright


def test_a_connection_is_added_changed_and_removed(
    connected: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = ("--map", "price_1=1:devices", "--map", "year=1:renew", "--map", "*=none")
    added = connected.json(
        *("connection", "add", "stripe", "--secret", "whsec_abcdef", "--mode", "test", "--no-mail", *mapped)
    )
    assert (added["id"], added["path"], added["secret"]) == (2, "/in/stripe/2", "whsec_abcdef")
    assert (added["mode"], added["sends_mail"], added["has_api_key"]) == ("test", False, False)
    assert added["mapping"] == [
        {"product": "price_1", "policy_id": 1, "policy_ids": [1], "does": "make", "quantity": "devices"},
        {"product": "year", "policy_id": 1, "policy_ids": [1], "does": "renew", "quantity": "keys"},
        {"product": "*", "policy_id": None, "policy_ids": [], "does": "make", "quantity": "keys"},
    ]
    assert "price_1=1:devices, year=1:renew, *=none" in connected("connection", "show", "2")
    changed = connected.json("connection", "edit", "2", "--name", "EU", "--api-key", "rk_1", "--map", "a=b=1")
    assert (changed["name"], changed["has_api_key"]) == ("EU", True)
    assert [one["product"] for one in changed["mapping"]] == ["a=b"]
    assert "secret" not in changed
    assert connected.json("connection", "show", "2") == changed
    assert "price_1" not in connected("connection", "show", "2")
    assert [one["name"] for one in connected.json("connection", "list")] == ["Our shop", "EU"]
    for unreadable in ("pro", "pro=x", "=1", "pro=1:boxes", "pro=-1", f"pro={2**63}"):
        said = connected.refused("connection", "edit", "2", "--map", unreadable, status=2)
        assert "PRODUCT=POLICY" in said
    remove = ("connection", "remove", "2")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert "nothing was done" in connected.run(*remove, "--data-dir", str(connected.data_dir)).err
    assert "Connection 2 removed." in connected(*remove, "--yes")
    assert connected.refused("connection", "show", "2").startswith("there is no connection 2.")


def test_the_secret_of_a_new_connection_is_printed_once_unless_the_shop_makes_it(
    connected: Keywright,
) -> None:
    said = connected("connection", "add", "generic")
    assert "whsec_" in said
    assert "/in/generic/2" in said
    assert "whsec_" not in connected("connection", "show", "2")
    said = connected("connection", "add", "paddle")
    assert "keywright connection edit 3 --secret -" in said
    assert "cannot be shown again" not in said
    assert "cannot be shown again" in connected("connection", "add", "paddle", "--secret", "pdl_ntfset_1")


def test_what_cannot_be_handled_is_listed_and_tried_again(connected: Keywright) -> None:
    with open_here(InstallationOptions(str(connected.data_dir), None, None), is_made=False) as here:
        executor = open_executor(here.storage)
        for product in ("pro", "team"):
            row_id = store(executor, an_event(a_sale(product, product=product)))
            assert row_id is not None
            work(executor, row_id)
    (waiting,) = connected.json("connection", "events", "1", "--state", "unmatched")
    assert (waiting["order"], waiting["reason"], waiting["detail"]) == ("team", "unknown_product", "team")
    assert "unknown_product" in connected("connection", "events", "1")
    assert "A running server" in connected("connection", "retry", "1", str(waiting["id"]))
    assert [one["state"] for one in connected.json("connection", "events", "1")] == ["done", "waiting"]
    connected("connection", "replay", "1", "--since", "2020-01-01")
    assert [one["state"] for one in connected.json("connection", "events", "1")] == ["waiting", "waiting"]
    late = connected.refused("connection", "replay", "1", "--since", "9999-12-31", status=2)
    assert "'--since': must be in the past" in late
    connected("connection", "retry", "1", str(waiting["id"]), "--overwrite")
    connected("connection", "edit", "1", "--on-cancel", "at_once")
    assert connected.json("connection", "show", "1")["on_cancel"] == "at_once"
    assert "no event 9" in connected.refused("connection", "retry", "1", "9")
