"""The loop that handles shop events: shops whose API does not respond, and events that cannot be handled."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.background import queue as work_queue
from keywright.background import shop_runner
from keywright.background.loops import read_clock
from keywright.background.shop_look import look_when_due
from keywright.background.shop_runner import ShopRunner
from keywright.core.command import Context
from keywright.core.nouns import Paging
from keywright.engine.desk import Desk
from keywright.provisioning.shops.commands import AddConnection, GetConnection, ListShopEvents, StoreShopEvent
from keywright.provisioning.shops.model import (
    EventState,
    MappedProduct,
    Reason,
    SaleLine,
    Shop,
    ShopEvent,
    StoredEvent,
)
from keywright.provisioning.shops.payloads import payload_of
from keywright.provisioning.shops.selling import Selling
from keywright.provisioning.shops.shop_module import open_api
from keywright.registry import open_executor
from tests.connections import SECRET, a_connection, a_sale, an_event
from tests.makers import a_storage, an_origin, create_policy
from tests.shop_apis import API_KEYS, running_api
from tests.shop_events import SECRETS

_PATIENCE = 60.0
STRIPE, GENERIC = 1, 2


class Process:
    """A server process without its interfaces, with a connection to Stripe and a generic one."""

    def __init__(self, desk: Desk, runner: ShopRunner) -> None:
        self.desk = desk
        self.runner = runner

    async def store(
        self, event: ShopEvent, connection_id: int, *, due: timedelta = timedelta(minutes=1)
    ) -> int:
        """Store an event with a claim that ends after ``due``."""
        now = read_clock()
        command = StoreShopEvent(
            context=Context(now, an_origin()),
            connection_id=connection_id,
            event_id=event.id,
            event=event,
            payload=payload_of(event),
            next_attempt_at=now + due,
        )
        row_id: int = await self.desk.execute(command)
        return row_id

    async def receive(self, event: ShopEvent, connection_id: int = GENERIC) -> int:
        """Store an event, and let the loop handle it."""
        row_id = await self.store(event, connection_id)
        self.runner.add(row_id, connection_id, event)
        return row_id

    async def find(self, row_id: int) -> StoredEvent:
        """Find the event with this ID."""
        page = await self.desk.query(ListShopEvents(paging=Paging(sort="-id", limit=100)))
        (found,) = [one for one in page.items if one.id == row_id]
        assert isinstance(found, StoredEvent)
        return found

    async def until(self, row_id: int, condition: Callable[[StoredEvent], bool]) -> StoredEvent:
        """Wait until the condition holds; return the event."""
        async with asyncio.timeout(_PATIENCE):
            while not condition(found := await self.find(row_id)):
                await asyncio.sleep(0.01)
        return found

    async def failures(self) -> int:
        """The number of consecutive failures."""
        return int((await self.desk.query(GetConnection(connection_id=GENERIC))).failures)


@asynccontextmanager
async def selling(folder: Path, api: str = "http://127.0.0.1:1", **fields: Any) -> AsyncIterator[Process]:
    """``fields`` are those of the connection to Stripe."""
    with closing(a_storage(folder)) as storage:
        desk = Desk(open_executor(storage), most_waiting=1000)
        context = Context(read_clock(), an_origin())
        await desk.execute(create_policy())
        stripe = a_connection(shop=Shop.STRIPE, url=api, **fields)
        keys: dict[str, Any] = {"secret": SECRETS[Shop.STRIPE], "api_key": API_KEYS[Shop.STRIPE]}
        for command in (
            AddConnection(context=context, connection=stripe, **keys),
            AddConnection(context=context, connection=a_connection(), secret=SECRET),
        ):
            await desk.execute(command)
        try:
            async with work_queue.working(desk) as queue:
                queue.add(runner := ShopRunner(desk, queue))
                yield Process(desk, runner)
        finally:
            await desk.close()


def run(folder: Path, test: Callable[[Process], Awaitable[None]], **fields: Any) -> None:
    async def running() -> None:
        async with selling(folder, **fields) as process:
            await test(process)

    asyncio.run(running())


def is_over(event: StoredEvent) -> bool:
    return event.state is not EventState.WAITING


def test_a_shop_that_does_not_answer_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "_INTERVAL", 0.05)

    async def test(process: Process) -> None:
        asking = [an_event(a_sale(f"{number}"), needs_api=True, lookup="cs_1") for number in range(10)]
        held = [await process.receive(one, STRIPE) for one in asking]
        # Its claim has ended while it waits here for its turn: no other attempt begins.
        row_id = await process.store(
            asked := an_event(a_sale("10"), needs_api=True), STRIPE, due=timedelta(0)
        )
        process.runner.add(row_id, STRIPE, asked)
        claimed = await process.until(row_id, lambda one: one.next_attempt_at not in (None, one.received_at))
        assert (claimed.state, claimed.attempts) == (EventState.WAITING, 1)
        sale = await process.receive(an_event(a_sale("quick")))
        assert (await process.until(sale, is_over)).state is EventState.DONE
        assert {(await process.find(one)).state for one in held} == {EventState.WAITING}
        stub.released.set()
        assert {(await process.until(one, is_over)).reason for one in held} == {Reason.SHOP_REFUSED}

    with running_api(Shop.STRIPE) as stub:
        stub.is_slow = True
        run(tmp_path, test, api=stub.url)


def test_a_shop_that_was_waited_for_in_vain_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop_runner, "open_api", partial(open_api, timeout=0.2))
    monkeypatch.setattr(shop_runner, "_SLOW", 0.1)
    monkeypatch.setattr(shop_runner, "_QUIET", 600.0)

    async def test(process: Process) -> None:
        asking = [an_event(a_sale(f"{number}"), needs_api=True, lookup="cs_1") for number in range(20)]
        for row_id in [await process.receive(one, STRIPE) for one in asking]:
            await process.until(row_id, lambda one: one.reason is Reason.SHOP_UNAVAILABLE)

    with running_api(Shop.STRIPE) as stub:
        stub.is_slow = True
        run(tmp_path, test, api=stub.url)
    # The requests that were sent before the first one failed.
    assert len(stub.asked) <= 4


def test_an_event_that_meets_an_unexpected_error_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Selling) -> None:
        raise ZeroDivisionError

    async def test(process: Process) -> None:
        row_id = await process.receive(an_event(a_sale()))
        failed = await process.until(row_id, is_over)
        assert (failed.state, failed.reason) == (EventState.UNMATCHED, Reason.FAILED)
        assert failed.next_attempt_at is None
        assert failed.detail == "ZeroDivisionError"
        assert await process.failures() == 1

    monkeypatch.setattr(Selling, "apply", fail)
    run(tmp_path, test)


def test_what_another_process_has_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "_INTERVAL", 0.05)

    async def test(process: Process) -> None:
        left = [await process.store(an_event(a_sale(f"{n}")), GENERIC, due=timedelta(0)) for n in range(60)]
        for row_id in left:
            assert (await process.until(row_id, is_over)).attempts == 2

    run(tmp_path, test)


def test_a_shop_is_looked_at_once_a_night_and_what_is_not_held_waits(tmp_path: Path) -> None:
    async def test(process: Process) -> None:
        desk, line = process.desk, SaleLine("li_1", ("price_cloud_monthly", "prod_cloud"), 2, recurs=True)
        sale = replace(a_sale("in_1", subscription="sub_000001"), lines=(line,))
        await process.until(await process.receive(an_event(sale), STRIPE), is_over)
        connection = await desk.query(GetConnection(connection_id=STRIPE))
        assert [await look_when_due(desk, connection) for _ in range(2)] == [True, False]
        asked = ListShopEvents(connection_id=STRIPE, state=EventState.UNMATCHED)
        found = [(one.reason, one.detail) for one in (await desk.query(asked)).items]
        assert found == [(Reason.PAID_NOT_HELD, "paid for 5, holds 2")]
        connection = await desk.query(GetConnection(connection_id=STRIPE))
        assert connection.missing_topics == ("customer.subscription.updated",)

    with running_api(Shop.STRIPE) as stub:
        run(tmp_path, test, api=stub.url, mapping=(MappedProduct("price_cloud_monthly", 1),))
