"""``keywright backup`` and ``keywright restore``: their output and status."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forking
from tests.cli.conftest import Keywright
from tests.databases import a_postgres_url
from tests.server import environment
from tools.postgres import binaries

FILE = "keywright.tar"
MADE = (
    r"keywright\.tar is a backup of \S+ as it was at 20\S+ \S+ \(UTC\): 1 license, 1 activation and "
    r"2 events, the newest of 20\S+ \S+ \(UTC\)\. It is \d+ kB and took \d+\.\d s\.\n"
)
RESTORED = r"Restored \S+ as it was at 20\S+ \S+ \(UTC\): 1 license, 1 activation and 2 events, the newest"
SOUND = "Looked at 1 license and 1 activation in "


@pytest.fixture(autouse=True)
def programs(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump and pg_restore of the server's version are there."""
    if database == "postgresql":
        monkeypatch.setenv("PATH", f"{binaries()}:{os.environ['PATH']}")


@pytest.fixture
def used(keywright: Keywright) -> Keywright:
    keywright("license", "create", "--key", "A", "--max", "3")
    keywright("license", "activate", "A")
    return keywright


@pytest.fixture
def elsewhere(used: Keywright, database: str, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The options that name an installation with nothing but the secret."""
    folder = tmp_path / "new"
    if database == "postgresql":
        with a_postgres_url(empty=True) as url:
            yield "--data-dir", str(folder), "--database-url", url
        return
    folder.mkdir()
    shutil.copy(used.data_dir / "secret", folder)
    yield "--data-dir", str(folder)


@pytest.mark.smoke
def test_a_backup_is_restored(used: Keywright, elsewhere: tuple[str, ...]) -> None:
    said = used("backup", FILE)
    assert re.match(MADE, said), said
    assert "It does not include the secret, which is " in said
    assert "Keep a copy of the secret elsewhere" in said
    done = used.run("restore", FILE, *elsewhere)
    assert (done.status, done.err) == (0, "")
    assert re.match(RESTORED, done.out), done.out
    assert SOUND in done.out
    assert done.out.endswith(": no problems found.\n")
    assert "1 of 3" in used.run("license", "show", "A", *elsewhere).out


def test_checking_a_backup_changes_nothing(
    used: Keywright, elsewhere: tuple[str, ...], tmp_path: Path
) -> None:
    used("backup", FILE)
    there = sorted(tmp_path.rglob("*"))
    done = used.run("restore", FILE, "--check", *elsewhere)
    assert (done.status, done.err) == (0, "")
    assert "activations   1\n" in done.out
    assert "the secret    not included\n" in done.out
    assert done.out.endswith("keywright.tar is complete and unaltered: its signature is valid.\n")
    assert sorted(tmp_path.rglob("*")) == there
    content = bytearray(Path(FILE).read_bytes())
    content[len(content) // 2] ^= 1
    Path(FILE).write_bytes(content)
    assert used.refused("restore", FILE, "--check") == (
        "keywright.tar is damaged or truncated. Use another backup."
    )


def test_an_altered_backup_needs_unsigned(used: Keywright, elsewhere: tuple[str, ...]) -> None:
    used("backup", FILE)
    content = bytearray(Path(FILE).read_bytes())
    # The signature's line comes after the line of the sum.
    content[content.rindex(b"signature") + 512 + 65] ^= 1
    Path(FILE).write_bytes(content)
    for arguments in ((), ("--check",)):
        done = used.run("restore", FILE, *arguments, *elsewhere)
        assert done.status == 1
        assert "does not match: the file was altered, perhaps including passwords and limits" in done.err
        assert done.err.endswith("use --unsigned.\n")
    done = used.run("restore", FILE, "--check", "--unsigned", *elsewhere)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(" is complete, but its signature was not checked: it may have been altered.\n")
    assert used.run("restore", FILE, "--unsigned", *elsewhere).status == 0


def test_a_database_is_replaced_with_overwrite(used: Keywright, database: str) -> None:
    used("backup", FILE)
    used("license", "create", "--key", "B")
    said = used.refused("restore", FILE)
    assert " already contains an installation: 2 licenses" in said
    assert "2 licenses, 1 activation and 3 events, the newest of 20" in said
    assert said.endswith("If you want that, use --overwrite.")
    assert ("its file would be kept" in said) == (database == "sqlite")
    done = used.run("restore", FILE, "--overwrite", "--data-dir", str(used.data_dir))
    assert done.status == 0, done.err
    assert ("The previous database is kept in " in done.out) == (database == "sqlite")
    assert len(used.json("license", "list")) == 1


def test_an_existing_file_is_replaced_with_overwrite(used: Keywright) -> None:
    used("backup", FILE)
    assert used.refused("backup", FILE) == (
        "keywright.tar already exists. Choose another name, or use --overwrite."
    )
    used("backup", FILE, "--overwrite")
    assert used.refused("backup", "nowhere/x.tar").startswith("there is no folder ")


def test_a_backup_can_go_to_standard_output(used: Keywright, elsewhere: tuple[str, ...]) -> None:
    place = {name: value for name, value in os.environ.items() if name.startswith("KEYWRIGHT_")}
    command = [forking.command(), "backup", "-", "--data-dir", str(used.data_dir)]
    done = subprocess.run(command, env=environment() | place, capture_output=True, check=True)
    Path(FILE).write_bytes(done.stdout)
    assert done.stderr.decode().startswith("this is a backup of ")
    assert used.run("restore", FILE, *elsewhere).status == 0


def test_a_backup_has_the_files_of_releases_or_names_them(
    used: Keywright, elsewhere: tuple[str, ...], tmp_path: Path
) -> None:
    used("product", "create", "--name", "Paint", "--code", "paint")
    used("release", "create", "paint", "1.0")
    places = []
    for number in range(12):
        (tmp_path / f"paint-{number:02}.msi").write_bytes(b"bytes %d" % number * 300_000)
        places.append(str(tmp_path / f"paint-{number:02}.msi"))
    used("release", "upload", "paint", "1.0", *places)
    plain = used("backup", FILE)
    assert "It does not include the files of releases (12 files: paint-00.msi, paint-01.msi," in plain
    assert "paint-09.msi, …). Copy the folder " in plain
    assert "It includes the files of releases (12 files)." in used(
        "backup", FILE, "--with-files", "--overwrite"
    )
    assert re.search(r"files +12\n", used("restore", FILE, "--check"))
    folder = tmp_path / "new" / "files"
    done = used.run("restore", FILE, *elsewhere)
    assert (done.status, done.err) == (0, ""), done.out
    assert f"The files of releases (12 files) are now in {folder}." in done.out
    assert done.out.endswith(": no problems found.\n"), "the doctor reads them all"
    stored = {one.name: one for one in (used.data_dir / "files").glob("??/*")}
    assert {one.name for one in folder.glob("??/*")} == stored.keys()
    altered = next(iter(stored.values()))
    altered.write_bytes(altered.read_bytes()[:-1] + b"!")
    assert "altered on disk" in used.refused("backup", "other.tar", "--with-files")
    assert not Path("other.tar").exists()
    whole = Path(FILE).read_bytes()
    at = whole.index(b"bytes 7")
    Path(FILE).write_bytes(whole[:at] + b"B" + whole[at + 1 :])
    for options in ((), ("--unsigned",)):
        assert "damaged" in used.refused("restore", FILE, "--overwrite", *options)
