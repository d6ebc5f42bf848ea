"""``keywright backup`` and ``keywright restore``, where the kind of database does not matter: the secret, a
running server, pipes and signals.
"""

import gzip
import pty
import signal
import sqlite3
import stat
import subprocess
import time
from contextlib import closing
from io import BufferedReader, BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from keywright.db import look_at
from keywright.db.migrate import read_state
from tests import forking
from tests.cli.conftest import Done, Keywright
from tests.server import environment, running, wait_until
from tests.storage.test_migrations import LATER, NEXT, use_scripts

DATABASES = ("sqlite",)
FILE = "keywright.tar"


@pytest.fixture
def used(keywright: Keywright) -> Keywright:
    keywright("license", "create", "--key", "A", "--max", "3")
    keywright("license", "activate", "A")
    return keywright


def test_restore_reports_what_is_wrong_with_the_database(used: Keywright, nowhere: Keywright) -> None:
    with closing(sqlite3.connect(used.data_dir / "keywright.db")) as connection:
        connection.execute("UPDATE licenses SET times_activated = 2")
        connection.commit()
    used("backup", FILE, "--with-secret")
    done = nowhere.run("restore", FILE, "--unsigned", "--data-dir", str(nowhere.data_dir))
    assert done.status == 1
    assert "License 1 has an activation count of 2, but 1 active activation" in done.out


def test_nothing_is_restored_under_a_running_server(used: Keywright) -> None:
    used("backup", FILE)
    with running(used.data_dir):
        said = used.refused("restore", FILE, "--overwrite")
    assert "is in use by a server or another command" in said
    assert used.json("doctor")["is_well"] is True


def test_a_missing_database_and_a_file_that_is_no_backup_are_refused(
    nowhere: Keywright,
) -> None:
    assert nowhere.refused("backup", FILE).startswith("there is nothing to back up in ")
    assert nowhere.refused("restore", FILE) == "keywright.tar: No such file or directory."
    Path(FILE).write_text("a letter")
    assert "is not a backup" in nowhere.refused("restore", FILE)
    assert not nowhere.data_dir.exists()


# --- the secret -----------------------------------------------------------------------------------


def test_the_secret_is_restored_from_a_backup_that_has_it(used: Keywright, nowhere: Keywright) -> None:
    said = used("backup", FILE, "--with-secret")
    assert said.endswith("can read every license key, and sign altered backups.\n")
    assert "its signature proves nothing" in nowhere.refused("restore", FILE)
    assert not nowhere.data_dir.exists()
    done = nowhere.run("restore", FILE, "--unsigned", "--data-dir", str(nowhere.data_dir))
    assert done.status == 0, done.err
    assert f"The secret from the backup is now in {nowhere.data_dir}/secret.\n" in done.out
    secret = nowhere.data_dir / "secret"
    assert secret.read_bytes() == (used.data_dir / "secret").read_bytes()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert nowhere.json("license", "show", "A")["timesActivated"] == 1


def test_without_its_secret_nothing_is_restored(used: Keywright, nowhere: Keywright) -> None:
    used("backup", FILE)
    assert nowhere.refused("restore", FILE, "--check").endswith("To check only the checksum, use --unsigned.")
    said = nowhere.refused("restore", FILE)
    assert "the secret is missing, and the backup does not contain it" in said
    assert f"into {nowhere.data_dir}/secret, or set KEYWRIGHT_SECRET" in said
    assert not nowhere.data_dir.exists()


def test_a_backup_without_a_secret_at_hand_is_not_signed(used: Keywright) -> None:
    (used.data_dir / "secret").rename("secret")
    assert "the backup cannot be signed" in used.refused("backup", FILE)
    assert not Path(FILE).exists()
    assert "It is unsigned and does not include the secret" in used("backup", FILE, "--unsigned")
    Path("secret").rename(used.data_dir / "secret")
    assert "is not signed, so it may have been altered" in used.refused("restore", FILE, "--check")


