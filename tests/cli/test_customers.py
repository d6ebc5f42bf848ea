"""``keywright customer …``"""

import json

import pytest

from tests.cli.conftest import Keywright

DATABASES = ("sqlite",)


@pytest.fixture
def key(keywright: Keywright) -> str:
    """The key of customer 8, which was activated once."""
    key: str = keywright.json("license", "create", "--customer-id", "8")["licenseKey"]
    keywright("license", "activate", key, "--label", "Laptop CANARY")
    return key


def test_a_customer_is_exported_with_whole_keys(keywright: Keywright, key: str) -> None:
    found = json.loads(keywright("customer", "export", "8"))
    assert (found["customer_id"], found["customer"]) == (8, None)
    (license,) = found["licenses"]
    assert license["license"]["key"] == key
    (activation,) = license["activations"]
    assert (activation["label"], activation["ip_address"]) == ("Laptop CANARY", "127.0.0.1")
    assert [one["name"] for one in license["events"]] == ["license.created", "license.activated"]
    assert activation["created_at"] == license["events"][1]["occurred_at"]


@pytest.mark.smoke
def test_a_customer_of_whom_nothing_is_stored_is_neither_exported_nor_erased(keywright: Keywright) -> None:
    for command in (("export", "99"), ("erase", "99", "--yes")):
        assert keywright.refused("customer", *command).startswith("there is no customer 99.")


def test_a_customer_is_erased_after_a_yes_and_told_what_remains(keywright: Keywright, key: str) -> None:
    assert keywright.run("customer", "erase", "8", "--data-dir", str(keywright.data_dir)).status == 1
    assert "CANARY" in keywright("customer", "export", "8")
    said = keywright("customer", "erase", "8", "--yes")
    assert said.startswith("All personal data of customer 8 is erased.")
    assert "backups" in said
    after = keywright("customer", "export", "8")
    assert key in after
    assert "CANARY" not in after
    assert "127.0.0.1" not in after


def test_a_customer_is_made_changed_and_deleted(keywright: Keywright) -> None:
    made = keywright.json("customer", "create", "--id", "8", "--email", "Ada@example.com", "--name", "Ada")
    assert (made["id"], made["email"], made["name"], made["metadata"]) == (8, "Ada@example.com", "Ada", {})
    assert keywright.json("customer", "show", "8") == made
    assert "Nothing to change" in keywright.refused("customer", "update", "8", status=2)
    changed = keywright.json("customer", "update", "8", "--name", "none", "--metadata", '{"vip": true}')
    assert (changed["name"], changed["metadata"]) == (None, {"vip": True})
    assert "Ada@example.com" in keywright("customer", "show", "8")
    own = keywright.json("customer", "create")["id"]
    assert own >= 1_000_000_000
    assert keywright.json("customer", "list") == [changed, keywright.json("customer", "show", str(own))]
    assert [one["id"] for one in keywright.json("customer", "list", "--email", "ADA@EXAMPLE.COM")] == [8]
    assert keywright.json("customer", "list", "--name", "Ada") == []
    assert "Customer 8 deleted." in keywright("customer", "delete", "8")
    assert keywright.refused("customer", "show", "8").startswith("there is no customer 8.")
