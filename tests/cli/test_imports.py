"""``keywright import lmfwc``: a shop moves in."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Keywright
from tests.server import KEYWRIGHT, environment
from tests.shop import DEFUSE, DUMP, SECRET, a_row, an_activation_row, write_dump

DATABASES = ("sqlite",)
SECRETS = ("--defuse", str(DEFUSE), "--secret", str(SECRET))
KEY = "KEY-WITH-MORE-THAN-64-BITS"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return tmp_path / "dump.sql"


def bring(keywright: Keywright, file: Path, *options: str) -> Any:
    return keywright.json("import", "lmfwc", str(file), *SECRETS, *options)


def odd(report: Any) -> dict[str, int]:
    return {one["code"]: one["amount"] for one in report["odd"]}


def test_without_the_converter_it_names_the_line_to_type(keywright: Keywright) -> None:
    hidden = "import sys; sys.modules['keywright_converter'] = None; from keywright.cli import main; main()"
    place = ["--data-dir", str(keywright.data_dir)]
    command = [sys.executable, "-c", hidden, "import", "dlm", str(DUMP), *place]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{sys.executable} -m pip install 'keywright[import]'" in done.stderr.replace("\n", " ")


def test_a_real_dump_is_brought_and_brought_again(keywright: Keywright) -> None:
    new = {"license": {"new": 22}, "activation": {"new": 34}, "generator": {"new": 2}, "API key": {"new": 5}}
    same = {kind: {"same": amounts["new"]} for kind, amounts in new.items()}
    dry, first, again = (bring(keywright, DUMP, *one) for one in (["--dry-run"], [], []))
    assert [one["records"] for one in (dry, first, again)] == [new, new, same]
    assert odd(dry) == odd(first) == odd(again) == {"key_weak": 4, "counter_wrong": 1}
    assert "no problems found" in keywright("doctor")


def test_the_report_shows_no_whole_key(keywright: Keywright, dump: Path) -> None:
    write_dump(dump, licenses=[a_row(1, KEY, times_activated=3)], activations=[an_activation_row(1, 1)])
    said = keywright("import", "lmfwc", str(dump), *SECRETS)
    assert said.splitlines()[3:] == [
        "",
        "Activation counts that differ from the number of active records: 1 (recounted)",
        "  line 19, license 1 (…BITS): 3 there, 1 active records",
    ]


def test_a_dump_may_come_from_another_program(keywright: Keywright) -> None:
    command = [KEYWRIGHT, "import", "lmfwc", "-", *SECRETS, "--data-dir", str(keywright.data_dir)]
    dump = gzip.compress(DUMP.read_bytes())
    done = subprocess.run(command, input=dump, capture_output=True, check=True, env=environment())
    assert b"licenses: 22 new" in done.stdout


def test_without_the_secrets_it_says_where_they_lie_and_takes_their_texts(keywright: Keywright) -> None:
    said = keywright.refused("import", "lmfwc", str(DUMP))
    assert "wp-content/uploads/lmfwc-files/" in said
    assert "--defuse FILE --secret FILE" in said
    texts = ("--defuse", DEFUSE.read_text(), "--secret", SECRET.read_text())
    assert "22 new" in keywright("import", "lmfwc", str(DUMP), *texts)


def test_secrets_of_another_shop_are_refused(keywright: Keywright, tmp_path: Path, dump: Path) -> None:
    given = ("--defuse", str(DEFUSE), "--secret", "x" * 64)
    assert "secret.txt belongs to another shop" in keywright.refused("import", "lmfwc", str(DUMP), *given)
    write_dump(dump, licenses=[a_row(1, KEY, license_key="def50200")])
    assert "defuse.txt belongs to another shop" in keywright.refused("import", "lmfwc", str(dump), *SECRETS)


def test_a_dump_that_is_broken_or_has_no_licenses_brings_nothing(keywright: Keywright, dump: Path) -> None:
    dump.write_bytes(DUMP.read_bytes()[:-2000])
    said = keywright.refused("import", "lmfwc", str(dump), *SECRETS)
    assert "Nothing was imported." in said
    write_dump(dump, users=[{"ID": 1, "user_login": "a"}])
    assert "no licenses of License Manager" in keywright.refused("import", "lmfwc", str(dump), *SECRETS)
    assert json.loads(keywright("license", "list", "--json")) == []


def test_of_several_shops_one_is_named(keywright: Keywright, dump: Path) -> None:
    two = dump.with_name("two.sql")
    write_dump(dump, licenses=[a_row(1, KEY)])
    write_dump(two, prefix="wp_2_", licenses=[a_row(1, f"{KEY}-2")])
    dump.write_text(dump.read_text() + two.read_text())
    assert "--prefix wp_ or --prefix wp_2_" in keywright.refused("import", "lmfwc", str(dump), *SECRETS)
    report = bring(keywright, dump, "--prefix", "wp_2_")
    assert report["records"] == {"license": {"new": 1}}
    assert odd(report) == {"table_missing": 1}, "the activations"
    assert [one["licenseKey"] for one in keywright.json("license", "list")] == [f"{KEY}-2"]


def test_duplicate_keys_become_one_license_with_all_activations(keywright: Keywright, dump: Path) -> None:
    rows = [a_row(number, KEY, times_activated=1) for number in (3, 5)]
    write_dump(dump, licenses=rows, activations=[an_activation_row(1, 3), an_activation_row(2, 5)])
    report = bring(keywright, dump)
    assert report["records"]["license"] == {"new": 1, "left_out": 1}
    assert odd(report) == {"key_duplicate": 1, "counter_wrong": 1}
    (found,) = keywright.json("license", "list")
    assert (found["id"], found["timesActivated"]) == (3, 2)


def test_what_cannot_be_used_is_left_out_and_counted(keywright: Keywright, dump: Path) -> None:
    def an_api_key_row(number: int) -> dict[str, Any]:
        """An API key of the user with this number."""
        row = {"id": number, "user_id": number, "description": f"key {number}", "permissions": "read"}
        secrets = {"consumer_secret": "cs_", "truncated_key": "1234567"}
        return row | secrets | {"consumer_key": f"{number:064x}"}

    place = an_activation_row
    write_dump(
        dump,
        licenses=[a_row(1, KEY, times_activated=1), a_row(2, f"{KEY}-2", license_key="def50200")],
        activations=[place(1, 1), place(2, 1, token="short"), place(3, 2), place(4, 99)],
        generators=[{"id": 1, "name": "empty"}],
        api_keys=[an_api_key_row(1), an_api_key_row(2), {"id": 3}],
        users=[{"ID": 1, "user_login": "ann"}],
    )
    report = bring(keywright, dump)
    assert report["records"] == {
        "license": {"new": 1, "left_out": 1},
        "activation": {"new": 1, "left_out": 3},
        "generator": {"left_out": 1},
        "API key": {"new": 1, "left_out": 2},
    }
    wrong = "key_unreadable token_unusable license_missing generator_unusable api_key_unusable api_key_owner"
    assert odd(report) == dict.fromkeys(wrong.split(), 1)
    assert [one["name"] for one in keywright.json("apikey", "list")] == ["key 1"]


def test_meta_data_and_names_come_along(keywright: Keywright, dump: Path) -> None:
    write_dump(
        dump,
        licenses=[a_row(1, KEY, product_id=7, user_id=8)],
        activations=[an_activation_row(1, 1)],
        licenses_meta=[{"meta_id": 1, "license_id": 1, "meta_key": "seller", "meta_value": "Zoë"}],
        posts=[
            {"ID": 7, "post_title": "Editor", "post_type": "product"},
            {"ID": 9, "post_title": "Not sold", "post_type": "product"},
            {"ID": 8, "post_title": "A page", "post_type": "page"},
        ],
        users=[{"ID": 8, "user_login": "ann", "display_name": "ann_01"}],
        wc_customer_lookup=[{"customer_id": 1, "user_id": 8, "first_name": "Ann", "last_name": "Lee"}],
    )
    records = bring(keywright, dump)["records"]
    assert records["name of a product"] == records["name of a customer"] == {"new": 1}
    found = json.loads(keywright("customer", "export", "8"))
    assert found["customer"]["name"] == "Ann Lee"
    assert found["licenses"][0]["license"]["metadata"] == '{"seller":"Zoë"}'


def test_digital_license_manager_has_the_same_in_other_tables(keywright: Keywright, dump: Path) -> None:
    license = a_row(1, KEY, activations_limit=2)
    activation = an_activation_row(1, 1)
    write_dump(dump, dlm_licenses=[license], dlm_license_activations=[activation], lmfwc_licenses=[])
    report = keywright.json("import", "dlm", str(dump), *SECRETS)
    assert report["records"] == {"license": {"new": 1}, "activation": {"new": 1}}
    assert report["odd"] == []
    (found,) = keywright.json("license", "list")
    assert (found["timesActivated"], found["timesActivatedMax"]) == (1, 2)
    said = keywright.refused("import", "dlm", str(dump))
    assert "wp-content/uploads/dlm-files/" in said
    assert "DLM_PLUGIN_SECRET" in said
    said = keywright.refused("import", "dlm", str(dump), "--defuse", "nope.txt", *SECRETS[2:])
    assert "nope.txt: no such file" in said


def test_addresses_are_stored_as_the_settings_say(
    keywright: Keywright, dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        an_activation_row(1, 1, ip_address="192.0.2.77", created_at="2001-01-01 00:00:00"),
        an_activation_row(2, 1, ip_address="192.0.2.77", created_at="2099-01-01 00:00:00"),
    ]
    write_dump(dump, licenses=[a_row(1, KEY, times_activated=2)], activations=rows)
    monkeypatch.setenv("KEYWRIGHT_IP_ADDRESSES", "short")
    bring(keywright, dump)
    (found,) = keywright.json("license", "list")
    assert [one["ip_address"] for one in found["activationData"]] == ["", "192.0.2.0"]
