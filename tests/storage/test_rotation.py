"""Rotation of the secret while the database is in use: at every moment, keys are found, and stay unique."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event as Signal

import psycopg
import pytest
from sqlalchemy import select, update

from keywright.core.crypto import KeyRing
from keywright.core.errors import KeywrightError, LicenseKeyTaken, StoreConflict, StoreError, StoreUnavailable
from keywright.db import Storage, open_storage, run_read, run_write
from keywright.db.schema import licenses
from keywright.db.sealed_columns import SEALED_COLUMNS, SecretIds, find_secret_ids
from keywright.jobs import store as jobs
from keywright.licensing.activations import store as activation_store
from keywright.licensing.licenses import store as license_store
from keywright.maintenance.copy import copy
from keywright.maintenance.doctor import examine
from keywright.maintenance.rotation import Progress, Resealed, begin, find_progress, finish, reseal
from keywright.registry import open_executor
from tests.backups import back_up, restore_backup
from tests.databases import a_postgres_url
from tests.makers import (
    KEY_RING,
    SECRET,
    a_license,
    a_retry,
    activate,
    create,
    create_policy,
    create_product,
    generate,
    rename,
    start_trial,
    url_of,
    validate,
)
from tests.server import wait_until
from tests.storage.stored import list_licenses
from tests.storage.test_copy import contents, fill
from tests.storage.test_secrecy import as_answer

DATABASES = ("sqlite",)

pytestmark = [pytest.mark.tier("rest"), pytest.mark.usefixtures("programs")]

NEW = KeyRing(b"the secret after this, 32 bytes or more")
BOTH = KeyRing(b"the secret after this, 32 bytes or more", SECRET)


@contextmanager
def open_with(url: str, key_ring: KeyRing = BOTH) -> Iterator[Storage]:
    with closing(open_storage(url, key_ring)) as storage:
        yield storage


def ignore_progress(_so_far: Resealed) -> None:
    pass


def start(url: str) -> None:
    begin(url, BOTH, lambda: BOTH)


def has_sessions(url: str) -> bool:
    """Whether PostgreSQL has Keywright sessions; they end shortly after they are closed."""
    query = (
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name ^@ 'keywright'"
    )
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone() is not None


def rotate(url: str) -> Resealed:
    if url.startswith("postgresql"):
        wait_until(lambda: not has_sessions(url), "the end of the sessions")
    start(url)
    return end(url)


def end(url: str) -> Resealed:
    """Finish a rotation."""
    with open_with(url) as storage:
        done = reseal(storage, ignore_progress)
        finish(storage, BOTH)
    return done


def keys_in(storage: Storage) -> list[str]:
    return [one.key for one in list_licenses(storage)]


def sell(url: str, amount: int = 450) -> list[str]:
    """Create licenses with the old secret; return their keys."""
    with open_with(url, KEY_RING) as storage:
        open_executor(storage).execute([create_policy(), create("A", 3)])
        open_executor(storage).execute([activate("A"), generate(1, amount)])
        return keys_in(storage)


def is_sound(storage: Storage) -> bool:
    return not list(examine(storage, lambda _: None))


def test_each_key_is_found_and_is_taken_at_every_step_of_a_rotation(url: str) -> None:
    keys = sell(url)
    steps = 0

    def look(_so_far: Resealed) -> None:
        nonlocal steps
        steps += 1
        for storage in (server, other):
            found = open_executor(storage).query([validate(key) for key in keys])
            assert [one.license.key for one in found] == keys
            again = open_executor(storage).execute([create(keys[0]), create(keys[-1]), rename("A", keys[1])])
            assert [type(one) for one in again] == [LicenseKeyTaken] * 3
            assert is_sound(storage)

    start(url)
    with open_with(url) as storage, open_with(url) as server, open_with(url) as other:
        look(Resealed())
        done = reseal(storage, look)
        assert (done.changed, done.unreadable) == (len(keys), 0)
        finish(storage, BOTH)
        look(done)
        assert keys_in(storage) == keys
    assert steps > 4
    with open_with(url, NEW) as storage:
        assert is_sound(storage)
        assert len(open_executor(storage).query([validate(key) for key in keys])) == len(keys)
    with pytest.raises(StoreError, match=rf"another secret.*its ID is {NEW.secret_id}"):
        open_storage(url, KEY_RING)


@pytest.mark.smoke
def test_a_device_has_one_trial_at_every_step_of_a_rotation(url: str) -> None:
    first = [start_trial(f"device {number}") for number in range(210)]
    with open_with(url, KEY_RING) as storage:
        executor = open_executor(storage)
        executor.execute([create_product(17), create_policy(product_id=17, terms={"trial": True})])
        assert all(one.is_new for one in executor.execute(first))
    steps = 0

    def look(_so_far: Resealed) -> None:
        nonlocal steps
        steps += 1
        for storage in (server, other):
            outcomes = open_executor(storage).execute([*first[:5], *first[-5:]])
            assert [one.view.license.id for one in outcomes] == [*range(1, 6), *range(206, 211)]
        if steps < 4:
            # Not in each step, because the rotation also has to reseal new rows.
            new = [open_executor(one).execute([start_trial(f"new {steps}")])[0] for one in (server, other)]
            assert [one.is_new for one in new] == [True, False]

    start(url)
    with open_with(url) as storage, open_with(url) as server, open_with(url) as other:
        look(Resealed())
        reseal(storage, look)
        finish(storage, BOTH)
        look(Resealed())
    assert steps > 3


@pytest.mark.smoke
def test_nothing_that_was_sealed_needs_the_old_secret_after_a_rotation(url: str) -> None:
    with open_with(url, KEY_RING) as storage:
        fill(storage)
        run_write(storage, lambda tx: jobs.save_chunks(tx, 7, [(2, b"a piece")]))
    rotate(url)
    with open_with(url, NEW) as storage, storage.read() as tx:
        for one in SEALED_COLUMNS:
            rows = tx.connection.execute(select(one.table)).all()
            assert rows
            for row in rows:
                NEW.unseal(row._mapping[one.column], one.associated_data(row))
    with open_with(url) as storage:
        assert reseal(storage, ignore_progress).changed == 0


def test_a_call_is_answered_as_before_when_it_is_sent_again_after_a_rotation(url: str) -> None:
    call = create("A", idempotency=a_retry("once", write=as_answer))
    with open_with(url, KEY_RING) as storage:
        (first,) = open_executor(storage).execute([call])
    start(url)
    with open_with(url) as storage:
        (during,) = open_executor(storage).execute([call])
        reseal(storage, ignore_progress)
        finish(storage, BOTH)
    with open_with(url, NEW) as storage:
        (after,) = open_executor(storage).execute([call])
    assert during == after
    assert during.body == as_answer(first)


def test_no_key_is_taken_twice_while_servers_create_and_rename_during_a_rotation(
    url: str, database: str
) -> None:
    keys, moving = [f"KEY-{number}" for number in range(120)], ["M-0", "M-1", "M-2"]
    with open_with(url, KEY_RING) as storage:
        open_executor(storage).execute([create(key) for key in [*keys[::3], *moving]])
    if database == "sqlite":
        start(url)
    is_over = Signal()

    def serve(storage: Storage, own: str, order: list[str]) -> int:
        """Repeatedly try to reuse each key, for new and renamed licenses; return how many were created."""
        executor, done = open_executor(storage), 0
        while not is_over.is_set():
            for key in order:
                (outcome,) = executor.execute([create(key)])
                done += not isinstance(outcome, KeywrightError)
                executor.execute([rename(own, f"{own} {key}"), rename(f"{own} {key}", own)])
                (outcome,) = executor.execute([rename(own, order[0])])
                assert isinstance(outcome, LicenseKeyTaken)
        return done

    with ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        servers = [stack.enter_context(open_with(url)) for _ in range(3)]
        orders = [keys, [*keys[:1], *keys[:0:-1]], [*keys[:1], *keys[60:], *keys[1:60]]]
        sold = [pool.submit(serve, *one) for one in zip(servers, moving, orders, strict=True)]
        try:
            if database == "postgresql":
                start(url)
            storage = stack.enter_context(open_with(url))
            assert reseal(storage, ignore_progress).unreadable == 0
            finish(storage, BOTH)
        finally:
            is_over.set()
        taken = sum(one.result() for one in sold)
        assert len(set(keys_in(storage)) - set(moving)) == taken + len(keys[::3])
    with open_with(url, NEW) as storage:
        assert sorted(keys_in(storage)) == sorted(set(keys_in(storage)))
        assert is_sound(storage)


@pytest.mark.of_the_database
@pytest.mark.databases("postgresql")
def test_a_key_that_was_taken_with_the_old_secret_meanwhile_is_not_taken_with_the_new(url: str) -> None:
    with open_with(url) as slow, open_with(url) as quick:
        with slow.write() as tx:
            assert license_store.find_licenses(tx, ["A"]) == {}
            open_executor(quick).execute([create("A")])
            start(url)
            with pytest.raises(StoreConflict, match="is taken"):
                license_store.save_new_licenses(tx, [a_license(id=7, key="A")])
            activation_store.delete_licenses(tx, [7])
        assert keys_in(quick) == ["A"]


def test_a_rotation_does_not_begin_while_a_process_knows_the_old_secret_only(url: str) -> None:
    sell(url, 1)
    with open_with(url, KEY_RING) as storage:
        open_executor(storage).query([validate("A")])
        with pytest.raises(StoreError, match=r"do not know the new secret|is in use"):
            start(url)
        assert run_read(storage, lambda tx: find_secret_ids(tx.connection)) == SecretIds(KEY_RING.secret_id)
        open_executor(storage).execute([create("B")])
    start(url)


def test_a_process_that_missed_the_rotation_can_no_longer_use_the_database(url: str) -> None:
    sell(url, 1)
    with open_with(url, KEY_RING) as late:
        late.close()
        start(url)
        with pytest.raises(StoreUnavailable, match="the new secret is available"):
            run_read(late, lambda tx: find_secret_ids(tx.connection))
        with pytest.raises(StoreUnavailable, match="missing"):
            run_write(late, lambda tx: find_secret_ids(tx.connection))
    for wrong in (KEY_RING, NEW):
        with pytest.raises(StoreError, match=r"is being rotated, .*previous_secret"):
            open_storage(url, wrong)


def test_both_secrets_can_be_known_before_a_rotation_begins(url: str) -> None:
    sell(url, 3)
    with open_with(url) as storage:
        assert find_progress(storage, BOTH) is Progress.PREPARED
        open_executor(storage).execute([create("B", idempotency=a_retry("B", write=as_answer))])
    with open_with(url, KEY_RING) as storage:
        assert open_executor(storage).query([validate("B")])[0].license.key == "B"
        assert is_sound(storage)
    rotate(url)
    with open_with(url) as storage:
        assert find_progress(storage, BOTH) is Progress.FINISHED


@pytest.mark.smoke
def test_values_that_neither_secret_reads_are_counted_and_left_alone(url: str) -> None:
    sell(url, 3)
    start(url)
    with open_with(url) as storage:
        damage = update(licenses).where(licenses.c.id == 2).values(sealed_key=os.urandom(40))
        run_write(storage, lambda tx: tx.connection.execute(damage).rowcount)
        assert reseal(storage, ignore_progress).unreadable == 1
        (finding,) = [one for one in examine(storage, lambda _: None) if one.code == "key.unsound"]
        assert finding.license_id == 2


# --- copies and backups ---------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("is_finished", [False, True])
def test_a_copy_made_during_a_rotation_is_readable_like_its_source(
    url: str, tmp_path: Path, is_finished: bool, database: str
) -> None:
    keys = sell(url, 5)
    (rotate if is_finished else start)(url)
    with ExitStack() as stack:
        other = url_of(tmp_path / "other")
        if database == "sqlite":
            other = stack.enter_context(a_postgres_url(empty=True))
        old, new = (stack.enter_context(open_with(one)) for one in (url, other))
        copy(old, new, lambda *_: None)
        assert keys_in(new) == keys
        assert find_progress(new, BOTH) is find_progress(old, BOTH)
        assert open_executor(new).query([validate(keys[3])])[0].license.key == keys[3]
        assert is_sound(new)


def test_a_backup_from_before_a_rotation_is_restored_with_the_previous_secret(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "before.tar"
    keys = sell(url, 5)
    back_up(url, file)
    with open_with(url, KEY_RING) as storage:
        before = contents(storage)
    rotate(url)
    with pytest.raises(StoreError, match=KEY_RING.secret_id):
        restore_backup(file, url, key_ring=NEW, is_overwriting=True)
    restore_backup(file, url, key_ring=BOTH, is_overwriting=True)
    with open_with(url) as storage:
        assert contents(storage) == before
        assert find_progress(storage, BOTH) is Progress.PREPARED
    rotate(url)
    with open_with(url, NEW) as storage:
        assert keys_in(storage) == keys


def test_a_backup_made_during_a_rotation_needs_both_secrets(url: str, tmp_path: Path) -> None:
    file = tmp_path / "during.tar"
    keys = sell(url, 5)
    start(url)
    back_up(url, file, key_ring=BOTH)
    with pytest.raises(StoreError, match="the secret is being rotated"):
        back_up(url, tmp_path / "other.tar", key_ring=BOTH, secret=SECRET.decode())
    for wrong in (KEY_RING, NEW):
        with pytest.raises(StoreError, match="is being rotated"):
            restore_backup(file, url, key_ring=wrong, is_overwriting=True)
    restore_backup(file, url, key_ring=BOTH, is_overwriting=True)
    end(url)
    with open_with(url, NEW) as storage:
        assert keys_in(storage) == keys
