"""What holds for every command: help, errors, and how fast it starts."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from keywright.cli.helptext import sentence
from keywright.cli.program import command_tree, program
from keywright.core import errors
from keywright.core.parsing import MAX_COUNT
from keywright.db import sqlite
from keywright.identity import store
from tests import forking
from tests.cli.conftest import Keywright, run
from tests.server import environment
from tests.tables import each_row

DATABASES = ("sqlite",)
KEY = "ABCDE-FGHIJ-12345"


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group of commands with its full name."""
    yield path, group
    for name, one in getattr(group, "commands", {}).items():
        yield from commands(one, (*path, name))


COMMANDS = dict(commands(command_tree()))


# --- help -------------------------------------------------------------------------------------------


@each_row("path", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_each_of_its_options(
    path: tuple[str, ...], nowhere: Keywright
) -> None:
    done = nowhere.run(*path, "--help")
    assert done.status == 0
    assert done.err == ""
    assert COMMANDS[path].help
    for parameter in COMMANDS[path].params:
        assert parameter.help, f"{path} {parameter.name}"
    assert "Traceback" not in done.out
    assert done.out == nowhere.run(*path, "-h").out


def test_commands_on_an_installation_let_it_be_named() -> None:
    for path, command in COMMANDS.items():
        options = {option for one in command.params for option in one.opts}
        if not hasattr(command, "commands") and path != ("version",):
            assert {"--data-dir", "--database-url", "--config"} <= options, path


def test_every_integer_has_a_maximum_that_the_database_can_store() -> None:
    unbounded = [
        f"{' '.join(path)}: {one.name}"
        for path, command in COMMANDS.items()
        for one in command.params
        if (read := one.type_descriptor).annotation in (int, int | None)
        if read.parameter_info.parser is None and (one.max is None or one.max > MAX_COUNT)
    ]
    assert unbounded == []


def test_help_needs_none_of_the_commands_and_nothing_slow() -> None:
    # Typer itself, and rich, which formats the help, take most of the time.
    code = (
        "import sys\nfrom keywright.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    ours = {name for name in loaded if name.startswith("keywright")}
    assert ours == {"keywright", "keywright.cli", "keywright.cli.helptext", "keywright.cli.program"}
    assert not loaded & {"msgspec", "cryptography", "pydantic", "sqlalchemy", "asyncio", "email"}


def test_the_help_of_the_program_begins_as_that_of_the_command() -> None:
    shown = {name: one.help for name, one in program().commands.items()}
    assert shown == {name: one.help.split("\n\n")[0] for name, one in command_tree().commands.items()}


def test_a_start_waits_for_nothing_that_its_database_does_not_need(tmp_path: Path) -> None:
    slow = (
        "rich",
        "alembic",
        "argon2",
        "babel",
        "cryptography.x509",
        "httpx",
        "jinja2",
        "joserfc",
        "psycopg",
    )
    code = (
        "import sys\nfrom pathlib import Path\nimport keywright.cli.server, keywright.http.app\n"
        "from keywright.config import Settings, logs\n"
        "from keywright.config.installation import open_installation\n"
        "open_installation(Settings(data_dir=Path(sys.argv[1]))).close()\n"
        f"print([name for name in {(*slow, 'sqlalchemy.dialects.postgresql')} if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    starts = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [start.stdout for start in starts] == ["[]\n", "[]\n"]


def test_a_shell_can_complete_commands() -> None:
    done = run(_KEYWRIGHT_COMPLETE="complete_bash", COMP_WORDS="keywright li", COMP_CWORD="1")
    assert done.out.split() == ["license"]
    assert "--install-completion" in {option for one in COMMANDS[()].params for option in one.opts}


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("license",)])
def test_no_command_shows_help_and_is_wrong_usage(arguments: tuple[str, ...], nowhere: Keywright) -> None:
    done = nowhere.run(*arguments)
    assert done.status == 2
    assert "Usage: keywright" in done.out + done.err


def test_a_mistyped_command_or_option_is_named(nowhere: Keywright) -> None:
    assert "Did you mean 'license'?" in nowhere.run("licence", "list").err
    said = nowhere.refused("license", "list", "--jsno", status=2)
    assert "--jsno" in said
    assert said.endswith("See `keywright license list --help`.")


def test_an_error_is_told_with_its_hint_or_else_with_the_sentence_of_the_pages() -> None:
    assert sentence(errors.LicenseKeyTaken()).endswith("already has this key. Choose another key.")
    assert sentence(errors.IdempotencyKeyBusy()) == "this was already sent and is being processed."
    assert sentence(errors.Fault("KeyError")).startswith("this is an internal error (KeyError)")
    assert sentence(errors.StoreError("it is too old.")) == "it is too old."
    assert sentence(PermissionError(13, "Permission denied", "/x")) == "/x: Permission denied."
    assert sentence(OSError("odd")) == "odd."


def test_bytes_that_are_no_characters_are_refused(keywright: Keywright) -> None:
    unreadable = os.fsdecode(b"\xff")
    for arguments in (
        ("product", "list", "--code", unreadable),
        ("customer", "list", "--external-id", unreadable),
        ("transfer", "claims", "--order-id", unreadable),
        ("usage", "list", unreadable),
        ("release", "list", unreadable),
        ("connection", "add", "stripe", "--api-key", unreadable),
    ):
        assert "is not valid text" in keywright.refused(*arguments, status=2), arguments


def test_an_error_is_json_for_programs(keywright: Keywright) -> None:
    def told(*arguments: str) -> tuple[int, Any]:
        done = keywright.run(*arguments, "--json", "--data-dir", str(keywright.data_dir))
        assert done.out == ""
        return done.status, json.loads(done.err)

    status, problem = told("policy", "show", "7")
    assert (status, problem["code"]) == (1, "not_found")
    assert problem["detail"].startswith("there is no policy 7.")
    status, problem = told("policy", "create")
    assert (status, problem["code"]) == (2, "wrong_usage")
    assert "'--name'" in problem["detail"]


def test_only_serve_init_and_create_make_an_installation(nowhere: Keywright) -> None:
    creating = {("license", "create"), ("policy", "create"), ("generator", "create")}
    creating |= {("product", "create"), ("customer", "create")}
    creating |= {("apikey", "create"), ("user", "create"), ("connection", "add")}
    leaves = {path for path, one in COMMANDS.items() if not hasattr(one, "commands")}
    own = {("serve",), ("init",), ("restore",), ("config",), ("version",)}
    file = str(nowhere.data_dir.parent / "a backup")
    # All others may be "1".
    arguments = {"URL": "postgresql://host/target", "FILE": file, "FILE…": file, "EMAIL": "ada@larch.example"}
    arguments |= {"ADDRESS": "https://crm.example/", "ROLE": "reader", "WHAT": "licenses", "SHOP": "stripe"}
    missing = {"copy": "nothing to copy", "backup": "nothing to back up"}
    extra = {"generate": ["--amount", "1"], "update": ["--name", "x"], "deactivate": ["--all"]}
    extra |= {"license update": ["--max", "1"], "webhook edit": ["--enabled"]}
    notice = ["--title", "x", "--affected", "< 2", "--product-id", "1"]
    extra |= {"notice create": notice, "notice update": ["--title", "x"]}
    extra |= {"webhook resend": ["--since", "1h"], "webhook listen": ["--forward", "http://localhost:1"]}
    extra |= {"webhook remove": ["--yes"]}
    extra |= {"connection replay": ["--since", "1h"], "connection edit": ["--name", "x"]}
    for path in leaves - creating - own:
        given = [
            arguments.get(one.metavar, "1")
            for one in COMMANDS[path].params
            if not one.opts[0].startswith("-") and one.metavar != "[FILE]"
        ]
        said = nowhere.refused(*path, *given, *extra.get(" ".join(path), extra.get(path[-1], [])))
        nothing = missing.get(" ".join(path), "no installation")
        assert said.startswith(f"there is {nothing} in {nowhere.data_dir}"), path
        assert not nowhere.data_dir.exists()


def test_the_first_create_makes_an_installation_and_says_so(nowhere: Keywright) -> None:
    done = nowhere.run("license", "create", "--data-dir", str(nowhere.data_dir))
    assert done.status == 0
    assert done.err == (f"Warning: there is no installation in {nowhere.data_dir} yet; creating it\n")
    assert (nowhere.data_dir / "secret").stat().st_mode & 0o777 == 0o600


def test_a_database_that_is_broken_is_said_without_a_traceback(keywright: Keywright) -> None:
    with closing(sqlite.connect(keywright.data_dir / "keywright.db", "rw")) as connection:
        connection.execute("DROP TABLE policies")
    assert "no such table: policies" in keywright.refused("policy", "create", "--name", "G")
    assert "no such table: policies" in keywright.refused("policy", "list")


def test_what_nobody_expected_is_one_sentence_unless_details_are_wanted(
    keywright: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(store, "list_api_keys", broken)
    said = keywright.refused("apikey", "list")
    assert said.startswith("unexpected error (RuntimeError: boom)")
    assert said.endswith("Run with KEYWRIGHT_DEBUG=1 for details.")
    monkeypatch.setenv("KEYWRIGHT_DEBUG", "1")
    with pytest.raises(RuntimeError, match="boom"):
        keywright.run("apikey", "list", "--data-dir", str(keywright.data_dir))


def test_a_reader_that_had_enough_ends_the_program_quietly(keywright: Keywright) -> None:
    keywright("generator", "create", "--name", "Many")
    keywright("generator", "generate", "1", "--amount", "1000")
    script = f"{forking.command()} license list --json --data-dir {keywright.data_dir} | head -n 1"
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, env=environment())
    assert (done.stdout, done.stderr) == ("[\n", "")


def test_a_terminal_without_unicode_is_no_reason_to_fail(keywright: Keywright) -> None:
    keywright("license", "create", "--key", "SCHLÜSSEL-…")
    done = run(
        *("license", "show", "SCHLÜSSEL-…", "--data-dir", str(keywright.data_dir)),
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
    )
    assert done.status == 0, done.err
    assert "SCHL\\xdcSSEL-\\u2026" in done.out


def test_the_program_itself_says_errors_without_a_traceback(keywright: Keywright) -> None:
    done = run("license", "show", "NO-SUCH-KEY", "--data-dir", str(keywright.data_dir))
    assert (done.status, done.out) == (1, "")
    assert re.fullmatch(r"Error: there is no license with the key NO-SUCH-KEY\. .*\n", done.err)


def test_events_name_the_person_at_the_keyboard(keywright: Keywright) -> None:
    import pwd

    keywright("license", "create", "--key", KEY)
    (event,) = keywright.json("license", "show", KEY)["events"]
    assert event["actor"] == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    assert event["ip_address"] == "127.0.0.1"
