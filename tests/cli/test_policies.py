"""``keywright policy …``, and ``keywright generator …``, its old name: what each command does and refuses."""

import json
import re
from pathlib import Path

import pytest

from keywright.cli import output
from keywright.http.v2 import wire
from keywright.licensing.terms.model import Terms
from keywright.provisioning.policies.model import Policy
from tests.cli.conftest import Keywright
from tests.makers import NOW
from tests.tables import each_row

DATABASES = ("sqlite",)


def test_a_policy_left_alone_makes_strong_keys(keywright: Keywright) -> None:
    made = keywright.json("policy", "create", "--name", "Standard")
    assert (made["key"]["chunks"], made["key"]["chunk_length"], made["key"]["separator"]) == (6, 5, "-")
    assert len(set(made["key"]["charset"])) == 32
    keys = keywright("policy", "generate", "1", "--amount", "20").splitlines()
    assert len(set(keys)) == 20
    assert all(re.fullmatch(r"([A-HJ-NP-Z2-9]{5}-){5}[A-HJ-NP-Z2-9]{5}", key) for key in keys)


def test_a_policy_has_the_key_format_that_was_given(keywright: Keywright) -> None:
    made = keywright.json(
        *("policy", "create", "--name", "Trial", "--charset", "ABCDEF0123456789"),
        *("--chunks", "4", "--chunk-length", "8", "--separator", "", "--prefix", "T-", "--suffix", "-X"),
        *("--max", "2", "--expires-in", "30"),
    )
    (key,) = keywright("policy", "generate", "1", "--amount", "1").splitlines()
    assert re.fullmatch(r"T-[0-9A-F]{32}-X", key)
    license = keywright.json("license", "show", key)
    assert (license["timesActivatedMax"], license["validFor"], license["source"]) == (2, 30, 1)
    assert license["expiresAt"] is None
    assert made["key"]["separator"] is None


def test_generator_writes_policies_as_v2_does(keywright: Keywright) -> None:
    policy = Policy(
        1, "G", "AB", 3, 4, "-", "p", "s", NOW, 7, NOW, 8, None, Terms(max_activations=5, valid_for_days=6)
    )
    expected = json.loads(wire.generator(policy))["data"]
    assert list(output.generator_json(policy).items()) == list(expected.items())
    made = keywright.json("generator", "create", "--name", "Standard", "--max", "3", "--expires-in", "9")
    assert list(made) == list(expected)
    assert keywright.json("generator", "list") == [made]
    assert keywright.json("policy", "show", "1")["terms"]["starts"] == "first_activation"


def test_policies_are_listed_with_their_keys_and_terms(keywright: Keywright) -> None:
    assert keywright.json("policy", "list") == []
    said = keywright("policy", "create", "--name", "Standard", "--prefix", "STD-", "--chunks", "5")
    assert "keywright policy generate 1 --amount 10" in said
    listed = keywright("policy", "list")
    assert "STD-XXXXX-XXXXX-XXXXX-XXXXX-XXXXX" in listed
    assert "any number of devices, no expiry" in listed
    assert "keywright generator generate 2" in keywright("generator", "create", "--name", "Old")


EVERY_TERM = {
    "max_activations": 3,
    "valid_for_days": 365,
    "starts": "first_activation",
    "grace_days": 14,
    "after_expiry": "older_versions",
    "device": "required",
    "max_leases": 5,
    "lease_seconds": 300,
    "offline_days": 30,
    "next_check_seconds": 3600,
    "portal_removals": {"count": 2, "per_days": 30},
    "new_devices": {"count": 4, "per_days": 7},
    "entitlements": ["pro", "export"],
    "meters": {
        "exports": {"limit": 100, "per": "month", "overage": "refuse"},
        "minutes": {"limit": 9, "per": "license", "overage": "allow"},
    },
    "trial": True,
    "claimable": True,
    "transferable": "once",
    "transfer_after_days": 7,
    "when_full": "replace_unseen",
    "unseen_days": 90,
    "devices_visible": True,
    "channels": ["stable", "beta"],
    "uncounted_hosts": ["staging.*"],
    "max_uncounted": 3,
}


