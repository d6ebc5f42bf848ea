"""The loop that delivers webhooks, with real receivers that fail, hang, redirect and are gone."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.background.deliveries import Deliveries
from keywright.background.loops import read_clock
from keywright.background.queue import working
from keywright.core.command import Command, Context
from keywright.core.nouns import Paging
from keywright.delivery.webhooks.commands import GetEndpoint, ListDeliveries, RotateSecret
from keywright.delivery.webhooks.model import DisabledReason, Endpoint, NewEndpoint, State
from keywright.engine.desk import Desk
from keywright.registry import open_executor
from tests.makers import a_storage, activate, an_origin, create, create_endpoint
from tests.receiver import Received, Receiver, Reply, receiving

ALLOWED = (ip_network("127.0.0.0/8"),)
_PATIENCE = 60.0


def now(command: Any) -> Any:
    return replace(command, context=Context(read_clock(), an_origin()))


class Delivering:
    """A server process without its interfaces."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def do(self, command: Command) -> Any:
        return await self.desk.execute(now(command))

    async def add(self, receiver: Receiver, *events: str) -> NewEndpoint:
        made = await self.do(create_endpoint(receiver.url, *events))
        assert isinstance(made, NewEndpoint)
        return made

    async def get(self, endpoint_id: int) -> Endpoint:
        found = await self.desk.query(GetEndpoint(id=endpoint_id))
        assert isinstance(found, Endpoint)
        return found

    async def states(self, endpoint_id: int) -> list[State]:
        asked = ListDeliveries(endpoint_id=endpoint_id, paging=Paging(sort="created_at", limit=200))
        return [one.state for one in (await self.desk.query(asked)).items]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def delivering(folder: Path) -> AsyncIterator[Delivering]:
    with closing(a_storage(folder)) as storage:
        desk = Desk(open_executor(storage), most_waiting=1000)
        try:
            async with working(desk) as queue:
                queue.add(Deliveries(desk, queue, allowed=ALLOWED))
                yield Delivering(desk)
        finally:
            await desk.close()


def test_a_delivery_is_verified_by_an_independent_library(tmp_path: Path) -> None:
    async def run(receiver: Receiver) -> None:
        async with delivering(tmp_path) as process:
            made = await process.add(receiver)
            await process.do(create("KEY-SECRET-12345678"))
            await until(lambda: receiver.received)
            receiver.received[0].verify(made.secret)
            context = Context(read_clock(), an_origin())
            rotated = await process.do(RotateSecret(context=context, endpoint_id=made.endpoint.id))
            await process.do(activate("KEY-SECRET-12345678"))
            await until(lambda: len(receiver.received) == 2)
            for secret in (made.secret, rotated.secret):
                receiver.received[1].verify(secret)

    with receiving() as receiver:
        asyncio.run(run(receiver))
    first, second = receiver.received
    assert (first.json["type"], second.json["type"]) == ("license.created", "license.activated")
    assert second.json["data"]["license"]["key"] == "…5678"
    assert b"KEY-SECRET" not in first.body + second.body
    assert "v1a," in second.headers["webhook-signature"]


def answer(reply: Reply, _: Received) -> Reply:
    return reply


def test_receivers_that_hang_or_fail_slow_no_other(tmp_path: Path) -> None:
    redirect = Reply(302, b"", (("Location", "http://127.0.0.1:1/"),))
    bad = (Reply(hangs=True), Reply(500), redirect, Reply(raw=b""))

    async def run(receivers: list[Receiver], good: Receiver) -> None:
        async with delivering(tmp_path) as process:
            for one in (*receivers, good):
                await process.add(one)
            for number in range(50):
                await process.do(create(f"K{number}"))
                await process.do(activate(f"K{number}"))
            await until(lambda: len(set(good.event_ids)) == 100)
            for number in range(len(receivers)):
                assert State.DELIVERED not in await process.states(number + 1)

    with ExitStack() as stack:
        receivers = [stack.enter_context(receiving(partial(answer, reply))) for reply in bad]
        good = stack.enter_context(receiving())
        asyncio.run(run(receivers, good))
    assert len(good.received) == 100
    by_license: dict[int, list[int]] = {}
    for one in good.received:
        by_license.setdefault(one.json["data"]["license_id"], []).append(one.event_id)
    assert all(ids == sorted(ids) for ids in by_license.values())


def test_an_answer_that_comes_while_others_are_saved_is_saved_too(tmp_path: Path) -> None:
    has_come, may_answer = threading.Event(), threading.Event()

    def wait_if_first(_: Received) -> Reply:
        if not has_come.is_set():
            has_come.set()
            may_answer.wait(_PATIENCE)
        return Reply()

    async def run(receiver: Receiver) -> None:
        async with delivering(tmp_path) as process:
            await process.add(receiver)
            await process.do(create("SLOW"))
            await until(has_come.is_set)
            await process.do(create("FAST"))
            while State.DELIVERED not in await process.states(1):
                await asyncio.sleep(0.01)
            may_answer.set()
            while State.WAITING in await process.states(1):
                await asyncio.sleep(0.01)

    with receiving(wait_if_first) as receiver:
        asyncio.run(run(receiver))
    assert len(receiver.received) == 2


def test_a_receiver_that_is_back_gets_everything_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(receiver: Receiver) -> None:
        async with delivering(tmp_path) as process:
            await process.add(receiver)
            await process.do(create("A"))
            await process.do(activate("A"))
            await until(lambda: receiver.received)
            receiver.answer = lambda _: Reply()
            await until(lambda: len(receiver.received) >= 3)

    with receiving(lambda _: Reply(503)) as receiver:
        asyncio.run(run(receiver))
    types = [one.json["type"] for one in receiver.received]
    assert types == ["license.created", "license.created", "license.activated"]
    # One log line when it begins to fail, and one when it works again.
    fails, works = (one for one in caplog.messages if one.startswith("the webhook 1 "))
    assert fails == "the webhook 1 fails: 127.0.0.1: status 503"
    assert re.fullmatch(r"the webhook 1 takes deliveries again after \d+ s", works)


def test_gone_disables_and_a_request_for_quiet_pauses(tmp_path: Path) -> None:
    async def run(gone: Receiver, busy: Receiver) -> None:
        async with delivering(tmp_path) as process:
            await process.add(gone)
            await process.add(busy)
            await process.do(create("A"))
            async with asyncio.timeout(_PATIENCE):
                while (await process.get(1)).disabled_reason is not DisabledReason.GONE:
                    await asyncio.sleep(0.01)
                while (paused_until := (await process.get(2)).paused_until) is None:
                    await asyncio.sleep(0.01)
            assert 3500 < (paused_until - read_clock()).total_seconds() <= 3600

    quiet = Reply(429, b"", (("Retry-After", "3600"),))
    with receiving(lambda _: Reply(410)) as gone, receiving(lambda _: quiet) as busy:
        asyncio.run(run(gone, busy))
    assert len(gone.received) == len(busy.received) == 1


def test_a_process_that_stops_gives_up_its_claims_and_loses_nothing(tmp_path: Path) -> None:
    async def run(receiver: Receiver, *, is_first: bool) -> None:
        async with delivering(tmp_path) as process:
            if is_first:
                await process.add(receiver)
                for number in range(30):
                    await process.do(create(f"K{number}"))
                await until(lambda: receiver.received)
                return
            await until(lambda: len(set(receiver.event_ids)) == 30)

    with receiving() as receiver:
        asyncio.run(run(receiver, is_first=True))
        asyncio.run(run(receiver, is_first=False))
    assert len(set(receiver.event_ids)) == 30
