"""``keywright apikey …`` and ``keywright user …``."""

import io
import os
import pty
import subprocess
import termios
from contextlib import closing
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from keywright import access, keys
from keywright.config import open_installation, read_settings
from keywright.model import ApiKey, Role, User
from tests.cli.conftest import Keywright
from tests.server import KEYWRIGHT, wait_until

PASSWORD = "correct horse battery"


def found_api_key(data_dir: Path, consumer_key: str) -> ApiKey | None:
    with closing(open_installation(read_settings({"data_dir": data_dir}))) as storage, storage.read() as tx:
        return tx.find_api_key(keys.hash_consumer_key(consumer_key))


def found_user(data_dir: Path, name: str) -> User | None:
    with closing(open_installation(read_settings({"data_dir": data_dir}))) as storage, storage.read() as tx:
        return tx.find_user(name)


@pytest.mark.parametrize("permissions", ["read", "write", "read_write", "client"])
def test_an_api_key_opens_the_door_with_the_secrets_that_were_printed(
    permissions: str, keywright: Keywright
) -> None:
    made = keywright.json("apikey", "create", "--name", "shop", "--permissions", permissions)
    caller = access.caller_of(
        found_api_key(keywright.data_dir, made["consumer_key"]), made["consumer_secret"]
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


def test_a_client_key_can_be_for_one_product(keywright: Keywright) -> None:
    made = keywright.json("apikey", "create", "--name", "app", "--permissions", "client", "--product-id", "7")
    assert made["product_id"] == 7
    said = keywright.refused(
        "apikey", "create", "--name", "x", "--permissions", "read", "--product-id", "7", status=2
    )
    assert "--permissions client" in said


def test_api_keys_are_listed_until_and_after_they_are_revoked(keywright: Keywright) -> None:
    assert keywright.json("apikey", "list") == []
    made = keywright.json("apikey", "create", "--name", "shop", "--permissions", "read_write")
    (listed,) = keywright.json("apikey", "list")
    names = ["id", "name", "permissions", "product_id", "hint", "created_at", "revoked_at"]
    assert list(listed) == names
    assert listed["revoked_at"] is None
    assert "API key 1 is revoked." in keywright("apikey", "revoke", "1")
    assert keywright.json("apikey", "list")[0]["revoked_at"] is not None
    assert found_api_key(keywright.data_dir, made["consumer_key"]) is None


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


# --- users ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", Role)
def test_a_user_is_made_with_the_password_from_standard_input(
    role: Role, keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    said = keywright("user", "create", "ada", "--role", role.value, "--password-stdin")
    assert said == f"The user ada ({role.value}) is made.\n"
    user = found_user(keywright.data_dir, "ada")
    assert user is not None
    assert user.role is role
    assert PasswordHasher().verify(user.password_hash, PASSWORD)


def test_a_short_password_is_refused(keywright: Keywright, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("elevenchars\n"))
    said = keywright.refused("user", "create", "ada", "--role", "reader", "--password-stdin", status=2)
    assert "at least 12 characters" in said
    assert "elevenchars" not in said
    assert found_user(keywright.data_dir, "ada") is None


def test_a_name_is_given_once(keywright: Keywright, monkeypatch: pytest.MonkeyPatch) -> None:
    create = ("user", "create", "ada", "--role", "reader", "--password-stdin")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    keywright(*create)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    assert "there is a user of this name already" in keywright.refused(*create)


def test_a_user_needs_a_known_role(keywright: Keywright) -> None:
    assert "'--role'" in keywright.refused("user", "create", "ada", "--role", "king", status=2)
    assert "'--role'" in keywright.refused("user", "create", "ada", status=2)


def at_a_terminal(data_dir: Path, answers: dict[str, str]) -> tuple[int, str]:
    """Status and output of the program at a terminal, when somebody types an answer to each question."""
    keyboard, terminal = pty.openpty()
    command = [KEYWRIGHT, "user", "create", "ada", "--role", "reader", "--data-dir", str(data_dir)]
    with subprocess.Popen(
        command,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        said = b""
        for question, answer in answers.items():
            while question.encode() not in said:
                said += os.read(process.stdout.fileno(), 1000)
            wait_until(lambda: not is_echoing(terminal), "the terminal to hide what is typed")
            os.write(keyboard, f"{answer}\n".encode())
        said += process.stdout.read()
    os.close(keyboard)
    os.close(terminal)
    return process.returncode, said.decode()


def is_echoing(terminal: int) -> bool:
    local_modes: int = termios.tcgetattr(terminal)[3]
    return bool(local_modes & termios.ECHO)


def test_a_password_is_asked_for_twice_and_not_shown(keywright: Keywright) -> None:
    answers = {"Password": PASSWORD, "Repeat for confirmation": PASSWORD}
    status, said = at_a_terminal(keywright.data_dir, answers)
    assert status == 0, said
    assert "The user ada (reader) is made." in said
    assert PASSWORD not in said
    user = found_user(keywright.data_dir, "ada")
    assert user is not None
    assert PasswordHasher().verify(user.password_hash, PASSWORD)
