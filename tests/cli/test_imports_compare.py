"""``keywright import lmfwc --compare``: a shop and this installation, license by license."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Done, Keywright
from tests.cli.test_imports_web import options
from tests.plugin import Plugin, expected, plugin
from tests.shop import EXPECTED

DATABASES = ("sqlite",)
FULL = "FULL-TWO-OF-TWO"


@pytest.fixture
def shop(keywright: Keywright) -> Iterator[Plugin]:
    """A shop whose licenses are here, too."""
    with plugin(*copy.deepcopy(expected(EXPECTED))) as server:
        keywright(*options(server))
        yield server


def compare(keywright: Keywright, shop: Plugin, *others: str) -> Done:
    return keywright.run(*options(shop), "--compare", *others, "--data-dir", str(keywright.data_dir))


def find(shop: Plugin, key: str) -> dict[str, Any]:
    return next(one for one in shop.licenses if one["licenseKey"] == key)


def test_after_an_import_all_are_the_same_also_where_the_plugin_counted_wrong(
    keywright: Keywright, shop: Plugin
) -> None:
    done = compare(keywright, shop)
    assert (done.status, done.out) == (0, "22 licenses compared: no differences. Nothing was changed.\n")


@pytest.mark.parametrize(
    ("field", "value", "row"),
    [
        ("status", 5, ["status", "disabled", "active"]),
        ("expiresAt", "2040-01-01 00:00:00", ["expires", "at", "2040-01-01", "00:00:00", "none"]),
        ("timesActivatedMax", 7, ["limit", "7", "2"]),
        ("validFor", 30, ["valid", "for", "days", "30", "none"]),
    ],
)
def test_a_field_that_differs_is_shown_side_by_side(
    keywright: Keywright, shop: Plugin, field: str, value: object, row: list[str]
) -> None:
    license = find(shop, FULL)
    license[field] = value
    done = compare(keywright, shop)
    assert done.status == 1
    assert row in [line.split()[2:] for line in done.out.splitlines()]
    assert done.out.endswith("\n22 licenses compared: differences in 1 license. Nothing was changed.\n")
    assert FULL not in done.out


def test_places_and_tokens_are_compared(keywright: Keywright, shop: Plugin) -> None:
    activations = find(shop, FULL)["activationData"]
    kept = activations[0]["token"]
    activations[0]["token"] = "f" * 40
    assert "tokens" in compare(keywright, shop).out
    activations[0] |= {"token": kept, "deactivated_at": "2026-11-21 00:00:00"}
    out = compare(keywright, shop).out
    assert ["activations", "1", "2"] in [line.split()[2:] for line in out.splitlines()]
    assert "tokens" not in out


def test_licenses_of_one_side_only_are_shown_and_nothing_is_changed(
    keywright: Keywright, shop: Plugin
) -> None:
    shop.licenses.append(shop.licenses[0] | {"id": 900, "licenseKey": "ONLY-THERE", "activationData": []})
    keywright("license", "create", "--key", "ONLY-HERE")
    before = keywright.json("license", "list")
    done = compare(keywright, shop, "--json")
    answer = json.loads(done.out)
    assert (done.status, answer["compared"], answer["different"]) == (1, 24, 2)
    assert answer["differences"] == [
        {"license": "900 (…RE)", "field": "license", "there": "exists", "here": "none"},
        {"license": "23 (…RE)", "field": "license", "there": "none", "here": "exists"},
    ]
    assert keywright.json("license", "list") == before
    assert "--compare needs a shop" in keywright.refused("import", "lmfwc", "a.sql", "--compare", status=2)
