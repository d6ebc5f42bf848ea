"""``keywright customer …``"""

import json

import pytest

from tests.cli.conftest import Keywright


@pytest.fixture
def key(keywright: Keywright) -> str:
    """The key of customer 8, which was activated once."""
    key: str = keywright.json("license", "create", "--customer-id", "8")["licenseKey"]
    keywright("license", "activate", key, "--label", "Laptop CANARY")
    return key


def test_a_customer_is_exported_with_whole_keys(keywright: Keywright, key: str) -> None:
    found = json.loads(keywright("customer", "export", "8"))
    assert (found["customer_id"], found["name"]) == (8, None)
    (license,) = found["licenses"]
    assert license["license"]["key"] == key
    (activation,) = license["activations"]
    assert (activation["label"], activation["ip_address"]) == ("Laptop CANARY", "127.0.0.1")
    assert [one["name"] for one in license["events"]] == ["license.created", "license.activated"]
    assert activation["created_at"] == license["events"][1]["occurred_at"]


def test_of_an_unknown_customer_there_is_nothing_to_export(keywright: Keywright) -> None:
    assert json.loads(keywright("customer", "export", "9")) == {
        "customer_id": 9,
        "name": None,
        "namings": [],
        "licenses": [],
    }


def test_a_customer_is_erased_and_told_what_remains(keywright: Keywright, key: str) -> None:
    said = keywright("customer", "erase", "8", "--yes")
    assert said.startswith("What told of customer 8 is erased.")
    assert "backups" in said
    after = keywright("customer", "export", "8")
    assert key in after
    assert "CANARY" not in after
    assert "127.0.0.1" not in after


def test_nothing_is_erased_without_a_yes(keywright: Keywright, key: str) -> None:
    assert keywright.run("customer", "erase", "8", "--data-dir", str(keywright.data_dir)).status == 1
    assert "CANARY" in keywright("license", "show", key)
