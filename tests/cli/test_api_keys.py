"""``keywright apikey …``."""

from contextlib import closing

import pytest

from keywright.config.installation import open_installation
from keywright.config.sources import read_settings
from keywright.core import crypto
from keywright.identity import api_keys
from keywright.identity.store import find_api_key
from tests.cli.conftest import Keywright
from tests.makers import NOW
from tests.tables import each_row

DATABASES = ("sqlite",)


@pytest.mark.smoke
@each_row("permissions", ["read", "write", "read_write", "client"])
def test_an_api_key_opens_the_door_with_the_secrets_that_were_printed(
    permissions: str, keywright: Keywright
) -> None:
    options = ("--product-id", "7", "--expires-at", "2030-12-31")
    made = keywright.json("apikey", "create", "--name", "shop", "--permissions", permissions, *options)
    assert (made["permissions"], made["product_id"]) == (permissions, 7)
    assert made["expires_at"] == "2030-12-31 00:00:00"
    assert api_keys.split_token(made["token"]) == (made["consumer_key"], made["consumer_secret"])
    settings = read_settings({"data_dir": keywright.data_dir})
    with closing(open_installation(settings)) as storage, storage.read() as tx:
        stored = find_api_key(tx, crypto.hash_consumer_key(made["consumer_key"]))
    caller = api_keys.caller_of(stored, made["consumer_secret"], NOW)
    assert (caller.api_key_id, caller.name, caller.permissions) == (made["id"], "shop", permissions)


def test_the_secrets_of_an_api_key_are_printed_once(keywright: Keywright) -> None:
    options = ("--permissions", "read", "--expires-at", "2030-12-31")
    said = keywright("apikey", "create", "--name", "shop", *options)
    (secret,) = (word for word in said.split() if word.startswith("cs_"))
    (consumer_key,) = (word for word in said.split() if word.startswith("ck_"))
    assert "cannot be shown again" in said
    for listed in (keywright("apikey", "list"), keywright("apikey", "list", "--json")):
        assert secret not in listed
        assert consumer_key not in listed
        assert consumer_key[-7:] in listed
        assert "2030-12-31 00:00:00" in listed


def test_api_keys_are_listed_until_and_after_they_are_revoked(keywright: Keywright) -> None:
    assert keywright.json("apikey", "list") == []
    keywright("apikey", "create", "--name", "shop", "--permissions", "read_write")
    (listed,) = keywright.json("apikey", "list")
    names = "id name permissions product_id key_suffix created_at expires_at revoked_at last_used_at".split()
    assert list(listed) == names
    assert listed["revoked_at"] is None
    assert "API key 1 revoked." in keywright("apikey", "revoke", "1")
    assert keywright.json("apikey", "list")[0]["revoked_at"] is not None
    assert "no valid API key has this ID" in keywright.refused("apikey", "revoke", "1")
    assert "'ID'" in keywright.refused("apikey", "revoke", "seven", status=2)


@each_row(
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