def test_every_term_has_an_option(keywright: Keywright) -> None:
    keywright.json("product", "create", "--id", "7", "--name", "Paint")
    made = keywright.json(
        *("policy", "create", "--name", "All", "--max-activations", "3", "--valid-for-days", "365"),
        *("--starts", "first_activation", "--grace-days", "14", "--after-expiry", "older_versions"),
        *("--device", "required", "--max-leases", "5", "--lease-seconds", "300", "--offline-days", "30"),
        *("--next-check-seconds", "3600", "--portal-removals", "2/30", "--new-devices", "4/7"),
        *("--entitlement", "pro", "--entitlement", "export", "--trial", "--product-id", "7"),
        *("--claimable", "--transferable", "once", "--transfer-after-days", "7"),
        *("--meter", "exports=100/month", "--meter", "minutes=9/license:allow"),
        *("--when-full", "replace_unseen", "--unseen-days", "90", "--devices-visible"),
        *("--channel", "stable", "--channel", "beta"),
        *("--uncounted-host", "staging.*", "--max-uncounted", "3"),
    )
    assert (made["id"], made["name"], made["product_id"], made["archived_at"]) == (1, "All", 7, None)
    assert made["terms"] == EVERY_TERM
    assert made["created_at"].endswith("Z")
    assert keywright.json("policy", "show", "1") == made
    shown = keywright("policy", "show", "1")
    for words in (
        "3 devices",
        "365 days from the first activation",
        "5 at the same time, for 5 minutes each",
    ):
        assert words in shown


def test_terms_come_from_a_file_with_options_on_top(keywright: Keywright, tmp_path: Path) -> None:
    file = tmp_path / "terms.json"
    file.write_text(json.dumps(EVERY_TERM))
    named = ("policy", "create", "--name", "G", "--terms", str(file))
    made = keywright.json(*named, "--grace-days", "1", "--max", "none")
    assert made["terms"] == EVERY_TERM | {"grace_days": 1, "max_activations": None}
    both = ("--expires-in", "30", "--starts", "creation")
    assert "either --expires-in" in keywright.refused(*named, *both, status=2)
    file.write_text('{"grace_dayz": 1}')
    said = keywright.refused(*named, status=2)
    assert said.startswith("--terms: grace_dayz is unknown; the nearest known name is grace_days")
    file.write_text("[]")
    assert "is not a JSON object" in keywright.refused(*named, status=2)


def test_none_is_given_alone_and_each_meter_once(keywright: Keywright) -> None:
    named = ("policy", "create", "--name", "G")
    for option, value in (
        *(("--entitlement", "pro"), ("--channel", "beta")),
        *(("--uncounted-host", "localhost"), ("--meter", "a=1/day")),
    ):
        refused = keywright.refused(*named, option, value, option, "none", status=2)
        assert f"{option}: give none alone" in refused
    twice = ("--meter", "a=1/day", "--meter", "a=5/day")
    assert "--meter: give each meter once" in keywright.refused(*named, *twice, status=2)


def test_an_update_changes_what_it_names(keywright: Keywright) -> None:
    create = ("policy", "create", "--name", "G", "--max", "3", "--grace-days", "9", "--meter", "a=1/day")
    made = keywright.json(*create)
    refused = keywright.refused("policy", "update", "1", "--product-id", "7")
    assert "there is no product 7" in refused
    keywright.json("product", "create", "--id", "7", "--name", "Paint")
    assert "Nothing to change" in keywright.refused("policy", "update", "1", status=2)
    changed = keywright.json(
        *("policy", "update", "1", "--name", "H", "--max", "none", "--meter", "b=2/day", "--product-id", "7")
    )
    assert (changed["name"], changed["product_id"], changed["terms"]["grace_days"]) == ("H", 7, 9)
    assert changed["terms"]["max_activations"] is None
    assert list(changed["terms"]["meters"]) == ["a", "b"]
    changed = keywright.json("policy", "update", "1", "--meter", "a=none", "--grace-days", "none")
    assert (list(changed["terms"]["meters"]), changed["terms"]["grace_days"]) == (["b"], 0)
    assert changed["key"] == made["key"]
    assert keywright.json("policy", "update", "1", "--meter", "none")["terms"]["meters"] == {}


