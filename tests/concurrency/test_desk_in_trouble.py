"""The desk when its own thread fails it, and when a batch has to be decided one by one."""

import asyncio
import concurrent.futures
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from keywright.core.errors import Fault, RejectedByDatabase, StoreBusy
from keywright.db import open_storage
from keywright.engine import lane
from keywright.engine.desk import Desk
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import LicenseRecord
from keywright.registry import open_executor
from tests.concurrency.desks import a_url, turns
from tests.makers import KEY_RING, LATER, a_storage, activate, create, purge_idempotency_records, update


class NoThreads(concurrent.futures.Executor):
    """A system that has no thread to give."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        raise RuntimeError("can't start new thread")


def test_a_desk_that_gets_no_thread_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        desk = Desk(open_executor(storage), most_waiting=10)
        monkeypatch.setattr(lane, "ThreadPoolExecutor", lambda *_, **__: NoThreads())
        with pytest.raises(Fault, match="RuntimeError"):
            await asyncio.wait_for(desk.execute(purge_idempotency_records(LATER)), 10)
        made = await asyncio.wait_for(desk.execute(create()), 10)
        assert isinstance(made, LicenseRecord)
        await asyncio.wait_for(desk.close(), 10)

    with closing(a_storage(tmp_path)) as storage:
        asyncio.run(scenario())


@pytest.mark.parametrize("turn", range(6))
def test_a_desk_whose_tasks_are_cancelled_at_any_moment_can_be_closed(tmp_path: Path, turn: int) -> None:
    async def scenario() -> None:
        desk = Desk(open_executor(storage), most_waiting=10)
        call = asyncio.create_task(desk.execute(purge_idempotency_records(LATER)))
        await turns(turn)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(desk.close(), 10)

    with closing(a_storage(tmp_path)) as storage:
        asyncio.run(scenario())


def test_a_rejected_batch_is_decided_one_by_one_aside_and_not_on_the_event_loop(tmp_path: Path) -> None:
    bad = update(no_such_field=1)

    async def scenario() -> list[Any]:
        desk = Desk(open_executor(storage), most_waiting=10)
        calls = (desk.execute(one) for one in (activate(), bad, activate()))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await desk.close()
        return outcomes

    with closing(a_storage(tmp_path)) as storage:
        executor = open_executor(storage)
        executor.execute([create()])
        with pytest.raises(StoreBusy):
            executor.execute([activate(), bad], wait=0)
        first, fault, last = asyncio.run(scenario())
        assert (first.license.times_activated, type(fault), last.license.times_activated) == (1, Fault, 2)


def test_the_second_judge_is_not_talked_round_by_another_change_in_the_batch(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_url(database, tmp_path) as url, closing(open_storage(url, KEY_RING)) as storage:
        executor = open_executor(storage)
        executor.execute([create(limit=1)])
        monkeypatch.setattr("keywright.licensing.licenses.rules.require_free_place", lambda license: None)
        outcomes = executor.execute([activate(), activate(), update(order_id=5)])
        assert [type(one) for one in outcomes] == [LicenseRecord, RejectedByDatabase, LicenseRecord]
        with storage.read() as tx:
            assert len(activation_store.list_active(tx, [1])[1]) == 1
