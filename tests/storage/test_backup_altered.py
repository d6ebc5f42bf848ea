"""A backup that was damaged, altered, or signed with another secret is refused; it reveals no secret."""

import json
import random
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreError
from keywright.db import Storage, database_path, open_storage
from keywright.db.sqlite import connect
from keywright.engine.executor import Executor
from keywright.identity.model import Permissions
from keywright.maintenance.backup import Backup
from keywright.maintenance.backup.archive import write
from tests.backups import back_up, build_backup, check_backup, extract_parts, ignore_progress, restore_backup
from tests.databases import execute
from tests.makers import (
    KEY_RING,
    NOW,
    SECRET,
    a_retry,
    activate,
    create,
    create_user,
    issue_api_key,
)
from tests.proving import record, size
from tests.storage.test_copy import contents
from tests.storage.test_secrecy import as_answer, find_in
from tools.postgres import binaries

DATABASES = ("sqlite",)

pytestmark = pytest.mark.usefixtures("programs")
OTHER = "another secret, 32 bytes or more"


def rewrite(file: Path, folder: Path, **changes: Any) -> None:
    """Write it again, well-formed and signed, with another manifest."""
    payload = folder / "payload"
    with closing(Backup(file)) as backup, payload.open("wb") as output:
        backup.read(output, ignore_progress, signed_by=KEY_RING)
    manifest = replace(backup.manifest, **changes)
    with file.open("wb") as output:
        write(output, manifest, payload, backup.secret, signed_by=KEY_RING, progress=ignore_progress)


