"""A restored backup holds every row; a file that is not a complete backup restores nothing."""

import stat
from contextlib import closing
from pathlib import Path

import pytest

from keywright.core.errors import ConfigurationError, StoreError
from keywright.db import Storage, database_path, open_storage
from keywright.engine.executor import Executor
from keywright.jobs.model import NotifyCustomers
from keywright.licensing.updates.notices import NoticeState
from keywright.maintenance.doctor import examine
from keywright.provisioning.products import PRODUCT
from keywright.provisioning.releases.notices import NOTICE, SetNoticeState
from keywright.registry import open_executor
from tests.backups import back_up, check_backup, restore_backup
from tests.connections import CONTEXT, do
from tests.jobs import get_job
from tests.makers import (
    KEY_RING,
    activate,
    create,
    create_policy,
    delete,
    url_of,
    validate,
)
from tests.storage.test_copy import contents, fill
from tests.storage.test_migrations import NEXT, use_scripts
from tests.storage.test_update_checks import make

DATABASES = ("sqlite",)

pytestmark = pytest.mark.usefixtures("programs")


def is_sound(storage: Storage) -> bool:
    return not list(examine(storage, lambda _: None))


def test_every_row_is_restored_and_numbering_continues(
    storage: Storage, url: str, file: Path, elsewhere: str
) -> None:
    fill(storage)
    before = contents(storage)
    made = back_up(url, file)
    assert made.size == file.stat().st_size
    assert made.manifest.contents.licenses == len(before["licenses"])
    assert made.manifest.contents.events == len(before["events"])
    assert restore_backup(file, elsewhere) is None
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        # What was sent since is not sent again: a user decides.
        held = [row | {"state": "held", "next_attempt_at": None} for row in before["mail_outbox"]]
        assert contents(new) == before | {"mail_outbox": held}
        assert is_sound(new)
        executor = open_executor(new)
        record, other, generator = executor.execute([activate("A"), create("B"), create_policy()])
        assert record.activations[0].id > max(row["id"] for row in before["activations"])
        assert other.license.id > max(row["id"] for row in before["licenses"])
        assert generator.id == 2


@pytest.mark.smoke
def test_a_job_that_notified_customers_does_not_go_on(
    executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    """Who got a mail since the backup is not known: a user decides."""
    do(executor, make(PRODUCT, id=17, name="Paint"))
    notice = do(executor, make(NOTICE, product_id=17, title="A hole", affected="< 3"))
    do(executor, SetNoticeState(context=CONTEXT, notice_id=notice.id, state=NoticeState.PUBLISHED))
    job = do(executor, NotifyCustomers(context=CONTEXT, notice_id=notice.id))
    back_up(url, file)
    restore_backup(file, elsewhere)
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        restored = get_job(new, job.id)
    assert (restored.state, restored.finished_at) == ("canceled", job.created_at)


def test_changes_after_the_backup_are_gone_and_their_numbers_are_not_reused(
    storage: Storage, executor: Executor, url: str, file: Path
) -> None:
    executor.execute([create("before"), activate("before")])
    back_up(url, file)
    lost, taken, generator = executor.execute([create("after"), activate("before"), create_policy()])
    (deleted,) = executor.execute([create("deleted")])
    executor.execute([delete("deleted")])
    storage.close()
    kept = restore_backup(file, url, is_overwriting=True)
    with closing(open_storage(url, KEY_RING)) as restored:
        executor = open_executor(restored)
        record, made, other = executor.execute([activate("before"), create("new"), create_policy()])
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
        assert open_executor(old).query([validate("after")])[0].license.id == lost.license.id


@pytest.mark.smoke
def test_a_backup_of_an_older_schema_is_migrated(
    executor: Executor, url: str, file: Path, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    use_scripts(file.parent / "scripts", NEXT, monkeypatch)
    restore_backup(file, elsewhere)
    with closing(open_storage(elsewhere, KEY_RING)) as new, new.read() as tx:
        assert tx.connection.exec_driver_sql("SELECT note FROM licenses").fetchall() == [("migrated",)]


def test_an_empty_installation_is_replaced_without_overwriting(
    storage: Storage, executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    open_storage(elsewhere, KEY_RING).close()
    assert restore_backup(file, elsewhere) is None
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        assert len(contents(new)["licenses"]) == 1


def test_an_installation_is_replaced_only_with_overwriting(
    storage: Storage, executor: Executor, url: str, file: Path
) -> None:
    executor.execute([create("A"), activate("A")])
    back_up(url, file)
    executor.execute([create("B")])
    storage.close()
    with pytest.raises(
        StoreError,
        match=r"already contains an installation: 2 licenses, 1 activation and 3 events, .*--overwrite",
    ):
        restore_backup(file, url)
    with closing(open_storage(url, KEY_RING)) as same:
        assert len(contents(same)["licenses"]) == 2


def test_a_database_in_use_is_not_replaced(
    storage: Storage, executor: Executor, url: str, file: Path, elsewhere: str
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    with closing(open_storage(elsewhere, KEY_RING)) as running:
        open_executor(running).execute([create("B")])
        with pytest.raises(StoreError, match="is in use"):
            restore_backup(file, elsewhere, is_overwriting=True)
        assert open_executor(running).execute([create("C")])[0].license.key == "C"
    restore_backup(file, elsewhere, is_overwriting=True)
    with closing(open_storage(elsewhere, KEY_RING)) as new:
        assert len(contents(new)["licenses"]) == 1


def test_a_failure_in_the_last_step_changes_nothing(
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
        restore_backup(file, url, is_overwriting=True, before_replacing=fail)
    with closing(open_storage(url, KEY_RING)) as same:
        assert contents(same) == before
        open_executor(same).execute([create("C")])
        assert is_sound(same)


def test_a_backup_gets_its_name_when_it_is_complete_and_is_for_its_owner_only(
    executor: Executor, url: str, file: Path
) -> None:
    executor.execute([create("A")])
    back_up(url, file)
    assert list(file.parent.iterdir()) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first = file.read_bytes()
    with pytest.raises(StoreError, match="already exists"):
        back_up(url, file)
    assert file.read_bytes() == first
    executor.execute([create("B")])
    back_up(url, file, is_overwriting=True)
    assert list(file.parent.iterdir()) == [file]
    assert file.read_bytes() != first


def test_a_backup_overwrites_only_a_backup(storage: Storage, url: str, file: Path, tmp_path: Path) -> None:
    file.write_text("a letter")
    for wrong, said in (
        (file, "is not a backup .* not replaced"),
        (file.parent, "is a folder"),
        (tmp_path / "no" / "file", "there is no folder"),
        *([(path, "is not a backup")] if (path := database_path(url)) else []),
    ):
        with pytest.raises(StoreError, match=said):
            back_up(url, wrong, is_overwriting=True)
    assert file.read_text() == "a letter"
    file.write_text("")
    back_up(url, file, is_overwriting=True)
    check_backup(file)


def test_a_backup_is_restored_into_a_database_of_its_own_kind_only(
    storage: Storage, database: str, url: str, file: Path, tmp_path: Path
) -> None:
    back_up(url, file)
    other = "postgresql://nobody@127.0.0.1:1/x" if database == "sqlite" else url_of(tmp_path / "other")
    with pytest.raises(StoreError, match="then use `keywright copy` on that"):
        restore_backup(file, other)
