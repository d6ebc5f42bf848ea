"""``keywright transfer …``"""

import pytest

from tests.cli.conftest import Keywright

DATABASES = ("sqlite",)


@pytest.mark.smoke
def test_a_license_is_offered_accepted_and_given_back(keywright: Keywright) -> None:
    terms = ("--transferable", "always", "--transfer-after-days", "0", "--claimable")
    keywright("policy", "create", "--name", "Desk", *terms)
    keywright("customer", "create", "--id", "7", "--email", "ada@example.com")
    first = keywright("policy", "generate", "1", "--amount", "1", "--customer-id", "7").strip()
    assert keywright.json("transfer", "list", first) == []
    assert "Transfer 1: offered until " in keywright("transfer", "offer", first, "bob@example.com")
    assert "Cancel that offer first." in keywright.refused("transfer", "offer", first, "eve@example.com")
    assert "Offer canceled." in keywright("transfer", "cancel", first, "1")
    assert keywright.json("transfer", "offer", first, "bob@example.com")["state"] == "offered"
    assert "has a new customer and a new key" in keywright("transfer", "accept", first, "2")
    second = key_of(keywright)
    assert "is back with its previous customer" in keywright("transfer", "undo", second, "2")
    third = key_of(keywright)
    assert len({first, second, third}) == 3
    assert [one["state"] for one in keywright.json("transfer", "list", third)] == ["undone", "ended"]
    assert "undone" in keywright("transfer", "list", third)
    assert "1 licenses: 0 claimed, 0 activated." in keywright("transfer", "claims", "--policy-id", "1")
    assert keywright.json("transfer", "claims", "--order-id", "5")["licenses"] == 0


def key_of(keywright: Keywright) -> str:
    (license,) = keywright.json("license", "list", "--show-keys")
    return str(license["licenseKey"])
