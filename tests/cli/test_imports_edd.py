"""``keywright import edd``: a shop with EDD Software Licensing moves in, and its plugins go on."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from keywright.licensing.licenses.model import Status
from tests.cli.conftest import Keywright
from tests.shop import quote

DATABASES = ("sqlite",)
#: The columns of the tables, as version 3.8 has them.
COLUMNS = {
    "edd_customers": "id user_id email name status purchase_value purchase_count notes date_created",
    "edd_license_activations": "site_id site_name license_id activated is_local",
    "edd_licensemeta": "meta_id edd_license_id meta_key meta_value",
    "edd_licenses": "id license_key status download_id price_id payment_id cart_index date_created "
    "expiration parent customer_id user_id",
    "postmeta": "meta_id post_id meta_key meta_value",
    "posts": "ID post_title post_type post_status",
}
PRICES = (
    'a:2:{i:1;a:3:{s:4:"name";s:6:"Single";s:6:"amount";s:2:"49";s:13:"license_limit";s:1:"1";}'
    'i:2;a:3:{s:4:"name";s:4:"Five";s:6:"amount";s:2:"99";s:13:"license_limit";i:5;}}'
)
NEVER, LATER = "0", "4041993600"


def write_edd(path: Path, **tables: Sequence[Mapping[str, Any]]) -> Path:
    """A dump with these rows, by table."""
    lines = ["-- MySQL dump 10.13"]
    for table, columns in COLUMNS.items():
        names = columns.split()
        lines.append(f"CREATE TABLE `wp_{table}` (\n" + ",\n".join(f"  `{one}` text" for one in names) + ");")
        for row in tables.get(table, ()):
            assert {*row} <= {*names}
            values = ",".join(quote(row.get(one)) for one in names)
            lines.append(f"INSERT INTO `wp_{table}` VALUES ({values});")  # noqa: S608
    path.write_text("\n".join([*lines, "-- Dump completed", ""]), encoding="utf-8")
    return path


def a_key(number: int) -> str:
    return f"{number * 7919:032x}"


def a_license(number: int, **columns: Any) -> dict[str, Any]:
    numbers = {"id": number, "download_id": 4711, "payment_id": 900 + number, "parent": 0}
    usual = {"license_key": a_key(number), "status": "active", "expiration": NEVER}
    return numbers | usual | {"date_created": "2024-05-06 07:08:09"} | columns


def a_site(number: int, license: int, name: str, **columns: Any) -> dict[str, Any]:
    usual = {"site_id": number, "license_id": license, "site_name": name, "activated": 1, "is_local": 0}
    return usual | columns


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write_edd(
        tmp_path / "edd.sql",
        edd_customers=[{"id": 5, "email": "ada@example.com", "name": "Ada"}],
        posts=[
            {"ID": 4711, "post_title": "Paint & Draw", "post_type": "download"},
            {"ID": 4712, "post_title": "A page", "post_type": "page"},
        ],
        postmeta=[
            {"meta_id": 1, "post_id": 4711, "meta_key": "_edd_sl_limit", "meta_value": "3"},
            {"meta_id": 2, "post_id": 4711, "meta_key": "edd_variable_prices", "meta_value": PRICES},
            {"meta_id": 3, "post_id": 4711, "meta_key": "_other", "meta_value": "9"},
        ],
        edd_licensemeta=[{"meta_id": 1, "edd_license_id": 3, "meta_key": "_edd_sl_limit", "meta_value": "0"}],
        edd_licenses=[
            a_license(1, expiration=LATER, customer_id=5),
            a_license(2, price_id="2", parent=1, status="inactive"),
            a_license(3, status="expired", expiration="1500000000"),
            a_license(4, price_id="1", status="disabled"),
            a_license(5, license_key=a_key(1)),
            a_license(6, license_key=""),
        ],
        edd_license_activations=[
            a_site(1, 1, "example.com/"),
            a_site(2, 1, "www.example.com", activated=0),
            a_site(3, 1, "staging.test/", is_local=1),
            a_site(4, 1, "old.com/", activated=0),
            a_site(5, 2, "münchen.de/wp/"),
            a_site(6, 1, ""),
        ],
    )


def test_licenses_sites_products_and_customers_come_and_come_again(keywright: Keywright, dump: Path) -> None:
    new = keywright.json("import", "edd", str(dump))
    assert new["records"]["license"] == {"new": 4, "left_out": 2}
    assert new["records"]["activation"] == {"new": 4, "left_out": 2}
    odd = {"key_duplicate", "key_unusable", "site_unusable", "site_twice"}
    assert {one["code"] for one in new["odd"]} >= odd
    again = keywright.json("import", "edd", str(dump))
    assert again["records"]["license"] == {"same": 4, "left_out": 2}
    assert again["records"]["activation"] == {"same": 4, "left_out": 2}
    assert "no problems found" in keywright("doctor")
    names = "id status productId orderId userId timesActivated timesActivatedMax expiresAt".split()
    licenses = json.loads(keywright("license", "list", "--json"))
    assert sorted(tuple(one[name] for name in names) for one in licenses) == [
        (1, Status.ACTIVE, 4711, 901, 5, 1, 3, "2098-01-31 08:00:00"),
        (2, Status.ACTIVE, 4711, 902, None, 1, 5, None),
        (3, Status.ACTIVE, 4711, 903, None, 0, None, "2017-07-14 02:40:00"),
        (4, Status.DISABLED, 4711, 904, None, 0, 1, None),
    ]
    sites = json.loads(keywright("license", "show", a_key(1), "--json"))["activationData"]
    assert {one["label"]: one["deactivated_at"] is None for one in sites} == {
        "example.com": True,
        "staging.test": True,
        "old.com": False,
    }
    assert "Paint & Draw" in keywright("product", "list")
    assert "ada@example.com" in keywright("customer", "list")


def test_a_comparison_finds_what_differs(keywright: Keywright, dump: Path) -> None:
    keywright("import", "edd", str(dump))
    assert "4 licenses compared: no differences" in keywright("import", "edd", str(dump), "--compare")
    keywright("license", "update", a_key(2), "--status", "disabled")
    done = keywright.run(
        "import", "edd", str(dump), "--compare", "--json", "--data-dir", str(keywright.data_dir)
    )
    [difference] = json.loads(done.out)["differences"]
    assert (done.status, difference["field"], difference["here"]) == (1, "status", "disabled")
    assert a_key(2) not in done.out


def test_a_dry_run_changes_nothing_and_a_wrong_dump_is_named(
    keywright: Keywright, dump: Path, tmp_path: Path
) -> None:
    assert keywright("import", "edd", str(dump), "--dry-run").startswith(
        "This would be imported:\n  licenses: 4 new"
    )
    assert json.loads(keywright("license", "list", "--json")) == []
    empty = write_edd(tmp_path / "empty.sql")
    assert "has no licenses of EDD Software Licensing" in keywright.refused("import", "edd", str(empty))
