"""A stolen database tells no license key: the bytes are searched in everything that there is of it."""

import json
import secrets
import subprocess
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import update as update_table

from keywright.core.errors import LicenseKeyTaken, RejectedByDatabase, StoreConflict
from keywright.db import Storage, database_path
from keywright.db.copies import write_copy
from keywright.db.schema import idempotency_records
from keywright.engine import idempotency
from keywright.engine.executor import Executor
from keywright.engine.idempotency import IdempotencyRecord
from keywright.identity import passwords, sessions
from keywright.identity.model import Permissions
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import store as license_store
from keywright.registry import open_executor
from tests.databases import execute, postgres
from tests.makers import (
    KEY_RING,
    NOW,
    a_license,
    a_retry,
    a_storage,
    activate,
    create,
    create_policy,
    create_user,
    deactivate_all,
    delete,
    generate,
    issue_api_key,
    refuse_sign_in,
    rename,
    start_session,
    update,
)
from tools.postgres import binaries

DATABASES = ("sqlite",)

pytestmark = pytest.mark.tier("ordinary")

#: Reads everything that somebody has who stole the database: files by name.
Everything = Callable[[], dict[str, bytes]]


@pytest.fixture
def everything(database: str, url: str, storage: Storage) -> Everything:
    """Of SQLite the folder; of PostgreSQL its files, its log of writes and its log, and a dump."""
    if database == "sqlite":
        folder = database_path(url)
        assert folder is not None
        return partial(files_in, folder.parent)
    return Cluster(url).everything


def files_in(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.rglob("*") if one.is_file()}


class Cluster:
    """What a server keeps of a database."""

    def __init__(self, url: str) -> None:
        """From now on."""
        self._url = url
        self._log_before = postgres().log.stat().st_size
        self._segment = str(execute(url, "SELECT pg_walfile_name(pg_current_wal_lsn())")[0][0])

    def everything(self) -> dict[str, bytes]:
        execute(self._url, "CHECKPOINT")
        data = postgres().folder / "data"
        oid = execute(self._url, "SELECT oid FROM pg_database WHERE datname = current_database()")[0][0]
        segments = {one.name: one for one in (data / "pg_wal").iterdir() if one.is_file()}
        return {
            **files_in(data / "base" / str(oid)),
            **{name: one.read_bytes() for name, one in segments.items() if name >= self._segment},
            "log": postgres().log.read_bytes()[self._log_before :],
            "dump": subprocess.run(
                [str(binaries() / "pg_dump"), self._url], capture_output=True, check=True
            ).stdout,
        }


def find_in(files: dict[str, bytes], text: str) -> list[str]:
    """The files in which the text stands, byte by byte, also as UTF-16 and in hex."""
    shapes = [text.encode(), text.encode("utf-16-le"), text.encode().hex().encode()]
    return [name for name, content in files.items() if any(shape in content for shape in shapes)]


@pytest.fixture
def canary() -> str:
    """What every secret of a test begins with; where it is not, none of them is."""
    return f"CANARY-{secrets.token_hex(16)}"


def as_answer(outcome: LicenseRecord) -> bytes:
    tokens = [one.token for one in outcome.activations]
    return json.dumps({"licenseKey": outcome.license.key, "tokens": tokens}).encode()


def test_the_search_finds_what_is_not_sealed(
    executor: Executor, everything: Everything, database: str, canary: str
) -> None:
    # Five times: one of them may be cut in two where a page of PostgreSQL's log ends.
    executor.execute([create("key", limit=5), *(activate("key", label=canary) for _ in range(5))])
    found = find_in(everything(), canary)
    if database == "sqlite":
        assert found == ["keywright.db-wal"]
    else:
        # In the table, in the log of writes, in the dump.
        assert {name for name in found if not name.isalnum() or name.isalpha()} == {"dump"}
        assert sorted(len(name) > 20 for name in found if name != "dump") == [False, True]


