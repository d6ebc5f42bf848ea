"""The work queue of a process: what it starts, skips and finishes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from sqlalchemy import select, update

from keywright.background import queue as work_queue
from keywright.background.queue import Bell, Handler, Queue
from keywright.db import Storage, open_storage, run_write
from keywright.db.schema import mail_outbox
from keywright.delivery.mail.store import MAILS
from keywright.engine.desk import Desk
from keywright.engine.queue import Item
from keywright.events.model import MailTemplate, QueuedMail
from keywright.events.outbox_store import queue_mail
from keywright.registry import open_executor
from tests.concurrency.desks import in_a_loop
from tests.makers import KEY_RING, NOW, a_storage, url_of

#: Works on a mail; returns the pause until the next attempt, or raises an error.
Work = Callable[[int], Awaitable[float]]


class Mails(Handler):
    """Works on mails as a test specifies, without claiming them."""

    kind, name, needs_clock = MAILS, "mail", True

    def __init__(self, work: Work, most: int) -> None:
        self.most = most
        self.begun: list[int] = []
        self._work = work

    async def work(self, item: Item) -> float:
        self.begun.append(item.id)
        return await self._work(item.id)


@asynccontextmanager
async def a_queue(folder: Path, mails: Mails, *, is_clock_right: bool = True) -> AsyncIterator[Queue]:
    """A queue that polls when a test says so; three mails wait."""
    with closing(a_storage(folder)) as storage:
        queue_mails(storage, 3)
        desk = Desk(open_executor(storage), most_waiting=100)
        queue = Queue(desk, Bell(), lambda: is_clock_right)
        queue.add(mails)
        try:
            yield queue
        finally:
            await queue.stop()
            await desk.close()


def queue_mails(storage: Storage, amount: int) -> None:
    for number in range(amount):
        mail = QueuedMail(template=MailTemplate.EXPIRED, unique=f"{number}", customer_id=1)
        run_write(storage, lambda tx, mail=mail: queue_mail(tx, mail, NOW))  # type: ignore[misc]


async def look(queue: Queue, times: int = 1) -> None:
    """Poll, and wait until the started work has ended."""
    for _ in range(times):
        await queue._look()
        for _ in range(20):
            await asyncio.sleep(0)


async def pause(_: int) -> float:
    return 600.0


async def go_on(_: int) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("work", "most", "looks", "is_clock_right", "begun"),
    [
        pytest.param(pause, 10, 2, True, [1, 2, 3], id="an item is left alone for as long as its work says"),
        pytest.param(pause, 1, 2, True, [1], id="a kind with one item at a time is, as a whole"),
        pytest.param(go_on, 1, 1, True, [1, 2, 3], id="one after the other needs no look between them"),
        pytest.param(go_on, 1, 1, False, [], id="nothing is begun while the clock is in doubt"),
    ],
)
@in_a_loop
async def test_an_item_is_begun_when_its_kind_its_pause_and_the_clock_allow_it(
    *, tmp_path: Path, work: Work, most: int, looks: int, is_clock_right: bool, begun: list[int]
) -> None:
    async with a_queue(tmp_path, mails := Mails(work, most), is_clock_right=is_clock_right) as queue:
        await look(queue, times=looks)
    assert mails.begun == begun


@in_a_loop
async def test_an_item_that_meets_an_error_is_left_alone_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail_once(number: int) -> float:
        return 600 / (number - 1)

    monkeypatch.setattr(work_queue, "_PAUSE", 600.0)

    async with a_queue(tmp_path, mails := Mails(fail_once, most=10)) as queue:
        await look(queue, times=2)
    assert mails.begun == [1, 2, 3]
    (logged,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert logged.getMessage() == "mail 1 met an unexpected error"


@in_a_loop
async def test_an_item_at_work_is_not_begun_again_and_nothing_is_after_the_stop(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def wait(_: int) -> float:
        await over.wait()
        return 0.0

    async with a_queue(tmp_path, mails := Mails(wait, most=2)) as queue:
        await look(queue, times=2)
        assert mails.begun == [1, 2]
        stopping = asyncio.create_task(queue.stop())
        await asyncio.sleep(0)
        over.set()
        await stopping
        await look(queue)
    assert mails.begun == [1, 2]


@in_a_loop
async def test_a_queue_that_finds_nothing_for_a_while_looks_half_as_often(tmp_path: Path) -> None:
    pauses: list[float] = []

    class CountingBell(Bell):
        async def wait(self, longest: float = 0) -> None:
            pauses.append(longest)
            if len(pauses) == 12:
                queue_mails(storage, 1)
            if len(pauses) == 13:
                queue.is_stopping.set()

    with closing(a_storage(tmp_path)) as storage:
        desk = Desk(open_executor(storage), most_waiting=100)
        queue = Queue(desk, CountingBell())
        queue.add(Mails(pause, most=1))
        await queue.run()
        await queue.stop()
        await desk.close()
    assert pauses == [0.5] * 10 + [1.0] * 2 + [0.5]


@in_a_loop
async def test_claims_are_renewed_before_they_end_and_the_next_ones_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()
    monkeypatch.setattr(work_queue, "AT_ONCE", 3)

    async def claim_and_wait(number: int) -> float:
        assert await queue.claim(MAILS, Item(number)) is not None
        await over.wait()
        return 0.0

    def ends(less: int = 0) -> set[int]:
        """Move the ends of claims this many seconds back; return them."""
        column = mail_outbox.c.claimed_until
        with closing(open_storage(url_of(tmp_path), KEY_RING)) as storage, storage.write() as tx:
            tx.connection.execute(update(mail_outbox).values(claimed_until=column - less))
            return set(tx.connection.execute(select(column)).scalars())

    async with a_queue(tmp_path, mails := Mails(claim_and_wait, most=10)) as queue:
        await look(queue, times=2)
        earlier = ends(less=3)
        queue.bell._has_rung.clear()
        await look(queue)
        assert min(ends()) >= max(earlier) + 3
        assert queue.bell._has_rung.is_set()
        over.set()
    assert mails.begun == [1, 2, 3]
