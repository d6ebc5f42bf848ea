"""``keywright license …``: what each command does, prints and refuses."""

import io
import json
import re
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from keywright.config.installation import open_installation
from keywright.config.sources import read_settings
from keywright.core.crypto import mask
from keywright.http.v2 import wire
from keywright.licensing.activations.model import LicenseRecord, Validate
from keywright.registry import open_executor
from tests.cli.conftest import Keywright
from tests.tables import each_row

DATABASES = ("sqlite",)

KEY = "ABCDE-FGHIJ-12345"
TOKEN = re.compile(r"\b[0-9a-f]{40}\b")


def get_record(keywright: Keywright, key: str = KEY) -> LicenseRecord:
    """The license as the operations see it."""
    with closing(open_installation(read_settings({"data_dir": keywright.data_dir}))) as storage:
        record: LicenseRecord = open_executor(storage).query([Validate(key=key)])[0]
    return record


def on_the_wire(answer: bytes) -> list[tuple[str, object]]:
    """The fields that the interface answers with, in their order."""
    data: dict[str, object] = json.loads(answer)["data"]
    return list(data.items())


# --- create -----------------------------------------------------------------------------------------


def test_create_says_what_it_made(keywright: Keywright) -> None:
    said = keywright("license", "create", "--key", f" {KEY} ", "--max", "3", "--product-id", "7")
    assert "License 1 created." in said
    assert f"license key  {KEY}\n" in said
    assert "activations  0 of 3" in said
    assert "status       active" in said
    assert "product      7" in said
    assert "order" not in said


@pytest.mark.smoke
def test_create_sets_every_field_and_answers_json_like_the_interface(keywright: Keywright) -> None:
    made = keywright.json(
        *("license", "create", "--key", KEY, "--max", "3", "--status", "Sold"),
        *("--expires-at", "2030-12-31T18:00:00+01:00"),
        *("--product-id", "7", "--order-id", "8", "--customer-id", "9"),
    )
    expected = {
        "licenseKey": KEY,
        "timesActivatedMax": 3,
        "status": 1,
        "expiresAt": "2030-12-31 17:00:00",
        "validFor": None,
        "productId": 7,
        "orderId": 8,
        "userId": 9,
        "source": 3,
        "createdBy": 0,
    }
    assert expected.items() <= made.items()
    assert list(made.items()) == on_the_wire(wire.license_alone(get_record(keywright)))
    assert keywright.json("license", "create", "--valid-for", "365")["validFor"] == 365


@each_row(
    ("option", "value", "reason"),
    [
        ("--max", "-1", "must be an integer from 0 to 2147483647"),
        ("--valid-for", "1.5", "must be an integer from 0 to 2147483647"),
        ("--expires-at", "tomorrow", "must be YYYY-MM-DD HH:MM:SS, YYYY-MM-DD, or ISO 8601"),
        ("--status", "gone", "must be one of sold, delivered, active, inactive, disabled"),
        ("--product-id", "x", "must be an integer from 0 to 9223372036854775807"),
        ("--key", "", "a license key has 1 to 255 characters, and no control characters"),
    ],
)
def test_what_an_option_cannot_be_is_wrong_usage(
    option: str, value: str, reason: str, keywright: Keywright
) -> None:
    said = keywright.refused("license", "create", option, value, status=2)
    assert said == f"Invalid value for '{option}': {reason}. See `keywright license create --help`."


