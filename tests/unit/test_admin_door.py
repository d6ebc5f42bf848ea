"""Pages wait in two rooms: whoever is in the one does not keep those waiting who are in the other."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.core.errors import QueueFull
from keywright.http.admin.lazy_app import Door
from keywright.provisioning.generators import store as generator_store
from tests.makers import a_storage


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with closing(a_storage(tmp_path)) as storage:
        door = Door(Settings(data_dir=tmp_path), storage)
        door.tallies = Counters()
        yield door


def test_who_waits_at_the_entrance_keeps_nobody_inside(door: Door) -> None:
    may_go_on = threading.Event()

    def wait() -> bool:
        with door.turns.aside():
            return may_go_on.wait(30)

    async def crowd() -> None:
        waiting = [asyncio.create_task(door.run_at_entrance(wait)) for _ in range(10)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await door.run_at_entrance(wait)
        assert await door.run(lambda: "inside") == "inside"
        may_go_on.set()
        assert await asyncio.gather(*waiting) == [True] * 10
        assert await door.run_at_entrance(lambda: "again") == "again"
        await door.close()

    asyncio.run(crowd())


def test_a_crowd_of_strangers_leaves_room_for_browsers_that_are_known(door: Door) -> None:
    may_go_on = threading.Event()

    def wait() -> bool:
        with door.turns.aside():
            return may_go_on.wait(30)

    async def crowd() -> None:
        waiting = [asyncio.create_task(door.run_at_entrance(wait)) for _ in range(10)]
        await asyncio.sleep(0)
        assert await door.run_at_entrance(lambda: "known", is_known=True) == "known"
        may_go_on.set()
        await asyncio.gather(*waiting)
        await door.close()

    asyncio.run(crowd())


def test_the_rest_of_a_file_is_sent_however_many_wait(door: Door) -> None:
    may_go_on = threading.Event()

    def wait() -> bool:
        with door.turns.aside():
            return may_go_on.wait(30)

    async def crowd() -> None:
        waiting = [asyncio.create_task(door.run(wait)) for _ in range(100)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await door.run(wait)
        rest = asyncio.create_task(door.run(lambda: "the rest", is_begun=True))
        await asyncio.sleep(0)
        may_go_on.set()
        assert await rest == "the rest"
        await asyncio.gather(*waiting)
        await door.close()

    asyncio.run(crowd())


def test_what_is_asked_behind_a_page_and_fails_hurts_nobody(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    answered = threading.Event()

    def fail(_: object) -> None:
        answered.set()
        raise RuntimeError("odd")

    async def ask() -> None:
        door.ask_soon(fail)
        await asyncio.to_thread(answered.wait, 30)
        assert await door.run(lambda: door.ask(lambda tx: len(generator_store.list_generators(tx)))) == 0
        await door.close()
        # Too late, and nobody minds.
        door.ask_soon(fail)

    asyncio.run(ask())
    assert caplog.messages == ["a question of the pages could not be asked"]
