"""A backup brings back what was there, to the row; and what is no whole backup brings back nothing."""

import json
import os
import random
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.crypto import KeyRing
from keywright.core.errors import ConfigurationError, StoreError
from keywright.db import Storage, database_path, open_storage
from keywright.db.sqlite import connect
from keywright.engine.executor import Executor
from keywright.identity import api_keys
from keywright.identity.model import Permissions
from keywright.maintenance.backup import Backup, Made, make_backup, restore
from keywright.maintenance.backup.container import write
from keywright.maintenance.doctor import examine
from tests.databases import a_postgres_url, execute
from tests.makers import (
    KEY_RING,
    NOW,
    SECRET,
    a_retry,
    activate,
    create,
    create_generator,
    create_user,
    delete,
    url_of,
    validate,
)
from tests.proving import record, size
from tests.storage.test_copying import contents, fill
from tests.storage.test_migrations import NEXT, use_scripts
from tests.storage.test_secrecy import as_answer, found_in
from tools.postgres import binaries

OTHER = "another secret, 32 bytes or more"


@pytest.fixture(autouse=True)
def programs(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump and pg_restore of the server's version are there."""
    if database == "postgresql":
        monkeypatch.setenv("PATH", f"{binaries()}:{os.environ['PATH']}")


@pytest.fixture
def elsewhere(database: str, tmp_path: Path) -> Iterator[str]:
    """A place of the same kind where nothing is."""
    if database == "sqlite":
        yield url_of(tmp_path / "elsewhere")
        return
    with a_postgres_url(empty=True) as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the backup goes to."""
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "keywright.tar"


def ignore(_what: str, _done: int, _total: int) -> None:
    """Hears how far it is."""


def back_up(
    url: str,
    file: Path,
    *,
    key_ring: KeyRing | None = KEY_RING,
    secret: str | None = None,
    is_overwriting: bool = False,
) -> Made:
    return make_backup(
        url,
        file,
        made_by="a test",
        key_ring=key_ring,
        secret=secret,
        is_overwriting=is_overwriting,
        progress=ignore,
    )


def bring_back(
    file: Path,
    url: str,
    *,
    key_ring: KeyRing = KEY_RING,
    is_unsigned: bool = False,
    is_overwriting: bool = False,
    before_replacing: Callable[[], None] = lambda: None,
) -> Path | None:
    with closing(Backup(file)) as found:
        return restore(
            found,
            url,
            key_ring,
            is_unsigned=is_unsigned,
            is_overwriting=is_overwriting,
            before_replacing=before_replacing,
            progress=ignore,
        )


def check(file: Path, signed_by: KeyRing | None = KEY_RING) -> None:
    with closing(Backup(file)) as found:
        found.read(None, ignore, signed_by=signed_by)


def is_sound(storage: Storage) -> bool:
    return not list(examine(storage, lambda _: None))


def test_every_row_comes_back_and_the_numbers_go_on(
    storage: Storage, url: str, file: Path, elsewhere: str
) -> None:
    fill(storage)
    before = contents(storage)
    made = back_up(url, file)
    assert made.size == file.stat().st_size
    assert made.manifest.contents.licenses == len(before["licenses"])
    assert made.manifest.contents.events == len(before["events"])
    assert bring_back(file, elsewhere) is None
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        assert contents(new) == before
        assert is_sound(new)
        executor = Executor(new)
        record, other, generator = executor.execute([activate("A"), create("B"), create_generator()])
        assert record.activations[0].id > max(row["id"] for row in before["activations"])
        assert other.license.id > max(row["id"] for row in before["licenses"])
        assert generator.id == 2


def test_what_comes_after_the_backup_is_gone_and_its_numbers_are_not_given_again(
    storage: Storage, executor: Executor, url: str, file: Path
) -> None:
    executor.execute([create("before"), activate("before")])
    back_up(url, file)
    lost, taken, generator = executor.execute([create("after"), activate("before"), create_generator()])
    (deleted,) = executor.execute([create("deleted")])
    executor.execute([delete("deleted")])
    storage.close()
    kept = bring_back(file, url, is_overwriting=True)
    with closing(open_storage(url, KEY_RING)) as restored:
        executor = Executor(restored)
        record, made, other = executor.execute([activate("before"), create("new"), create_generator()])
        assert record.license.times_activated == 2
        assert record.activations[0].id > taken.activations[0].id
        assert made.license.id > deleted.license.id > lost.license.id
        assert other.id > generator.id
        assert is_sound(restored)
    path = database_path(url)
    if path is None:
        assert kept is None
        return
    assert kept is not None
    assert kept.parent == path.parent
    assert kept.name.startswith("keywright.db.before-restore-")
    assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(open_storage(f"sqlite:///{kept}", KEY_RING)) as old:
        assert Executor(old).query([validate("after")])[0].license.id == lost.license.id


def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    executor: Executor, url: str, file: Path, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    use_scripts(file.parent / "scripts", NEXT, monkeypatch)
    bring_back(file, elsewhere)
    with closing(open_storage(elsewhere, KEY_RING)) as new, new.read() as tx:
        assert tx.connection.exec_driver_sql("SELECT note FROM licenses").fetchall() == [("migrated",)]


def test_an_installation_with_nothing_in_it_is_replaced_unasked(
    storage: Storage, executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    open_storage(elsewhere, KEY_RING).close()
    assert bring_back(file, elsewhere) is None
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        assert len(contents(new)["licenses"]) == 1


def test_what_is_there_is_not_replaced_unasked(
    storage: Storage, executor: Executor, url: str, file: Path
) -> None:
    executor.execute([create("A"), activate("A")])
    back_up(url, file)
    executor.execute([create("B")])
    storage.close()
    with pytest.raises(StoreError, match=r"already: 2 licenses, 1 activation and 3 events, .*--overwrite"):
        bring_back(file, url)
    with closing(open_storage(url, KEY_RING)) as same:
        assert len(contents(same)["licenses"]) == 2


def test_nothing_is_replaced_while_somebody_is_there(
    storage: Storage, executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    with closing(open_storage(elsewhere, KEY_RING)) as running:
        Executor(running).execute([create("B")])
        with pytest.raises(StoreError, match="is in use"):
            bring_back(file, elsewhere, is_overwriting=True)
        assert Executor(running).execute([create("C")])[0].license.key == "C"
    bring_back(file, elsewhere, is_overwriting=True)
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        assert len(contents(new)["licenses"]) == 1


def test_what_goes_wrong_at_the_last_moment_changes_nothing(
    storage: Storage, executor: Executor, url: str, file: Path
) -> None:
    def fail() -> None:
        raise ConfigurationError

    executor.execute([create("A")])
    back_up(url, file)
    executor.execute([create("B")])
    before = contents(storage)
    storage.close()
    with pytest.raises(ConfigurationError):
        bring_back(file, url, is_overwriting=True, before_replacing=fail)
    with closing(open_storage(url, KEY_RING)) as same:
        assert contents(same) == before
        Executor(same).execute([create("C")])
        assert is_sound(same)


def test_a_backup_has_its_name_when_it_is_whole_and_is_for_its_owner(
    executor: Executor, url: str, file: Path
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    assert list(file.parent.iterdir()) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first = file.read_bytes()
    with pytest.raises(StoreError, match="is there already"):
        back_up(url, file)
    assert file.read_bytes() == first
    executor.execute([create("B")])
    back_up(url, file, is_overwriting=True)
    assert list(file.parent.iterdir()) == [file]
    assert file.read_bytes() != first


def test_nothing_but_a_backup_is_overwritten_by_one(
    storage: Storage, url: str, file: Path, tmp_path: Path
) -> None:
    file.write_text("a letter")
    for wrong, said in (
        (file, "is no backup .* left alone"),
        (file.parent, "is a folder"),
        (tmp_path / "no" / "file", "there is no folder"),
        *([(path, "is no backup")] if (path := database_path(url)) else []),
    ):
        with pytest.raises(StoreError, match=said):
            back_up(url, wrong, is_overwriting=True)
    assert file.read_text() == "a letter"
    file.write_text("")
    back_up(url, file, is_overwriting=True)
    check(file)


def rewrite(file: Path, folder: Path, **changes: Any) -> None:
    """Let it say something else, in good form."""
    payload = folder / "payload"
    with closing(Backup(file)) as found, payload.open("wb") as output:
        found.read(output, ignore, signed_by=KEY_RING)
    with file.open("wb") as output:
        write(
            output,
            replace(found.manifest, **changes),
            payload,
            found.secret,
            signed_by=KEY_RING,
            progress=ignore,
        )


def test_every_changed_byte_is_noticed(
    executor: Executor, database: str, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A"), activate("A")])
    back_up(url, file, secret=SECRET.decode())
    whole = file.read_bytes()
    # Headers, manifest, secret, sums and the end stand in the first and last blocks.
    edges = [*range(4 * 512), *range(len(whole) - 6 * 512, len(whole))]
    tried = random.sample(edges, min(len(edges), size(200, len(edges))))
    tried += random.choices(range(len(whole)), k=size(200, 20_000))
    unnoticed = []
    for position in tried:
        changed = bytearray(whole)
        changed[position] ^= 1 << random.randrange(8)
        file.write_bytes(changed)
        try:
            check(file)
        except StoreError:
            continue
        unnoticed.append(position)
    record(
        "R16",
        database,
        counted={"changed bytes": len(tried), "changed bytes that nobody noticed": len(unnoticed)},
    )
    assert unnoticed == []
    with pytest.raises(StoreError):
        bring_back(file, elsewhere)
    assert_nothing_is_at(elsewhere)


def assert_nothing_is_at(url: str) -> None:
    path = database_path(url)
    if path is not None:
        assert {one.name for one in path.parent.glob("*")} <= {"keywright.db.lock"}
    else:
        assert execute(url, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []


def test_a_file_of_any_other_length_is_no_backup(
    executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    whole = file.read_bytes()
    lengths = [0, 1, 511, 512, 513, 1024, len(whole) - 1025, len(whole) - 1024, len(whole) - 1]
    for length in [*lengths, *random.choices(range(len(whole)), k=50)]:
        file.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"is cut off|is damaged|is no backup"):
            check(file)
    file.write_bytes(whole + b"\0")
    with pytest.raises(StoreError, match="is damaged"):
        bring_back(file, elsewhere)
    assert_nothing_is_at(elsewhere)


def test_a_backup_of_something_newer_is_left_to_something_newer(
    storage: Storage, url: str, file: Path, elsewhere: str, tmp_path: Path
) -> None:
    back_up(url, file)
    rewrite(file, tmp_path, revision="9999")
    with pytest.raises(StoreError, match=r"newer Keywright .*a test; its schema is '9999'"):
        bring_back(file, elsewhere)
    rewrite(file, tmp_path, format=3)
    with pytest.raises(StoreError, match="newer Keywright"):
        bring_back(file, elsewhere)


def test_what_a_backup_says_of_itself_is_compared_with_what_it_holds(
    storage: Storage, url: str, file: Path, elsewhere: str, tmp_path: Path
) -> None:
    contents = back_up(url, file).manifest.contents
    rewrite(file, tmp_path, contents=replace(contents, licenses=7))
    with pytest.raises(StoreError, match="what is not so"):
        bring_back(file, elsewhere)
    assert_nothing_is_at(elsewhere)


def test_a_backup_goes_into_a_database_of_its_own_kind(
    storage: Storage, database: str, url: str, file: Path, tmp_path: Path
) -> None:
    back_up(url, file)
    other = "postgresql://nobody@127.0.0.1:1/x" if database == "sqlite" else url_of(tmp_path / "other")
    with pytest.raises(StoreError, match="then `keywright copy` that"):
        bring_back(file, other)


# --- signatures -----------------------------------------------------------------------------------


def alter(url: str) -> None:
    """What someone would like to find after the next restore: their password, and no limit."""
    changes = ("UPDATE users SET password_hash = 'mine'", "UPDATE licenses SET places = 9")
    path = database_path(url)
    if path is None:
        for change in changes:
            execute(url, change)
        return
    with closing(connect(path, "rw")) as connection:
        for change in changes:
            connection.execute(change)


def parts_of(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {one.name: content.read() for one in archive if (content := archive.extractfile(one))}


def forge(file: Path, parts: dict[str, bytes]) -> None:
    """Put these parts into a well-formed backup, with new sums and without Keywright."""
    moment = datetime.fromisoformat(json.loads(parts["manifest.json"])["made_at"])
    summed = [name for name in parts if name not in ("SHA256SUMS", "signature")]
    sums = "".join(f"{sha256(parts[name]).hexdigest()}  {name}\n" for name in summed)
    parts = parts | {"SHA256SUMS": sums.encode()}
    with file.open("wb") as output:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), int(moment.timestamp()), 0o600
            output.write(info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512))
        output.write(bytes(1024))


def said_by(parts: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    """The same parts with another manifest, which says what is so of everything that is compared."""
    return parts | {"manifest.json": json.dumps(json.loads(parts["manifest.json"]) | changes).encode()}


def without_signature(parts: dict[str, bytes]) -> dict[str, bytes]:
    return {name: part for name, part in parts.items() if name != "signature"}


def test_an_altered_backup_is_refused_though_its_sums_were_computed_again(
    executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A"), create_user("alice")])
    back_up(url, file)
    signed = parts_of(file)
    alter(url)
    back_up(url, file, key_ring=None, is_overwriting=True)
    unsigned = parts_of(file)
    altered = said_by(unsigned, is_signed=True) | {"signature": signed["signature"]}
    for parts, said in (
        (altered, "its signature does not match"),
        (altered | {"signature": b"0" * 64 + b"\n"}, "its signature does not match"),
        (unsigned, "is not signed"),
        (said_by(unsigned, format=1), "is not signed"),
        (said_by(signed, made_by="Keywright 9"), "its signature does not match"),
    ):
        forge(file, parts)
        with pytest.raises(StoreError, match=f"{said}.* passwords and limits .*--unsigned"):
            check(file)
        with pytest.raises(StoreError, match=said):
            bring_back(file, elsewhere)
        assert_nothing_is_at(elsewhere)


def test_a_backup_without_a_signature_is_restored_when_that_is_said(
    executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    older = said_by(without_signature(parts_of(file)), format=1)
    manifest = json.loads(older["manifest.json"])
    del manifest["is_signed"]
    forge(file, older | {"manifest.json": json.dumps(manifest).encode()})
    with pytest.raises(StoreError, match="--unsigned"):
        bring_back(file, elsewhere)
    bring_back(file, elsewhere, is_unsigned=True)
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        assert len(contents(new)["licenses"]) == 1
    back_up(url, file, key_ring=None, is_overwriting=True)
    with pytest.raises(StoreError, match="--unsigned"):
        check(file)
    check(file, signed_by=None)


# --- secrets --------------------------------------------------------------------------------------


def test_no_license_key_and_no_secret_stands_in_a_backup(
    storage: Storage, executor: Executor, url: str, file: Path, tmp_path: Path
) -> None:
    canary = "CANARY-5f1d"
    executor.execute(
        [create(f"{canary}-{n}", retry=a_retry(str(n), write=as_answer)) for n in range(size(100, 1_000))]
    )
    issued = api_keys.issue_api_key(storage, "shop", Permissions.READ, NOW)
    back_up(url, file)
    everything = {"backup": file.read_bytes()}
    with closing(Backup(file)) as found, (tmp_path / "payload").open("wb") as output:
        found.read(output, ignore, signed_by=KEY_RING)
    if found.manifest.database == "postgresql":
        # Without compression.
        script = [str(binaries() / "pg_restore"), "--file=-", str(tmp_path / "payload")]
        everything["rows"] = subprocess.run(script, check=True, capture_output=True).stdout
    assert found.secret is None
    for one in (canary, SECRET.decode(), issued.consumer_key, issued.consumer_secret):
        assert found_in(everything, one) == []
    back_up(url, file, secret=SECRET.decode(), is_overwriting=True)
    assert found_in({"backup": file.read_bytes()}, SECRET.decode()) == ["backup"]
    with closing(Backup(file)) as found:
        assert found.secret == SECRET.decode()


def test_nothing_is_restored_that_could_not_be_read(
    storage: Storage, url: str, file: Path, elsewhere: str
) -> None:
    back_up(url, file)
    with pytest.raises(StoreError, match="another secret"):
        bring_back(file, elsewhere, key_ring=KeyRing(OTHER.encode()))
    assert_nothing_is_at(elsewhere)


def test_only_the_right_secret_goes_into_a_backup(storage: Storage, url: str, file: Path) -> None:
    with pytest.raises(StoreError, match="not the one that this database was written with"):
        back_up(url, file, key_ring=KeyRing(OTHER.encode()), secret=OTHER)
    assert list(file.parent.iterdir()) == []