def test_every_changed_byte_is_noticed(
    executor: Executor, database: str, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A"), activate("A")])
    back_up(url, file, secret=SECRET.decode())
    whole = file.read_bytes()
    # Headers, manifest, secret, signature and the end are in the first and last blocks.
    edges = [*range(4 * 512), *range(len(whole) - 22 * 512, len(whole))]
    tried = random.sample(edges, min(len(edges), size(200, len(edges))))
    tried += random.choices(range(len(whole)), k=size(200, 20_000))
    unnoticed = []
    for position in tried:
        changed = bytearray(whole)
        changed[position] ^= 1 << random.randrange(8)
        file.write_bytes(changed)
        try:
            check_backup(file)
        except StoreError:
            continue
        unnoticed.append(position)
    record(
        "R16",
        database,
        counted={"changed bytes": len(tried), "changed bytes not noticed": len(unnoticed)},
    )
    assert unnoticed == []
    with pytest.raises(StoreError):
        restore_backup(file, elsewhere)
    assert_nothing_is_at(elsewhere)


def assert_nothing_is_at(url: str) -> None:
    path = database_path(url)
    if path is not None:
        assert {one.name for one in path.parent.glob("*")} <= {"keywright.db.lock"}
    else:
        assert execute(url, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []


def test_a_backup_of_another_length_is_refused(
    executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    whole = file.read_bytes()
    lengths = [0, 1, 511, 512, 513, 1024, len(whole) - 10_241, len(whole) - 10_240, len(whole) - 1]
    for length in [*lengths, *random.choices(range(len(whole)), k=50)]:
        file.write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"is damaged|is not a backup"):
            check_backup(file)
    file.write_bytes(whole + b"\0")
    with pytest.raises(StoreError, match="is damaged"):
        restore_backup(file, elsewhere)
    assert_nothing_is_at(elsewhere)


def test_a_backup_of_a_newer_schema_or_another_format_is_refused(
    storage: Storage, url: str, file: Path, elsewhere: str, tmp_path: Path
) -> None:
    back_up(url, file)
    rewrite(file, tmp_path, revision="9999")
    with pytest.raises(StoreError, match=r"newer Keywright .*a test; its schema is '9999'"):
        restore_backup(file, elsewhere)
    for format in (2, 4):
        back_up(url, file, is_overwriting=True)
        rewrite(file, tmp_path, format=format)
        said = rf"has backup format {format}, but this version of Keywright reads format 3\. .* \(a test\)"
        with pytest.raises(StoreError, match=said):
            restore_backup(file, elsewhere)


def test_the_manifest_is_compared_with_the_database(
    storage: Storage, url: str, file: Path, elsewhere: str, tmp_path: Path
) -> None:
    contents = back_up(url, file).manifest.contents
    rewrite(file, tmp_path, contents=replace(contents, licenses=7))
    with pytest.raises(StoreError, match="does not match its database"):
        restore_backup(file, elsewhere)
    assert_nothing_is_at(elsewhere)


# --- signatures -----------------------------------------------------------------------------------


def alter(url: str) -> None:
    """Change what an attacker would like to find after the next restore: a password, a limit, a customer's
    address, a link into their portal, and where events, mails and the key of a shop's API go.
    """
    path = database_path(url)
    token_hash = f"'\\x{'ab' * 32}'" if path is None else f"x'{'ab' * 32}'"
    changes = (
        "UPDATE users SET password_hash = 'mine'",
        "UPDATE licenses SET places = 9",
        "UPDATE customers SET email = 'eve@example.com', email_folded = 'eve@example.com'",
        f"INSERT INTO portal_links (token_hash, customer_id, expires_at) VALUES ({token_hash}, 1, 9)",  # noqa: S608
        "UPDATE webhook_endpoints SET url = 'https://eve.example/'",
        "UPDATE connections SET url = 'https://eve.example/', mode = 'live'",
        "UPDATE idempotency_records SET owner = 0",
    )
    if path is None:
        for change in changes:
            execute(url, change)
        return
    with closing(connect(path, "rw")) as connection:
        for change in changes:
            connection.execute(change)


def with_manifest(parts: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    return parts | {"manifest.json": json.dumps(json.loads(parts["manifest.json"]) | changes).encode()}


def test_an_altered_backup_is_refused_though_its_sum_was_computed_again(
    executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A"), create_user("alice")])
    back_up(url, file)
    signed = extract_parts(file)
    signature = signed.pop("signature").decode().split()[1]
    alter(url)
    back_up(url, file, key_ring=None, is_overwriting=True)
    altered = extract_parts(file)
    del altered["signature"]
    for parts, lines, message in (
        (altered, [signature], "the signature of .* does not match"),
        (altered, ["0" * 64], "the signature of .* does not match"),
        (altered, [], "is not signed"),
        (signed, [], "is not signed"),
        (with_manifest(signed, made_by="Keywright 9"), [signature], "the signature of .* does not match"),
    ):
        file.write_bytes(build_backup(parts, lines))
        with pytest.raises(StoreError, match=f"{message}.* passwords and limits.*--unsigned"):
            check_backup(file)
        with pytest.raises(StoreError, match=message):
            restore_backup(file, elsewhere)
        assert_nothing_is_at(elsewhere)


def test_what_was_built_by_hand_and_signed_is_a_backup(executor: Executor, url: str, file: Path) -> None:
    """The control of the test above: those backups are refused for their signature alone."""
    back_up(url, file)
    parts = extract_parts(file)
    content = file.read_bytes()
    assert build_backup(parts, parts.pop("signature").decode().split()[1:]) == content


def test_an_unsigned_backup_is_restored_only_when_that_is_allowed(
    executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A")])
    back_up(url, file, key_ring=None)
    with pytest.raises(StoreError, match="--unsigned"):
        check_backup(file)
    with pytest.raises(StoreError, match="--unsigned"):
        restore_backup(file, elsewhere)
    check_backup(file, signed_by=None)
    restore_backup(file, elsewhere, is_unsigned=True)
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        assert len(contents(new)["licenses"]) == 1


# --- secrets --------------------------------------------------------------------------------------


def test_a_backup_holds_no_license_key_and_no_secret(
    storage: Storage, executor: Executor, url: str, file: Path, tmp_path: Path
) -> None:
    canary = "CANARY-5f1d"
    executor.execute(
        [
            create(f"{canary}-{n}", idempotency=a_retry(str(n), write=as_answer))
            for n in range(size(100, 1_000))
        ]
    )
    issued = issue_api_key(storage, "shop", Permissions.READ, NOW)
    back_up(url, file)
    everything = {"backup": file.read_bytes()}
    with closing(Backup(file)) as found, (tmp_path / "payload").open("wb") as output:
        found.read(output, ignore_progress, signed_by=KEY_RING)
    if found.manifest.database == "postgresql":
        # Without compression.
        script = [str(binaries() / "pg_restore"), "--file=-", str(tmp_path / "payload")]
        everything["rows"] = subprocess.run(script, check=True, capture_output=True).stdout
    assert found.secret is None
    for one in (canary, SECRET.decode(), issued.consumer_key, issued.consumer_secret):
        assert find_in(everything, one) == []
    back_up(url, file, secret=SECRET.decode(), is_overwriting=True)
    assert find_in({"backup": file.read_bytes()}, SECRET.decode()) == ["backup"]
    with closing(Backup(file)) as found:
        assert found.secret == SECRET.decode()


def test_a_backup_with_another_secret_is_not_restored(
    storage: Storage, url: str, file: Path, elsewhere: str
) -> None:
    back_up(url, file)
    with pytest.raises(StoreError, match="another secret"):
        restore_backup(file, elsewhere, key_ring=KeyRing(OTHER.encode()))
    assert_nothing_is_at(elsewhere)


def test_only_the_right_secret_goes_into_a_backup(storage: Storage, url: str, file: Path) -> None:
    with pytest.raises(StoreError, match="not the secret that the database was written with"):
        back_up(url, file, key_ring=KeyRing(OTHER.encode()), secret=OTHER)
    assert list(file.parent.iterdir()) == []