def test_a_license_is_made_as_a_policy_says_but_for_what_the_options_name(keywright: Keywright) -> None:
    keywright("policy", "create", "--name", "Pro", "--max", "2", "--grace-days", "3", "--prefix", "PRO-")
    whole = keywright.json("license", "create", "--policy", "1", "--customer-id", "12")
    assert whole["licenseKey"].startswith("PRO-")
    assert (whole["timesActivatedMax"], whole["userId"]) == (2, 12)
    keywright("policy", "create", "--name", "Max", "--max", "9")
    other = keywright.json("license", "create", "--policy", "1", "--max", "5", "--valid-for", "30")
    assert (other["timesActivatedMax"], other["validFor"]) == (5, 30)
    assert keywright.json("license", "update", whole["licenseKey"], "--policy", "2")["timesActivatedMax"] == 9
    assert keywright.json("license", "update", other["licenseKey"], "--policy", "2")["timesActivatedMax"] == 5
    moved = ("license", "update", other["licenseKey"], "--policy", "2", "--overwrite")
    assert keywright.json(*moved)["timesActivatedMax"] == 9
    refused = keywright.refused("license", "create", "--policy", "9")
    assert "9" in refused


# --- show and list ----------------------------------------------------------------------------------


@pytest.mark.smoke
def test_show_tells_the_license_its_activations_and_its_events(keywright: Keywright) -> None:
    keywright("license", "create", "--key", KEY, "--max", "2", "--expires-at", "2020-01-01")
    keywright("license", "update", KEY, "--expires-at", "none")
    token = keywright.json("license", "activate", KEY, "--label", "office")["activationData"]["token"]
    keywright("license", "deactivate", KEY, "--token", token)
    keywright("license", "update", KEY, "--expires-at", "2020-01-01")
    said = keywright("license", "show", KEY)
    assert KEY in said
    assert token in said
    assert "office" in said
    assert "given up at 20" in said
    assert "2020-01-01 00:00:00 (expired)" in said
    for event in ("created", "activated", "deactivated", "updated"):
        assert f"license.{event}" in said
    assert "cli:" in said


def test_show_tells_devices_by_their_names_or_fingerprints(keywright: Keywright, tmp_path: Path) -> None:
    devices = [
        {"token": "1" * 40, "fingerprint": "0123456789abcdef-and-more"},
        {"token": "2" * 40, "fingerprint": "device-2", "label": "Laptop"},
    ]
    file = tmp_path / "licenses.jsonl"
    file.write_text(json.dumps({"license_key": KEY, "activations": devices}))
    keywright("import", "jsonl", str(file))
    said = keywright("license", "show", KEY)
    assert "0123456789abcdef…" in said
    assert "Laptop" in said


def test_show_answers_json_like_validate_and_adds_the_latest_ten_events(keywright: Keywright) -> None:
    keywright("license", "create", "--key", KEY, "--max", "2")
    for number in range(9):
        keywright("license", "update", KEY, "--order-id", str(number))
    keywright("license", "activate", KEY)
    shown = keywright.json("license", "show", KEY)
    events = shown.pop("events")
    assert list(shown.items()) == on_the_wire(wire.validation(get_record(keywright)))
    assert [one["name"] for one in events] == ["license.activated", *["license.updated"] * 9]
    assert list(events[0]) == ["occurred_at", "name", "activation_id", "actor", "ip_address", "details"]


def test_nothing_that_a_program_sent_commands_the_terminal(keywright: Keywright) -> None:
    keywright("license", "create", "--key", "[red]KEY[/red]")
    keywright("license", "activate", "[red]KEY[/red]", "--label", "\x1b[2J[bold]x")
    said = keywright("license", "show", "[red]KEY[/red]")
    assert "\x1b" not in said
    assert "\ufffd[2J[bold]x" in said
    assert "[red]KEY[/red]" in said


def test_an_unknown_license_is_refused_everywhere(keywright: Keywright) -> None:
    for command in (
        ("show",),
        ("update", "--max", "1"),
        ("delete", "--yes"),
        ("delete",),
        ("activate",),
        ("activate", "--token", "x"),
        ("deactivate", "--all"),
        ("deactivate", "--token", "x"),
    ):
        said = keywright.refused("license", command[0], "NO-SUCH-KEY", *command[1:])
        assert said.startswith("there is no license with the key NO-SUCH-KEY. "), command