def test_another_secret_stays_where_it_is(
    used: Keywright, nowhere: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    used("backup", FILE, "--with-secret")
    nowhere("init")
    secret = (nowhere.data_dir / "secret").read_bytes()
    said = nowhere.refused("restore", FILE)
    assert f"with a different secret than {nowhere.data_dir}/secret" in said
    assert said.endswith("To use the secret in the backup, move that one away.")
    assert (nowhere.data_dir / "secret").read_bytes() == secret
    monkeypatch.setenv("KEYWRIGHT_SECRET", "another secret, thirty-two letters")
    assert "than the secret from KEYWRIGHT_SECRET" in nowhere.refused("restore", FILE)


# --- pipes and signals ----------------------------------------------------------------------------


def test_a_backup_is_not_printed_on_a_terminal(used: Keywright) -> None:
    terminal, end = pty.openpty()
    command = [forking.command(), "backup", "-", "--data-dir", str(used.data_dir)]
    with open(terminal, "rb", closefd=True), open(end, "wb", closefd=True) as stdout:
        done = subprocess.run(command, env=environment(), stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"cannot be shown on a terminal" in done.stderr


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_backup_and_nothing_is_left(
    used: Keywright, tmp_path: Path, signal_number: int
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    command = [forking.command(), "backup", "-", "--data-dir", str(used.data_dir)]
    variables = environment() | {"TMPDIR": str(folder)}
    # Its output is not read, so it cannot end.
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: list(folder.rglob("payload")), "the copy of the database")
        process.send_signal(signal_number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == b""
    assert list(folder.iterdir()) == []


def test_what_was_piped_and_compressed_is_restored_from_a_pipe(
    used: Keywright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(folder := tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    folder.mkdir()
    used("backup", FILE)
    plain = Path(FILE).read_bytes()
    packed = gzip.compress(plain)
    (tmp_path / "packed").write_bytes(packed)
    (tmp_path / "cut").write_bytes(packed[:-1000])
    place = ("--overwrite", "--data-dir", str(used.data_dir))

    def restore(sent: bytes, *options: str) -> Done:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(BytesIO(sent))))
        return used.run("restore", "-", *options, *place)

    for sent in (plain, packed):
        done = restore(sent)
        assert done.status == 0, done.err
        assert "keywright.db as it was at" in done.out
    assert used.run("restore", str(tmp_path / "packed"), *place).status == 0
    assert restore(packed, "--check").out.endswith(
        "this is complete and unaltered: its signature is valid.\n"
    )
    damaged = " is damaged or truncated. Use another backup.\n"
    assert restore(packed[:-1000]).err.endswith(f"Error: this{damaged}")
    assert restore(plain[:-11_000]).err.endswith(f"Error: this{damaged}")
    done = used.run("restore", str(tmp_path / "cut"), *place)
    assert done.err.endswith(f"{tmp_path}/cut{damaged}")
    assert restore(b"not a backup").err.endswith("is not a backup made by `keywright backup`.\n")
    assert list(folder.iterdir()) == []


# --- after a backup -------------------------------------------------------------------------------


def note(used: Keywright) -> list[tuple[int]]:
    """When the last backup was made, as the database has it."""
    with closing(sqlite3.connect(used.data_dir / "keywright.db")) as connection:
        query = "SELECT last_id FROM checkpoints WHERE name = 'backup_made_at'"
        return connection.execute(query).fetchall()


def test_a_command_copies_each_backup_and_one_that_fails_is_a_failure(
    used: Keywright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYWRIGHT_BACKUP_COMMAND", f'cp "$BACKUP_FILE" {tmp_path}/elsewhere')
    assert note(used) == []
    used("backup", FILE)
    assert (tmp_path / "elsewhere").read_bytes() == Path(FILE).read_bytes()
    ((made_at,),) = note(used)
    assert abs(time.time() - made_at) < 3600
    monkeypatch.setenv("KEYWRIGHT_BACKUP_COMMAND", f"rm {tmp_path}/elsewhere; exit 3")
    done = used.run("backup", FILE, "--overwrite", "--data-dir", str(used.data_dir))
    assert done.status == 1
    assert done.err.endswith(f"Error: {FILE} was written, but backup_command failed (status 3).\n")
    assert not (tmp_path / "elsewhere").exists()
    assert note(used) == [(made_at,)]
    # What goes to a pipe is no file that could be copied.
    command = [forking.command(), "backup", "-", "--data-dir", str(used.data_dir)]
    variables = environment(backup_command="exit 3")
    assert subprocess.run(command, env=variables, capture_output=True, check=False).returncode == 0


def test_a_clock_that_was_ahead_does_not_make_the_last_backup_look_recent_for_ever(used: Keywright) -> None:
    with closing(sqlite3.connect(used.data_dir / "keywright.db")) as connection:
        connection.execute("INSERT INTO checkpoints VALUES ('backup_made_at', 99999999999)")
        connection.commit()
    used("backup", FILE)
    ((made_at,),) = note(used)
    assert abs(time.time() - made_at) < 3600


def test_a_database_that_waits_for_a_migration_is_backed_up_as_it_is(
    used: Keywright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
    used("backup", FILE)
    assert note(used) == []
    assert look_at(f"sqlite:///{used.data_dir}/keywright.db", read_state).revision != LATER
