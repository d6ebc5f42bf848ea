"""pg_dump and pg_restore: errors when they are missing or too old, passwords, and other sessions."""

import stat
from contextlib import closing
from pathlib import Path

import pytest

from keywright.core.errors import ConfigurationError, StoreError, StoreUnavailable
from keywright.db import Storage, open_storage
from keywright.engine.executor import Executor
from keywright.maintenance.backup import Backup
from tests.backups import back_up, restore_backup
from tests.databases import a_postgres_url, execute
from tests.makers import KEY_RING, activate, create
from tests.storage.test_copy import contents
from tools.postgres import binaries

DATABASES = ("postgresql",)
pytestmark = pytest.mark.of_the_database
#: Any password will do: the server trusts every connection.
PASSWORD = "CANARY-password"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def write_program(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(stat.S_IRWXU)


def test_a_missing_pg_dump_is_reported(storage: Storage, url: str, file: Path, path: Path) -> None:
    with pytest.raises(StoreError, match=r"^pg_dump is not on PATH, .*postgresql-client-18"):
        back_up(url, file)
    assert not file.exists()


def test_a_pg_dump_older_than_the_server_is_refused(
    storage: Storage, url: str, file: Path, path: Path
) -> None:
    write_program(path, "pg_dump", "echo 'pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)'")
    said = r"bin/pg_dump has version 15\.18, which is too old: the server has version 18\. Install"
    with pytest.raises(StoreError, match=said):
        back_up(url, file)
    write_program(path, "pg_dump", "echo 'a program that has the same name'")
    with pytest.raises(StoreError, match="does not report its version"):
        back_up(url, file)


def test_a_pg_restore_older_than_the_backup_is_refused(
    storage: Storage, url: str, file: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(binaries()))
    back_up(url, file)
    monkeypatch.setenv("PATH", str(path))
    write_program(path, "pg_restore", "echo 'pg_restore (PostgreSQL) 17.2'")
    said = r"17\.2, which is too old: the backup was made by pg_dump 18"
    with a_postgres_url(empty=True) as elsewhere, pytest.raises(StoreError, match=said):
        restore_backup(file, elsewhere)


def test_the_error_of_pg_dump_is_reported(storage: Storage, url: str, file: Path, path: Path) -> None:
    write_program(
        path,
        "pg_dump",
        '[ "$1" = --version ] && echo "pg_dump (PostgreSQL) 18.4" && exit\n'
        "echo half of it; echo 'pg_dump: error: the cat sits on the cable' >&2; exit 1",
    )
    with pytest.raises(StoreError, match=r"^pg_dump failed: error: the cat sits on the cable\.$"):
        back_up(url, file)
    assert list(file.parent.glob("*.tar")) == list(file.parent.glob(".keywright*")) == []


def test_no_password_is_in_the_list_of_processes(storage: Storage, url: str, file: Path, path: Path) -> None:
    write_program(
        path,
        "pg_dump",
        f'[ "$1" = --version ] || {{ echo "$@" > {path}/arguments; echo "$PGPASSWORD" > {path}/password; }}\n'
        f'exec {binaries()}/pg_dump "$@"',
    )
    back_up(url.replace("keywright@", f"keywright:{PASSWORD}@"), file)
    assert PASSWORD not in (path / "arguments").read_text()
    assert (path / "password").read_text().strip() == PASSWORD
    assert PASSWORD.encode() not in file.read_bytes()
    with pytest.raises(ConfigurationError, match=r"sslpassword .* would be visible"):
        back_up(f"{url}?sslpassword=x", file, is_overwriting=True)


def test_an_unreachable_server_is_reported(file: Path) -> None:
    with pytest.raises(StoreUnavailable, match="refused"):
        back_up("postgresql://keywright@127.0.0.1:1/keywright", file)
    assert list(file.parent.iterdir()) == []


def test_tables_of_other_programs_are_not_touched(
    executor: Executor, storage: Storage, url: str, file: Path, programs: None
) -> None:
    execute(url, "CREATE TABLE shop (id int)")
    execute(url, "INSERT INTO shop VALUES (7)")
    executor.execute([create("A"), activate("A")])
    back_up(url, file)
    storage.close()
    execute(url, "CREATE VIEW needs_it AS SELECT id FROM licenses")
    with pytest.raises(StoreError, match=r"cannot be replaced: cannot drop .* other objects depend on"):
        restore_backup(file, url, is_overwriting=True)
    execute(url, "DROP VIEW needs_it")
    restore_backup(file, url, is_overwriting=True)
    assert execute(url, "SELECT id FROM shop") == [(7,)]
    with a_postgres_url(empty=True) as elsewhere:
        restore_backup(file, elsewhere)
        assert execute(elsewhere, "SELECT to_regclass('shop')") == [(None,)]


def test_a_server_that_starts_during_a_restore_waits_for_it(
    executor: Executor, url: str, file: Path, programs: None
) -> None:
    executor.execute([create("A"), activate("A")])
    back_up(url, file)
    with a_postgres_url(empty=True) as elsewhere:

        def start_server() -> None:
            with pytest.raises(StoreUnavailable), closing(open_storage(impatient, KEY_RING)):
                pass

        impatient = f"{elsewhere}?options=-cstatement_timeout%3D100"
        with closing(Backup(file)):
            restore_backup(file, elsewhere, before_replacing=start_server)
        with closing(open_storage(elsewhere, KEY_RING)) as new:
            assert len(contents(new)["licenses"]) == 1