def test_the_table_shows_whole_keys_only_when_asked_and_json_is_like_the_interface(
    keywright: Keywright,
) -> None:
    keywright("license", "create", "--key", KEY, "--max", "3")
    keywright("license", "activate", KEY)
    table = keywright("license", "list")
    assert KEY not in table
    assert mask(KEY) in table
    assert "1 of 3" in table
    assert KEY in keywright("license", "list", "--show-keys")
    (listed,) = keywright.json("license", "list")
    assert list(listed.items()) == on_the_wire(wire.license_with_activations(get_record(keywright)))


def test_list_filters(keywright: Keywright) -> None:
    assert keywright.json("license", "list") == []
    assert "0 of 0 licenses" in keywright("license", "list")
    keywright("license", "create", "--product-id", "1", "--order-id", "2", "--customer-id", "3")
    keywright("license", "create", "--status", "disabled", "--product-id", "1")
    for options, ids in (
        (("--status", "disabled"), [2]),
        (("--product-id", "1"), [1, 2]),
        (("--order-id", "2"), [1]),
        (("--customer-id", "3"), [1]),
        (("--product-id", "1", "--status", "3"), [1]),
        (("--product-id", "5"), []),
    ):
        assert [one["id"] for one in keywright.json("license", "list", *options)] == ids


def test_a_table_is_limited_and_says_so_but_json_is_not(keywright: Keywright) -> None:
    keywright("generator", "create", "--name", "Many")
    keywright("generator", "generate", "1", "--amount", "1203")
    assert "50 of 1,203 licenses (--limit shows more)" in keywright("license", "list")
    assert "3 of 1,203 licenses" in keywright("license", "list", "--limit", "3")
    listed = keywright("license", "list", "--json")
    assert [one["id"] for one in json.loads(listed)] == list(range(1, 1204))
    assert listed.count("\n") == 1 + 1203 + 1, "a license a line"
    assert len(keywright.json("license", "list", "--limit", "501")) == 501


# --- update -----------------------------------------------------------------------------------------


def test_update_changes_what_it_names_and_nothing_else(keywright: Keywright) -> None:
    before = keywright.json("license", "create", "--key", KEY, "--max", "3", "--product-id", "7")
    after = keywright.json("license", "update", KEY, "--max", "5", "--status", "inactive")
    changed = {name for name in before if before[name] != after[name]}
    assert {"timesActivatedMax", "status"} <= changed <= {"timesActivatedMax", "status", "updatedAt"}
    assert list(after.items()) == on_the_wire(wire.license_alone(get_record(keywright)))
    assert "Nothing to change" in keywright.refused("license", "update", KEY, status=2)


def test_none_empties_a_field(keywright: Keywright) -> None:
    options = ("--max", "--expires-at", "--product-id", "--order-id", "--customer-id")
    given = zip(options, ("3", "2030-01-01", "7", "7", "7"), strict=True)
    made = keywright.json("license", "create", "--key", KEY, *chain.from_iterable(given))
    emptied = keywright.json("license", "update", KEY, *chain.from_iterable((one, "none") for one in options))
    names = ("timesActivatedMax", "expiresAt", "productId", "orderId", "userId")
    assert None not in [made[name] for name in names]
    assert [emptied[name] for name in names] == [None] * 5


def test_a_license_has_one_end_and_setting_it_replaces_the_days(keywright: Keywright) -> None:
    both = ("--expires-at", "2030-01-01", "--valid-for", "30")
    said = keywright.refused("license", "create", *both, status=2)
    assert "Give either --expires-at or --valid-for" in said
    keywright("license", "create", "--key", KEY, "--valid-for", "30")
    changed = keywright.json("license", "update", KEY, "--expires-at", "2030-01-01")
    assert (changed["expiresAt"], changed["validFor"]) == ("2030-01-01 00:00:00", None)
    changed = keywright.json("license", "update", KEY, "--expires-at", "none", "--valid-for", "9")
    assert (changed["expiresAt"], changed["validFor"]) == (None, 9)
    assert keywright.json("license", "update", KEY, "--valid-for", "none")["validFor"] is None
    assert "Give either" in keywright.refused("license", "update", KEY, *both, status=2)