def test_no_license_key_stands_in_the_database_its_log_or_a_copy(
    executor: Executor, everything: Everything, canary: str
) -> None:
    for n in range(30):
        old, new = f"{canary}-{n}", f"{canary}-{n}-new"
        executor.execute([create(old, idempotency=a_retry(old, write=as_answer)), activate(old)])
        executor.execute([update(old, product_id=7), rename(old, new), activate(new)])
        executor.execute([create("taken"), rename(new, "taken"), activate(old)])
        executor.execute([deactivate_all(new), delete(new), delete("taken")])
        if n % 10 == 0:
            assert find_in(everything(), canary) == []
    assert find_in(everything(), canary) == []


def test_no_license_key_stands_in_a_copy_or_in_what_is_left_after_closing(
    tmp_path: Path, canary: str
) -> None:
    with closing(a_storage(tmp_path)) as storage:
        open_executor(storage).execute([create(canary), activate(canary)])
        write_copy(storage.path, tmp_path / "copy.db")
    assert set(files_in(tmp_path)) == {"keywright.db", "keywright.db.lock", "copy.db"}
    assert find_in(files_in(tmp_path), canary) == []


def test_no_generated_key_stands_in_the_database(executor: Executor, everything: Everything) -> None:
    generator = executor.execute([create_policy()])[0]
    (records,) = executor.execute([generate(generator.id, 20)])
    files = everything()
    assert [find_in(files, record.license.key) for record in records] == [[]] * 20


@pytest.mark.smoke
def test_a_kept_answer_is_sealed_for_its_call(storage: Storage, everything: Everything, canary: str) -> None:
    body = json.dumps({"licenseKey": f"{canary}-1", "activationData": {"token": canary}}).encode()
    with storage.write() as tx:
        record = IdempotencyRecord(b"d" * 32, 200, body)
        idempotency.save_idempotency_records(tx, {b"1" * 32: record}, {b"1" * 32: NOW})
    assert find_in(everything(), canary) == []
    with storage.write() as tx:
        tx.connection.execute(update_table(idempotency_records).values(scope=b"2" * 32))
    with pytest.raises(ValueError, match="another place"), storage.write() as tx:
        idempotency.lock_idempotency_records(tx, [b"2" * 32])


def test_no_credential_and_no_password_stands_in_the_database(
    storage: Storage, everything: Everything
) -> None:
    issued = issue_api_key(storage, "shop", Permissions.READ, NOW)
    password, token = "correct horse battery staple", sessions.new_session_token()
    user = create_user(password_hash=passwords.hash_password(password))
    # People type their passwords into the wrong field.
    open_executor(storage).execute([user, start_session(1, token), refuse_sign_in(password)])
    files = everything()
    for secret in (issued.consumer_key, issued.consumer_secret, password, token):
        assert find_in(files, secret) == []


def test_neither_the_secret_nor_what_derives_from_it_stands_in_the_database(
    executor: Executor, everything: Everything
) -> None:
    executor.execute([create("key"), activate("key")])
    content = b"".join(everything().values())
    assert KEY_RING.secret_id.encode() in content
    assert KEY_RING._finding not in content
    assert KEY_RING._finding.hex().encode() not in content
    assert KEY_RING.blind_index("key") in content


def test_what_the_server_writes_into_its_log_holds_no_license_key(
    storage: Storage, everything: Everything, canary: str
) -> None:
    open_executor(storage).execute([create(canary), create("b")])
    outcomes = open_executor(storage).execute(
        [rename("b", canary), create("c", order_id=2**63), create(canary)]
    )
    assert [type(one) for one in outcomes] == [LicenseKeyTaken, RejectedByDatabase, LicenseKeyTaken]
    with pytest.raises((RejectedByDatabase, StoreConflict)), storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(id=tx.ids.next("license"), key=canary)])
    assert find_in(everything(), canary) == []
