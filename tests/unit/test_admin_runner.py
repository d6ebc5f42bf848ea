"""Pages run in three thread pools: a full pool does not delay the others."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from keywright.core.errors import QueueFull
from keywright.db import Storage
from keywright.engine.desk import Desk
from keywright.http.pages.runner import Runner
from keywright.identity.store import list_users
from keywright.registry import open_executor
from tests.makers import a_storage


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with closing(a_storage(tmp_path)) as storage:
        yield storage


@asynccontextmanager
async def a_runner(storage: Storage) -> AsyncIterator[Runner]:
    desk = Desk(open_executor(storage), most_waiting=100)
    runner = Runner(storage, desk, count_calls=lambda: 0, on_change=lambda _: None)
    try:
        yield runner
    finally:
        await runner.close()
        await desk.close()


class Gate:
    """Blocks a page until it is opened."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._is_open = threading.Event()

    def wait(self) -> bool:
        with self._runner.lock.release():
            return self._is_open.wait(30)

    def open(self) -> None:
        self._is_open.set()


def test_a_crowd_that_signs_in_delays_neither_pages_nor_known_browsers(storage: Storage) -> None:
    async def scenario() -> None:
        async with a_runner(storage) as runner:
            gate = Gate(runner)
            crowd = [asyncio.create_task(runner.run_sign_in(gate.wait)) for _ in range(10)]
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await runner.run_sign_in(gate.wait)
            assert await runner.run(lambda: "a page") == "a page"
            assert await runner.run_sign_in(lambda: "known", is_known=True) == "known"
            gate.open()
            assert await asyncio.gather(*crowd) == [True] * 10
            assert await runner.run_sign_in(lambda: "again") == "again"

    asyncio.run(scenario())


def test_the_rest_of_a_file_is_sent_however_many_wait(storage: Storage) -> None:
    async def scenario() -> None:
        async with a_runner(storage) as runner:
            gate = Gate(runner)
            crowd = [asyncio.create_task(runner.run(gate.wait)) for _ in range(100)]
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await runner.run(gate.wait)
            rest = asyncio.create_task(runner.run(lambda: "the rest", is_started=True))
            await asyncio.sleep(0)
            gate.open()
            assert await rest == "the rest"
            await asyncio.gather(*crowd)

    asyncio.run(scenario())


def test_a_background_query_that_fails_is_logged(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    has_run = threading.Event()

    def fail(_: object) -> None:
        has_run.set()
        raise RuntimeError("odd")

    async def scenario() -> None:
        async with a_runner(storage) as runner:
            runner.ask_soon(fail)
            await asyncio.to_thread(has_run.wait, 30)
            assert await runner.run(lambda: runner.ask(list_users)) == []
        # Too late, and ignored.
        runner.ask_soon(fail)

    asyncio.run(scenario())
    assert caplog.messages == ["a background query failed"]