def test_a_license_can_get_another_key_and_keeps_its_activations(keywright: Keywright) -> None:
    keywright("license", "create", "--key", KEY)
    keywright("license", "activate", KEY)
    keywright("license", "create", "--key", "TAKEN")
    assert "License 1 updated." in keywright("license", "update", KEY, "--key", "NEW-KEY")
    assert keywright.json("license", "show", "NEW-KEY")["id"] == 1
    assert "already has this key" in keywright.refused("license", "update", "NEW-KEY", "--key", "TAKEN")
    rotated = keywright.json("license", "rotate-key", "NEW-KEY", "--yes")
    assert rotated["licenseKey"] != "NEW-KEY"
    assert rotated["timesActivated"] == 1
    keywright.refused("license", "activate", "NEW-KEY")


def test_what_other_systems_call_things_is_set_found_and_emptied(keywright: Keywright) -> None:
    for noun in ("license", "customer", "product"):
        named = ("--name", "Ada") if noun != "license" else ("--key", KEY)
        number = keywright.json(noun, "create", *named, "--external-id", " crm-1 ")["id"]
        called = KEY if noun == "license" else str(number)
        assert "crm-1" in keywright(noun, "show", called)
        for text, found in (("crm-1", [number]), ("crm-2", [])):
            listed = keywright.json(noun, "list", "--external-id", text)
            assert [one["id"] for one in listed] == found, noun
        refused = keywright.refused(noun, "update", called, "--external-id", "x" * 256, status=2)
        assert "'--external-id'" in refused
        keywright(noun, "update", called, "--external-id", "none")
        assert keywright.json(noun, "list", "--external-id", "crm-1") == []


