"""The API key cache of a server process: what it accepts after a key was revoked."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from keywright.core import crypto
from keywright.core.command import Context
from keywright.db import Storage
from keywright.engine.desk import Desk
from keywright.http.middleware.authentication import LIFETIME, ApiKeyCache
from keywright.identity.model import FindApiKey, Permissions, RevokeApiKey
from keywright.registry import open_executor
from tests.concurrency.desks import in_a_loop
from tests.makers import LATER, IssuedApiKey, an_origin, issue_api_key, revoke_api_key
from tests.storage.conftest import Opener

pytestmark = pytest.mark.of_the_database

JUST_BEFORE = LIFETIME * 0.99


class Process:
    """The desk and the cache of a server process, with its own clock."""

    def __init__(self, storage: Storage, *, has_listener: bool = True) -> None:
        self.time = 0.0
        self.look_ups = 0
        cache = self._cache = ApiKeyCache(lambda: self.time)
        listeners: dict[type, Callable[[], None]] = {RevokeApiKey: cache.clear} if has_listener else {}
        self.desk = Desk(open_executor(storage), most_waiting=10, listeners=listeners)

    async def accepts(self, issued: IssuedApiKey) -> bool:
        """Whether the process finds the API key of a call."""
        query = FindApiKey(consumer_key_hash=crypto.hash_consumer_key(issued.consumer_key))

        async def look_up() -> Any:
            self.look_ups += 1
            return await self.desk.query(query)

        return await self._cache.find(query.consumer_key_hash, look_up) is not None

    async def revoke(self, issued: IssuedApiKey) -> None:
        context = Context(LATER, an_origin())
        await self.desk.execute(RevokeApiKey(context=context, api_key_id=issued.api_key.id))


@asynccontextmanager
async def a_process(storage: Storage, *, has_listener: bool = True) -> AsyncIterator[Process]:
    process = Process(storage, has_listener=has_listener)
    try:
        yield process
    finally:
        await process.desk.close()


@pytest.fixture
def issued(open_again: Opener) -> IssuedApiKey:
    return issue_api_key(open_again(), "shop", Permissions.READ)


@in_a_loop
async def test_the_database_is_asked_once_a_second(storage: Storage, issued: IssuedApiKey) -> None:
    async with a_process(storage) as process:
        assert [await process.accepts(issued) for _ in range(10)] == [True] * 10
        assert process.look_ups == 1
        process.time = LIFETIME
        assert await process.accepts(issued)
        assert process.look_ups == 2


@pytest.mark.parametrize("has_listener", [True, pytest.param(False, id="control")])
@in_a_loop
async def test_the_process_that_revokes_an_api_key_refuses_it_at_once(
    storage: Storage, issued: IssuedApiKey, *, has_listener: bool
) -> None:
    async with a_process(storage, has_listener=has_listener) as process:
        assert await process.accepts(issued)
        await process.revoke(issued)
        assert await process.accepts(issued) is not has_listener


@in_a_loop
async def test_another_process_refuses_it_a_second_later(
    storage: Storage, open_again: Opener, issued: IssuedApiKey
) -> None:
    async with a_process(storage) as process:
        assert await process.accepts(issued)
        await asyncio.to_thread(revoke_api_key, open_again(), issued.api_key.id)
        process.time = JUST_BEFORE
        # A control: until then, this process is not notified.
        assert await process.accepts(issued)
        process.time = LIFETIME
        assert not await process.accepts(issued)
