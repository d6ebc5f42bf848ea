"""Which databases are opened, which are refused and not changed, and the permissions of files."""

import os
import stat
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from keywright.core.crypto import KeyRing
from keywright.core.errors import ConfigurationError, StoreError, StoreUnavailable
from keywright.db import database_path, open_storage, sqlite
from keywright.db.migrate import HEAD, read_file_state
from keywright.licensing.licenses import store as license_store
from tests.makers import KEY, KEY_RING, a_license, open_or_make, url_of
from tests.storage.test_postgres import an_engine, contents_of, schema_of
from tests.tables import each_row

pytestmark = pytest.mark.of_the_database

OTHER_RING = KeyRing(b"another secret, also 32 bytes ok")
NEWER = "UPDATE alembic_version SET version_num = '9999'"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def change(url: str, *statements: str) -> object:
    """Run these statements; return the database afterwards: its bytes, or its schema and contents."""
    path = database_path(url)
    if path is not None:
        path.parent.mkdir(exist_ok=True)
    with an_engine(url) as engine, engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    return (schema_of(url), contents_of(url)) if path is None else path.read_bytes()


def test_a_database_is_made_where_there_is_none_with_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b c%41#?é"
    url = f"sqlite:///{tmp_path}/a/b c%2541%23%3Fé/keywright.db"
    with closing(open_storage(url, KEY_RING)) as storage, storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    assert (folder / "keywright.db").exists()
    with closing(open_storage(url, KEY_RING)) as storage, storage.read() as tx:
        assert list(license_store.find_licenses(tx, [KEY])) == [KEY]


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / "keywright.db").touch()
    open_or_make(tmp_path).close()
    assert read_file_state(tmp_path / "keywright.db").revision == HEAD
    assert not (tmp_path / "backups").exists()


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_only_the_owner_can_read_the_files_and_the_folder(tmp_path: Path, mask: int) -> None:
    folder = tmp_path / "data"
    before = os.umask(mask)
    try:
        with closing(open_or_make(folder)) as storage:
            with storage.write() as tx:
                license_store.save_new_licenses(tx, [a_license()])
            with storage.read() as tx:
                license_store.find_licenses(tx, [KEY])
            files = sorted(folder.iterdir())
            assert [one.name for one in files] == [
                "keywright.db",
                "keywright.db-shm",
                "keywright.db-wal",
                "keywright.db.lock",
            ]
            assert {one.name: oct(mode_of(one)) for one in files} == {one.name: "0o600" for one in files}
    finally:
        os.umask(before)
    assert mode_of(folder) == 0o700


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///keywright.db", Path("keywright.db")),
        ("sqlite:///data/keywright.db", Path("data/keywright.db")),
        ("sqlite:////var/lib/keywright.db", Path("/var/lib/keywright.db")),
        ("sqlite:///with%20space.db", Path("with space.db")),
        ("postgresql://alice@host/db", None),
        ("postgres:///db", None),
    ],
)
def test_a_url_names_a_file_or_a_server(url: str, path: Path | None) -> None:
    assert database_path(url) == path


