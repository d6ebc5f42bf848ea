"""The last refused calls of a license, stored in the database."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from keywright.background.refusals import Refusals, save_refusals
from keywright.core.command import Context
from keywright.db import Storage, run_read, run_write
from keywright.db.schema import refusals
from keywright.engine.desk import Desk
from keywright.engine.executor import Executor
from keywright.licensing import refusals as rules
from keywright.licensing import store
from keywright.licensing.refusals import RefusedCall, SaveRefusals
from keywright.registry import open_executor
from keywright.search.statistics import PurgeRefusals
from tests.makers import NOW, activate, an_origin, create, delete, rename
from tests.storage.conftest import Opener
from tests.unit.test_refusals import a_call

DATABASES = ("sqlite",)
A_DAY = timedelta(days=1)


def save(key: str, calls: Sequence[RefusedCall], now: datetime = NOW) -> SaveRefusals:
    return SaveRefusals(context=activate(key, now=now).context, refused={key: calls})


def refused(storage: Storage, license_id: int = 1) -> list[RefusedCall]:
    return run_read(storage, lambda tx: store.list_refusals(tx, [license_id])).get(license_id, [])


def count(storage: Storage) -> int:
    return run_read(
        storage, lambda tx: tx.connection.execute(select(func.count()).select_from(refusals)).scalar_one()
    )


def test_calls_of_several_saves_are_counted_together_and_all_is_read_as_it_was(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("A")])
    call = a_call(fingerprint="f", device_name="Jane's", token="a1" * 20, ip_address="203.0.113.7")
    executor.execute([save("A", [call])])
    assert refused(storage) == [call]
    executor.execute([save("A", [call, a_call(5, reason="expired")])])
    assert [(one.reason, one.times) for one in refused(storage)] == [("expired", 1), ("limit_reached", 2)]


def test_of_many_licenses_only_the_calls_that_the_database_rejects_are_lost(
    open_again: Opener, executor: Executor, storage: Storage
) -> None:
    executor.execute([create("A"), create("B"), create("C")])
    remembered = Refusals()
    for key, reason in {"A": "expired", "B": None, "C": "expired"}.items():
        remembered.see(key, a_call(reason=reason, refused_at=datetime.now(UTC)))

    async def save_once() -> None:
        desk = Desk(open_executor(open_again()), most_waiting=10)
        saving = asyncio.create_task(save_refusals(desk, remembered))
        await asyncio.sleep(0)
        # On cancellation, it saves once more.
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        await desk.close()

    asyncio.run(save_once())
    assert [len(refused(storage, one)) for one in (1, 2, 3)] == [1, 0, 1]
    assert remembered.take() == []


def test_a_license_has_at_most_twenty_rows(executor: Executor, storage: Storage) -> None:
    executor.execute([create("A")])
    for start in (0, 15, 30):
        executor.execute([save("A", [a_call(start + i, fingerprint=f"{start + i}") for i in range(15)])])
    assert [one.fingerprint for one in refused(storage)] == [str(44 - i) for i in range(rules.MAX_KEPT)]


def test_servers_that_save_at_once_lose_nothing(
    open_again: Opener, executor: Executor, storage: Storage
) -> None:
    executor.execute([create("A")])
    own = [open_executor(open_again()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        commands = [save("A", [a_call(i, fingerprint=f"{i}")]) for i in range(4)]
        outcomes = list(pool.map(_save_until_done, own, commands))
    assert outcomes == [None] * 4
    assert len(refused(storage)) == 4


def _save_until_done(executor: Executor, command: SaveRefusals) -> object:
    """Save, and retry while another server is writing."""
    while isinstance(outcome := executor.execute([command])[0], Exception):
        continue
    return outcome


@pytest.mark.smoke
def test_a_key_that_was_replaced_names_the_license_and_a_key_of_none_nothing(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("A"), rename("A", "B")])
    executor.execute([save("A", [a_call(reason="key_rotated")]), save("GONE", [a_call()])])
    executor.execute([save("GONE", [a_call()])])
    assert [one.reason for one in refused(storage)] == ["key_rotated"]
    assert count(storage) == 1


def test_they_go_with_the_license_and_when_they_are_old(executor: Executor, storage: Storage) -> None:
    executor.execute([create("A"), create("B"), create("C")])
    for key in "ABC":
        executor.execute([save(key, [a_call()])])
    executor.execute([delete("A")])
    assert count(storage) == 2
    executor.execute([save("C", [a_call(60)])])
    old = PurgeRefusals(context=Context(NOW, an_origin()), before=a_call(30).refused_at)
    assert executor.execute([old]) == [1]
    assert (refused(storage, 2), len(refused(storage, 3))) == ([], 1)


def test_old_addresses_are_forgotten(executor: Executor, storage: Storage) -> None:
    executor.execute([create("A")])
    calls = [a_call(ip_address="203.0.113.7"), a_call(1, ip_address="203.0.113.8")]
    executor.execute([save("A", calls)])
    assert run_write(storage, lambda tx: store.forget_addresses(tx, calls[1].refused_at)) == 1
    assert [one.ip_address for one in refused(storage)] == ["203.0.113.8", ""]