@each_row(
    ("option", "value", "reason"),
    [
        ("--grace-days", "99999", "must be an integer from 0 to 36,500"),
        ("--entitlement", "Not A Code", "0 must have 1 to 64 of"),
        ("--meter", "exports=1/week", "exports per must be day or month or year or license_month or"),
        ("--new-devices", "0/30", "count must be an integer from 1"),
    ],
)
def test_a_wrong_term_is_told_by_its_option(
    option: str, value: str, reason: str, keywright: Keywright
) -> None:
    said = keywright.refused("policy", "create", "--name", "G", option, value, status=2)
    assert said.startswith(f"{option} {reason}")


@each_row(
    "options",
    [
        ("--chunks", "0"),
        ("--chunk-length", "x"),
        ("--charset", ""),
        ("--prefix", " X"),
        ("--suffix", "X "),
        ("--separator", "x" * 256),
        ("--max", "x"),
        ("--expires-in", "-1"),
        ("--starts", "now"),
        ("--meter", "exports"),
        ("--new-devices", "many"),
        ("--name", ""),
    ],
)
def test_what_a_policy_cannot_be_is_wrong_usage(options: tuple[str, str], keywright: Keywright) -> None:
    said = keywright.refused("policy", "create", "--name", "G", *options, status=2)
    assert f"'{options[0]}'" in said


@pytest.mark.smoke
def test_generated_licenses_get_what_the_options_say(keywright: Keywright) -> None:
    keywright("policy", "create", "--name", "Standard")
    made = keywright.json(
        *("policy", "generate", "1", "--amount", "2", "--status", "sold"),
        *("--product-id", "7", "--order-id", "8", "--customer-id", "9"),
    )
    assert [one["id"] for one in made] == [1, 2]
    for one in made:
        assert (one["status"], one["productId"], one["orderId"], one["userId"]) == (1, 7, 8, 9)
        assert "activationData" not in one
    keywright("policy", "generate", "1", "--amount", "1")
    assert keywright.json("license", "list")[-1]["status"] == 3
    for amount in ("0", "10001", "x"):
        assert "'--amount'" in keywright.refused("policy", "generate", "1", "--amount", amount, status=2)


def test_a_policy_with_few_keys_is_made_by_force_and_makes_nothing_when_they_run_out(
    keywright: Keywright,
) -> None:
    few = ("policy", "create", "--name", "Few", "--charset", "AB", "--chunks", "1", "--chunk-length", "2")
    assert "--force" in keywright.refused(*few)
    keywright(*few, "--force")
    assert "cannot make that many" in keywright.refused("policy", "generate", "1", "--amount", "5")
    assert keywright.json("license", "list") == []


def test_an_archived_policy_makes_no_more_licenses_and_a_deleted_one_leaves_them(
    keywright: Keywright,
) -> None:
    weak = ("--charset", "AB", "--chunks", "1", "--chunk-length", "9", "--force")
    keywright("policy", "create", "--name", "Old", *weak)
    assert "Policy 1 is archived." in keywright("policy", "archive", "1")
    assert keywright.json("policy", "show", "1")["archived_at"] is not None
    assert "archived" in keywright.refused("policy", "generate", "1", "--amount", "1")
    assert keywright.json("policy", "unarchive", "1")["archived_at"] is None
    assert keywright("policy", "generate", "1", "--amount", "1")
    assert "Policy 1 deleted." in keywright("policy", "delete", "1")
    assert keywright.json("policy", "list") == []
    assert len(keywright.json("license", "list")) == 1