@pytest.mark.parametrize(
    "url",
    [
        "",
        "keywright.db",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/file.db",
        "sqlite:///a.db?mode=ro",
        "mysql://h/d",
    ],
)
def test_another_url_names_no_database(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is invalid"):
        open_storage(url, KEY_RING)


def test_a_refused_url_is_told_without_its_password() -> None:
    with pytest.raises(ConfigurationError) as refused:
        database_path("mysql://alice:pa@ss@host/db")
    assert "pa@ss" not in str(refused.value)
    assert "host/db" in str(refused.value)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be created"):
        open_storage(f"sqlite:///{tmp_path}/file/data/keywright.db", KEY_RING)


def test_a_database_whose_making_was_interrupted_is_finished(tmp_path: Path) -> None:
    open_or_make(tmp_path).close()
    change(url_of(tmp_path), "DELETE FROM installation")
    open_or_make(tmp_path).close()
    with pytest.raises(StoreError, match="another secret"):
        open_or_make(tmp_path, OTHER_RING)


@pytest.mark.parametrize(
    ("statements", "key_ring", "problem"),
    [
        ((), OTHER_RING, "another secret"),
        ((NEWER, "UPDATE installation SET oldest_compatible_revision = NULL"), KEY_RING, "newer Keywright"),
        ((NEWER, "UPDATE installation SET oldest_compatible_revision = '9999'"), KEY_RING, "newer Keywright"),
    ],
)
def test_a_database_that_cannot_be_used_is_refused_and_left_as_it_was(
    url: str, tmp_path: Path, statements: tuple[str, ...], key_ring: KeyRing, problem: str
) -> None:
    before = change(url, *statements)
    with pytest.raises(StoreError, match=problem):
        open_storage(url, key_ring)
    assert change(url) == before
    assert list(tmp_path.rglob("backups")) == []


@pytest.mark.parametrize(
    "tables",
    [
        ("CREATE TABLE users (name TEXT)", "INSERT INTO users VALUES ('soup')"),
        # Many programs have such revisions.
        ("CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('0001')"),
    ],
)
def test_a_database_of_another_program_is_refused_and_left_as_it_was(
    elsewhere: str, tables: tuple[str, ...]
) -> None:
    before = change(elsewhere, *tables)
    with pytest.raises(StoreError, match="another program"):
        open_storage(elsewhere, KEY_RING)
    assert change(elsewhere) == before


def test_a_newer_database_that_this_version_may_use_is_opened_with_a_warning(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = change(url, NEWER, f"UPDATE installation SET oldest_compatible_revision = '{HEAD}'")  # noqa: S608
    with closing(open_storage(url, KEY_RING)):
        assert "updated by a newer Keywright" in caplog.text
    assert change(url) == before


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "keywright.db"
    path.write_bytes(b"dear diary\n" * 1000)
    with pytest.raises(StoreUnavailable, match="not a database"):
        open_or_make(tmp_path)
    assert path.read_bytes() == b"dear diary\n" * 1000


def test_a_folder_in_the_place_of_the_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "keywright.db").mkdir()
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        open_storage(url_of(tmp_path), KEY_RING)


def test_a_lock_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "keywright.db.lock").mkdir()
    with pytest.raises(StoreUnavailable):
        open_or_make(tmp_path)


MOUNTS = """\
/dev/vda1 / ext4 rw 0 0
server:/export /srv/nfs nfs4 rw 0 0
/dev/vdb1 /srv/nfs/local xfs rw 0 0
//host/share /mnt/with\\040space cifs rw 0 0
me@host:/home /mnt/ssh fuse.sshfs rw 0 0
drive /mnt/drive fuse.drive rw 0 0
hostshare /mnt/vm 9p rw 0 0
systemd-1 /mnt/auto autofs rw 0 0
server:/auto /mnt/auto nfs4 rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    listed = tmp_path / "mounts"
    listed.write_text(MOUNTS)
    monkeypatch.setattr(sqlite, "_MOUNTS", listed)
    return listed


#: Folders, and the error or warning for a database in each.
FOLDERS = {
    **dict.fromkeys(("/srv/nfs", "/srv/nfs/data/deep", "/mnt/with space/data"), "network file system"),
    **dict.fromkeys(("/mnt/ssh/data", "/mnt/auto/data"), "network file system"),
    **dict.fromkeys(("/mnt/drive/data", "/mnt/vm"), "make sure that its locks and syncs hold"),
    **dict.fromkeys(("/", "/srv/nfsdata", "/srv/nfs/local/data", "/var/lib"), ""),
}


@pytest.mark.usefixtures("mounts")
@each_row(("folder", "problem"), FOLDERS.items())
def test_a_network_file_system_is_refused_and_one_that_may_be_remote_is_warned_about(
    folder: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    is_refused = problem == "network file system"
    with pytest.raises(StoreError, match=problem) if is_refused else nullcontext():
        sqlite.refuse_network_file_system(Path(folder))
    logged = "" if is_refused else problem
    assert (bool(caplog.records), logged in caplog.text) == (logged != "", True)


def test_a_system_that_tells_no_mounts_is_trusted(mounts: Path) -> None:
    mounts.unlink()
    sqlite.refuse_network_file_system(Path("/srv/nfs"))


def test_a_database_on_a_network_file_system_is_not_made(mounts: Path, tmp_path: Path) -> None:
    mounts.write_text(f"server:/export {tmp_path} nfs rw 0 0\n")
    with pytest.raises(StoreError, match="network file system"):
        open_or_make(tmp_path)
    assert not (tmp_path / "keywright.db").exists()
