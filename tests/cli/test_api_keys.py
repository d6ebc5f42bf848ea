"""``keywright apikey …``."""

import os
import pwd
from contextlib import closing
from pathlib import Path

import pytest

from keywright.config.installation import open_installation
from keywright.config.sources import read_settings
from keywright.core import crypto
from keywright.events import store as event_store
from keywright.events.model import Event
from keywright.identity import api_keys
from keywright.identity.model import ApiKey
from keywright.identity.store import find_api_key
from tests.cli.conftest import Keywright
from tests.makers import NOW

DATABASES = ("sqlite",)


def get_api_key(data_dir: Path, consumer_key: str) -> ApiKey | None:
    with closing(open_installation(read_settings({"data_dir": data_dir}))) as storage, storage.read() as tx:
        return find_api_key(tx, crypto.hash_consumer_key(consumer_key))


def events(data_dir: Path) -> list[Event]:
    """What happened that is not about a license, in order."""
    with closing(open_installation(read_settings({"data_dir": data_dir}))) as storage, storage.read() as tx:
        return event_store.list_events(tx, 0, limit=99)[::-1]


@pytest.mark.smoke
@pytest.mark.parametrize("permissions", ["read", "write", "read_write", "client"])
def test_an_api_key_opens_the_door_with_the_secrets_that_were_printed(
    permissions: str, keywright: Keywright
) -> None:
    made = keywright.json("apikey", "create", "--name", "shop", "--permissions", permissions)
    caller = api_keys.caller_of(
        get_api_key(keywright.data_dir, made["consumer_key"]), made["consumer_secret"], NOW
    )
    assert (caller.api_key_id, caller.name, caller.permissions) == (made["id"], "shop", permissions)
    assert made["permissions"] == permissions


def test_the_secrets_of_an_api_key_are_printed_once(keywright: Keywright) -> None:
    said = keywright("apikey", "create", "--name", "shop", "--permissions", "read")
    (secret,) = (word for word in said.split() if word.startswith("cs_"))
    (consumer_key,) = (word for word in said.split() if word.startswith("ck_"))
    assert "cannot be shown again" in said
    for listed in (keywright("apikey", "list"), keywright("apikey", "list", "--json")):
        assert secret not in listed
        assert consumer_key not in listed
        assert consumer_key[-7:] in listed


def test_an_api_key_can_be_for_one_product_and_until_a_date(keywright: Keywright) -> None:
    options = ("--product-id", "7", "--expires-at", "2030-12-31")
    made = keywright.json("apikey", "create", "--name", "app", "--permissions", "read", *options)
    assert (made["product_id"], made["expires_at"]) == (7, "2030-12-31 00:00:00")
    assert "2030-12-31 00:00:00" in keywright("apikey", "list")


def test_the_token_is_both_secrets_in_one(keywright: Keywright) -> None:
    made = keywright.json("apikey", "create", "--name", "app", "--permissions", "read")
    assert api_keys.split_token(made["token"]) == (made["consumer_key"], made["consumer_secret"])


def test_api_keys_are_listed_until_and_after_they_are_revoked(keywright: Keywright) -> None:
    assert keywright.json("apikey", "list") == []
    made = keywright.json("apikey", "create", "--name", "shop", "--permissions", "read_write")
    (listed,) = keywright.json("apikey", "list")
    names = "id name permissions product_id key_suffix created_at expires_at revoked_at last_used_at".split()
    assert list(listed) == names
    assert listed["revoked_at"] is None
    assert "API key 1 is revoked." in keywright("apikey", "revoke", "1")
    assert keywright.json("apikey", "list")[0]["revoked_at"] is not None
    assert get_api_key(keywright.data_dir, made["consumer_key"]) is None


def test_only_an_api_key_in_force_can_be_revoked(keywright: Keywright) -> None:
    assert "no API key with this number is in force" in keywright.refused("apikey", "revoke", "7")
    assert "'ID'" in keywright.refused("apikey", "revoke", "seven", status=2)


@pytest.mark.parametrize(
    "options",
    [
        ("--name", "x"),
        ("--permissions", "read"),
        ("--name", "x", "--permissions", "all"),
        ("--name", " ", "--permissions", "read"),
        ("--name", "a\nb", "--permissions", "read"),
    ],
)
def test_an_api_key_needs_a_name_and_permissions(options: tuple[str, ...], keywright: Keywright) -> None:
    keywright.refused("apikey", "create", *options, status=2)


def test_who_gave_and_ended_access_is_told(keywright: Keywright) -> None:
    keywright("apikey", "create", "--name", "shop", "--permissions", "read")
    keywright("apikey", "revoke", "1")
    told = events(keywright.data_dir)
    assert [one.name for one in told] == ["api_key.created", "api_key.revoked"]
    assert {one.actor for one in told} == {f"cli:{pwd.getpwuid(os.getuid()).pw_name}"}
