"""``keywright user …``"""

import io
import os
import pty
import subprocess
import termios
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from keywright.config.installation import open_installation
from keywright.config.sources import read_settings
from keywright.db import run_read
from keywright.identity import passwords, sessions
from keywright.identity import store as second_factor_store
from keywright.identity.model import Role, User
from keywright.identity.store import find_user
from keywright.registry import open_executor
from tests.cli.conftest import Keywright
from tests.makers import enable_second_factor
from tests.server import KEYWRIGHT, wait_until
from tests.tables import each_row

DATABASES = ("sqlite",)
pytestmark = pytest.mark.usefixtures("cheap_passwords")

PASSWORD = "correct horse battery"
ANOTHER = "another horse battery"
CREATE = ("user", "create", "ada", "--role", "administrator", "--password-stdin")


def get_user(data_dir: Path, name: str) -> User | None:
    with closing(open_installation(read_settings({"data_dir": data_dir}))) as storage, storage.read() as tx:
        return find_user(tx, name)


@pytest.fixture
def ada(keywright: Keywright, monkeypatch: pytest.MonkeyPatch) -> User:
    """The only user, an administrator."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    keywright(*CREATE)
    user = get_user(keywright.data_dir, "ada")
    assert user is not None
    return user


# --- create -----------------------------------------------------------------------------------------


@pytest.mark.smoke
@each_row("role", Role)
def test_a_user_is_made_with_the_password_from_standard_input(
    role: Role, keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    said = keywright("user", "create", f"ada-{role}", "--role", role.value, "--password-stdin")
    assert said == f"User ada-{role} ({role.value}) created.\n"
    user = get_user(keywright.data_dir, f"ada-{role}")
    assert user is not None
    assert user.role is role
    assert PasswordHasher().verify(user.password_hash, PASSWORD)


def test_a_short_or_easy_password_and_an_unknown_role_are_refused(
    keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bad, complaint in (("elevenchars", "at least 12 characters"), ("ada-password1", "easy to guess")):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{bad}\n"))
        said = keywright.refused("user", "create", "ada", "--role", "reader", "--password-stdin", status=2)
        assert complaint in said
        assert bad not in said
    assert "'--role'" in keywright.refused("user", "create", "ada", "--role", "king", status=2)
    assert "'--role'" in keywright.refused("user", "create", "ada", status=2)
    assert get_user(keywright.data_dir, "ada") is None


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
    assert "User ada (reader) created." in said
    assert PASSWORD not in said
    user = get_user(keywright.data_dir, "ada")
    assert user is not None
    assert PasswordHasher().verify(user.password_hash, PASSWORD)


# --- list -------------------------------------------------------------------------------------------


def test_users_are_listed_without_what_their_passwords_are_known_by(keywright: Keywright, ada: User) -> None:
    (listed,) = keywright.json("user", "list")
    assert list(listed) == ["id", "name", "role", "created_at", "last_signed_in_at", "disabled_at"]
    assert (listed["name"], listed["role"]) == ("ada", "administrator")
    assert listed["last_signed_in_at"] is listed["disabled_at"] is None
    table = keywright("user", "list")
    assert "ada" in table
    assert "argon2" not in table


# --- change -----------------------------------------------------------------------------------------


def test_a_new_password_takes_the_old_one_s_place_and_signs_out(
    keywright: Keywright, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{ANOTHER}\n"))
    said = keywright("user", "password", "ada", "--password-stdin")
    assert said == "User ada has a new password, and is signed out everywhere.\n"
    user = get_user(keywright.data_dir, "ada")
    assert passwords.check_password(user, ANOTHER)
    assert not passwords.check_password(user, PASSWORD)


def test_a_disabled_user_is_signed_out_until_enabled_again(
    keywright: Keywright, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    keywright("user", "create", "bob", "--role", "reader", "--password-stdin")
    assert "bob is disabled, and is signed out everywhere." in keywright("user", "disable", "bob")
    assert not passwords.check_password(get_user(keywright.data_dir, "bob"), PASSWORD)
    assert keywright.json("user", "list")[1]["disabled_at"] is not None
    assert "bob may sign in again." in keywright("user", "enable", "bob")
    assert passwords.check_password(get_user(keywright.data_dir, "bob"), PASSWORD)


def test_a_user_s_role_can_be_changed_while_an_administrator_is_left(
    keywright: Keywright, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for typed in (("role", "ada", "reader"), ("disable", "ada")):
        said = keywright.refused("user", *typed)
        assert said == "no administrator with a password would be left. Make another administrator first."
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    keywright("user", "create", "bob", "--role", "reader", "--password-stdin")
    assert "bob now has the role administrator." in keywright("user", "role", "bob", "administrator")
    keywright("user", "role", "ada", "support")
    assert [one["role"] for one in keywright.json("user", "list")] == ["support", "administrator"]
    assert "'ROLE'" in keywright.refused("user", "role", "ada", "king", status=2)


@each_row("typed", ["disable", "enable", "role reader", "password", "reset-second-factor"])
def test_a_user_who_is_not_there_cannot_be_changed(typed: str, keywright: Keywright) -> None:
    what, *rest = typed.split()
    assert keywright.refused("user", what, "nobody", *rest).startswith("there is no user with this name.")


# --- link -------------------------------------------------------------------------------------------


def test_a_link_for_the_first_administrator_is_printed_as_long_as_there_is_no_user(
    keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYWRIGHT_PORT", "9000")
    heading, link = keywright("user", "link").strip().splitlines()
    assert heading == "Create the first administrator (within 30 minutes):"
    address, _, token = link.strip().partition("?token=")
    assert address == "http://127.0.0.1:9000/admin/setup"
    now = datetime.now(UTC)
    with closing(open_installation(read_settings({"data_dir": keywright.data_dir}))) as storage:
        assert run_read(storage, lambda tx: sessions.is_setup_token(tx, token, now))
        later = now + timedelta(minutes=31)
        assert not run_read(storage, lambda tx: sessions.is_setup_token(tx, token, later))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    keywright(*CREATE)
    said = keywright.refused("user", "link")
    assert said.startswith("there are users already")
    assert "`keywright user create`" in said


@each_row(
    ("host", "port", "base_url"),
    [("::1", "9000", "http://[::1]:9000"), ("shop.example", "0", "http://shop.example:PORT")],
)
def test_the_link_says_where_the_server_is_as_far_as_that_is_known(
    host: str, port: str, base_url: str, keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYWRIGHT_HOST", host)
    monkeypatch.setenv("KEYWRIGHT_PORT", port)
    assert f"  {base_url}/admin/setup?token=" in keywright("user", "link")
    with monkeypatch.context() as patch:
        patch.setenv("KEYWRIGHT_PUBLIC_URL", "https://licenses.example.com")
        assert "  https://licenses.example.com/admin/setup?token=" in keywright("user", "link")


def test_a_lost_second_factor_is_turned_off(keywright: Keywright, ada: User) -> None:
    with closing(open_installation(read_settings({"data_dir": keywright.data_dir}))) as storage:
        open_executor(storage).execute([enable_second_factor(ada.id)])
        said = keywright("user", "reset-second-factor", "ada")
        assert said == "The second factor of ada is turned off, and ada is signed out everywhere.\n"
        assert not run_read(storage, lambda tx: second_factor_store.has_factor(tx, ada.id))
    assert keywright.json("events")[-1]["type"] == "user.second_factor_disabled"
    keywright("user", "reset-second-factor", "ada")
