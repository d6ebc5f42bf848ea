"""``keywright export``: tables of everything, which an import brings back as it was."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Keywright

DATABASES = ("sqlite",)
METADATA = '{"note":"=1+1; \\u2028 a,\\"b\\"","deep":{"x":[1,null]}}'

DEVICE = {"fingerprint": "device-1", "platform": "Linux", "app_version": "3.1", "meta_data": {"n": [1]}}
OF_V3 = {
    "license_key": "OF-V3",
    "times_activated_max": 2,
    "terms": {"grace_days": 3, "entitlements": ["export"], "meters": {"pages": {"limit": 9, "per": "day"}}},
    "order_details": {"source": "shop", "id": "A-1", "line": "2", "index": 1},
    "activations": [{"token": "1" * 40, **DEVICE}],
}


@pytest.fixture
def seller(keywright: Keywright) -> Keywright:
    """An installation with odd licenses, activations, events and customers."""
    for number, key in enumerate(["=1+1", "'=1+1", 'a,"b;-c', "a;'=1", "Zoë 🔑", "OLD"]):
        keywright("license", "create", "--key", key, "--max", "3", f"--customer-id={number + 7}")
    keywright("license", "create", "--key", "DAYS", "--valid-for", "30", "--status", "sold")
    keywright("license", "create", "--key", "END", "--expires-at", "2031-02-03", "--order-id", "0")
    for key in ("DAYS", "DAYS", "END"):
        keywright("license", "activate", key, "--label", "=desk, 1")
    keywright("license", "deactivate", "END", "--all")
    keywright("license", "delete", "OLD", "--yes")
    sheet = keywright.data_dir.with_name("metadata.csv")
    with sheet.open("w", newline="") as file:
        csv.writer(file).writerows([["key", "metadata", "updated_at"], ["END", METADATA, "2099-01-01"]])
    keywright("import", "csv", str(sheet))
    lines = keywright.data_dir.with_name("of-v3.jsonl")
    lines.write_text(json.dumps(OF_V3))
    keywright("import", "jsonl", str(lines))
    return keywright


@pytest.fixture
def buyer(keywright: Keywright, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Keywright:
    """An empty installation."""
    other = Keywright(tmp_path / "other", capsys)
    other("init")
    return other


def stored(keywright: Keywright, *, with_activations: bool) -> list[object]:
    """Everything about all licenses."""
    options = ["--with-activations"] * with_activations
    lines = keywright("export", "licenses", "--format", "jsonl", *options).strip().split("\n")
    uncounted = {} if with_activations else {"times_activated": 0}
    return [json.loads(line) | uncounted for line in lines]


@pytest.mark.parametrize(("kind", "with_activations"), [("csv", False), ("jsonl", False), ("jsonl", True)])
def test_what_is_exported_is_brought_back_as_it_was(
    seller: Keywright, buyer: Keywright, tmp_path: Path, kind: str, with_activations: bool
) -> None:
    file = tmp_path / f"licenses.{kind}"
    options = ["--with-activations"] * with_activations
    assert seller("export", "licenses", "--format", kind, *options, "-o", str(file)) == ""
    assert file.stat().st_mode & 0o777 == 0o600
    assert buyer.json("import", kind, str(file))["records"]["license"] == {"new": 8}
    here, there = (stored(one, with_activations=with_activations) for one in (seller, buyer))
    assert here == there
    assert "A-1" in str(here)
    assert ("device-1" in str(here)) is with_activations
    assert "no problems found" in buyer("doctor")
    assert buyer.json("import", kind, str(file))["records"]["license"] == {"same": 8}
    # The comparison sees a difference.
    buyer("license", "update", "END", "--order-id", "none")
    assert stored(buyer, with_activations=with_activations) != here


def test_activations_events_and_customers_are_tables_too(seller: Keywright) -> None:
    refused = seller.refused("export", "licenses", "--with-activations", status=2)
    assert "--with-activations is for licenses with --format jsonl" in refused
    activations = [*csv.DictReader(seller("export", "activations").removeprefix("\ufeff").splitlines())]
    assert [one["label"] for one in activations] == ["'=desk, 1"] * 3 + [""]
    assert [bool(one["deactivated_at"]) for one in activations] == [False, False, True, False]
    assert activations[-1]["fingerprint"] == "device-1"
    events = list(map(json.loads, seller("export", "events", "--format", "jsonl").splitlines()))
    assert [one["id"] for one in events] == sorted(one["id"] for one in events)
    assert events[-1]["name"] == "license.imported"
    assert events[-1]["details"]["from"] == "jsonl"
    customers = list(map(json.loads, seller("export", "customers", "--format", "jsonl").splitlines()))
    assert customers == [
        {"customer_id": number, "name": None, "licenses": 1, "external_id": None} for number in range(7, 12)
    ]


def test_an_export_that_fails_leaves_the_old_file(seller: Keywright, tmp_path: Path) -> None:
    file = tmp_path / "licenses.csv"
    file.write_text("old")
    said = seller.refused("export", "licenses", "-o", str(tmp_path / "missing" / "file"))
    assert f"{tmp_path / 'missing'}: there is no such folder" in said
    assert file.read_text() == "old"
    seller("export", "licenses", "-o", str(file))
    assert file.read_text().startswith("\ufeffid,license_key,status,")
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_file()) == [
        *("licenses.csv", "metadata.csv", "of-v3.jsonl")
    ]