# --- delete -----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_delete_asks_and_says_what_goes(keywright: Keywright, monkeypatch: pytest.MonkeyPatch) -> None:
    keywright("license", "create", "--key", KEY)
    keywright("license", "activate", KEY)
    for answer in ("n\n", ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        done = keywright.run("license", "delete", KEY, "--data-dir", str(keywright.data_dir))
        assert done.status == 1
        assert f"Delete license 1 ({mask(KEY)}) and its 1 activations, 1 of them active?" in done.err
        assert "nothing was done" in done.err
        assert KEY not in done.err
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    done = keywright.run("license", "delete", KEY, "--data-dir", str(keywright.data_dir))
    assert (done.status, done.out.strip()) == (0, "License and activations deleted.")
    keywright("license", "create", "--key", KEY)
    keywright("license", "delete", KEY, "--yes")
    assert keywright.json("license", "list") == []


# --- activate and deactivate ------------------------------------------------------------------------


@pytest.mark.smoke
def test_places_are_taken_given_up_and_taken_back(keywright: Keywright) -> None:
    keywright("license", "create", "--key", KEY, "--max", "1")
    said = keywright("license", "activate", KEY, "--label", "office")
    assert "Activated" in said
    assert "1 of 1" in said
    assert "office" in said
    (token,) = TOKEN.findall(said)
    assert "is taken" in keywright.refused("license", "activate", KEY)
    assert "Given up: 1. Activations now: 0 of 1." in keywright(
        "license", "deactivate", KEY, "--token", token
    )
    assert "Reactivated" in keywright("license", "activate", KEY, "--token", token)
    assert "is already active" in keywright.refused("license", "activate", KEY, "--token", token)
    assert "Given up: every place." in keywright("license", "deactivate", KEY, "--all")
    assert "no active place with the token" in keywright.refused(
        "license", "deactivate", KEY, "--token", token
    )
    assert "has no active place" in keywright.refused("license", "deactivate", KEY, "--all")
    assert "no activation with the token x" in keywright.refused("license", "activate", KEY, "--token", "x")


def test_activating_answers_json_like_the_interface(keywright: Keywright) -> None:
    keywright("license", "create", "--key", KEY)
    activated = keywright.json("license", "activate", KEY, "--label", "office")
    record = get_record(keywright)
    assert list(activated.items()) == on_the_wire(wire.one_activation(record))
    token = activated["activationData"]["token"]
    given_up = keywright.json("license", "deactivate", KEY, "--token", token)
    assert list(given_up.items()) == on_the_wire(wire.one_activation(get_record(keywright)))
    keywright("license", "activate", KEY, "--token", token)
    given_up = keywright.json("license", "deactivate", KEY, "--all")
    assert list(given_up.items()) == on_the_wire(wire.many_activations(get_record(keywright)))


def test_what_cannot_be_activated_says_why_and_what_to_do(keywright: Keywright) -> None:
    for option, value, said in (
        ("--status", "inactive", "is inactive. Change that with"),
        ("--status", "disabled", "is disabled. Change that with"),
        ("--expires-at", "2020-01-01", "expired at 2020-01-01 00:00:00 (UTC)"),
    ):
        key = keywright.json("license", "create", option, value)["licenseKey"]
        assert said in keywright.refused("license", "activate", key)


def test_activate_and_deactivate_want_options_that_go_together(keywright: Keywright) -> None:
    keywright("license", "create", "--key", KEY)
    keywright.refused("license", "activate", KEY, "--token", "x", "--label", "y", status=2)
    said = keywright.refused("license", "deactivate", KEY, status=2)
    assert said.startswith("Give either --token or --all. ")
    keywright.refused("license", "deactivate", KEY, "--token", "x", "--all", status=2)
    keywright.refused("license", "activate", KEY, "--label", "x" * 256, status=2)


def test_a_list_is_filtered_by_policy_and_expiry_and_sorted(keywright: Keywright) -> None:
    keywright("policy", "create", "--name", "Yearly", "--valid-for-days", "365")
    made = keywright("policy", "generate", "1", "--amount", "2").split()
    keywright("license", "create", "--key", "OLD", "--expires-at", "2020-01-01")
    keywright("license", "create", "--key", "OLDER", "--expires-at", "2019-01-01")

    def listed(*options: str) -> list[str]:
        return [one["licenseKey"] for one in keywright.json("license", "list", *options)]

    assert listed("--policy-id", "1") == made
    assert listed("--expired") == ["OLD", "OLDER"]
    assert listed("--expired", "--sort", "expires_at") == ["OLDER", "OLD"]
    assert listed("--sort", "-id", "--limit", "1") == ["OLDER"]
    assert listed("--sort", "-created_at", "--limit", "9") == ["OLDER", "OLD", *reversed(made)]
    said = keywright("license", "list", "--expired", "--limit", "1", "--show-keys")
    assert "OLD " in said
    assert "The first 1; --limit shows more." in said
    assert "'--sort'" in keywright.refused("license", "list", "--sort", "age", status=2)


def test_a_license_is_found_by_what_a_customer_tells(keywright: Keywright) -> None:
    keywright("customer", "create", "--id", "31", "--email", "Ada@example.com", "--name", "ADA")
    keywright("license", "create", "--key", "ABCDE-FGHIJ-12345", "--customer-id", "31")
    keywright("license", "create", "--key", "ANOTHER")
    assert keywright.json("license", "find", "nothing") == []
    assert keywright("license", "find", "no@example.com") == "No license found.\n"
    for text in ("abcdefghij12345", "12345", "ada@example.com", "31", "ADA"):
        (found,) = keywright.json("license", "find", text)
        assert (found["key"], found["state"]) == ("ABCDE-FGHIJ-12345", "valid"), text
    assert "ABCDE-FGHIJ-12345" in keywright("license", "find", "ADA", "--show-keys")
