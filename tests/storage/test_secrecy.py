"""A stolen database tells no license key: the bytes are searched in everything that lies in the folder."""

import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from keywright import access
from keywright.batches import Batches
from keywright.model import KeptAnswer, LicenseRecord, Permissions, Role
from keywright.storage import Storage
from keywright.storage.sqlite import copy
from tests.makers import (
    NOW,
    a_retry,
    a_storage,
    activate,
    create,
    create_generator,
    deactivate_all,
    delete,
    generate,
    rename,
    update,
)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with closing(a_storage(tmp_path)) as storage:
        yield storage


def found_in(folder: Path, text: str) -> list[str]:
    """The files in which the text stands, read byte by byte, also as UTF-16 and in hex."""
    shapes = [text.encode(), text.encode("utf-16-le"), text.encode().hex().encode()]
    files = [one for one in folder.rglob("*") if one.is_file()]
    assert any(one.suffix == ".db" for one in files)
    return [one.name for one in files if any(shape in one.read_bytes() for shape in shapes)]


def a_canary() -> str:
    return f"CANARY-{secrets.token_hex(16)}"


def as_answer(outcome: LicenseRecord) -> bytes:
    tokens = [one.token for one in outcome.activations]
    return json.dumps({"licenseKey": outcome.license.key, "tokens": tokens}).encode()


def test_the_search_finds_what_is_not_sealed(storage: Storage, tmp_path: Path) -> None:
    canary = a_canary()
    Batches(storage).change([create("key"), activate("key", label=canary)])
    assert found_in(tmp_path, canary) == ["keywright.db-wal"]


def test_no_license_key_stands_in_the_database_its_log_or_a_copy(storage: Storage, tmp_path: Path) -> None:
    canaries = [a_canary() for _ in range(100)]
    batches = Batches(storage)
    for canary in canaries:
        new_name = a_canary()
        batches.change([create(canary, retry=a_retry(canary, write=as_answer)), activate(canary)])
        batches.change([update(canary, product_id=7), rename(canary, new_name), activate(new_name)])
        batches.change([create("taken"), rename(new_name, "taken"), activate(canary)])
        batches.change([deactivate_all(new_name), delete(new_name), delete("taken")])
        assert found_in(tmp_path, new_name) == []
    (tmp_path / "copies").mkdir()
    copy(storage.path, tmp_path / "copies" / "copy.db")
    storage.close()
    assert [found for canary in canaries if (found := found_in(tmp_path, canary))] == []


def test_no_generated_key_stands_in_the_database(storage: Storage, tmp_path: Path) -> None:
    batches = Batches(storage)
    generator = batches.change([create_generator()])[0]
    (records,) = batches.change([generate(generator.id, 100)])
    found: list[Any] = [found_in(tmp_path, record.license.key) for record in records]
    assert found == [[]] * 100


def test_a_kept_answer_is_sealed_for_its_call(storage: Storage, tmp_path: Path) -> None:
    key, token = a_canary(), secrets.token_hex(20)
    body = json.dumps({"licenseKey": key, "activationData": {"token": token}}).encode()
    with storage.write() as tx:
        tx.save_kept_answer(b"1" * 32, KeptAnswer(b"d" * 32, 200, body), NOW)
    assert found_in(tmp_path, key) == found_in(tmp_path, token) == []
    with storage.write() as tx:
        tx._connection.exec_driver_sql("UPDATE kept_answers SET scope = ?", (b"2" * 32,))
    with pytest.raises(ValueError, match="another place"), storage.read() as tx:
        tx.find_kept_answers([b"2" * 32])


def test_no_credential_and_no_password_stands_in_the_database(storage: Storage, tmp_path: Path) -> None:
    issued = access.issue_api_key(storage, "shop", Permissions.READ, NOW)
    access.create_user(storage, "alice", Role.ADMINISTRATOR, "correct horse battery staple", NOW)
    for secret in (issued.consumer_key, issued.consumer_secret, "correct horse battery staple"):
        assert found_in(tmp_path, secret) == []


def test_neither_the_secret_nor_what_derives_from_it_stands_in_the_database(
    storage: Storage, tmp_path: Path
) -> None:
    Batches(storage).change([create("key"), activate("key")])
    everything = b"".join(one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    ring = storage._key_ring
    assert ring.secret_mark.encode() in everything
    assert ring._finding not in everything
    assert ring.fingerprint("key") in everything
