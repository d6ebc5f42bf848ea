"""Desks for tests: on a database that can be observed, in an event loop where nothing fails unseen."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, cast

from keywright.core.errors import KeywrightError
from keywright.db import ReadTransaction, Storage, WriteTransaction
from keywright.engine.desk import Desk
from keywright.engine.lane import ANSWER_WITHIN
from keywright.registry import open_executor
from tests.databases import a_postgres_url
from tests.makers import url_of


class Observed:
    """A database that tells which transactions there were, and can hold up those of other threads."""

    def __init__(self, storage: Storage) -> None:
        self.inner = storage
        self.is_local = storage.is_local
        self.watch = storage.watch
        #: Where short changes are made.
        self.place = "in place" if storage.is_local else "aside"
        self.writes: list[str] = []
        #: How long each change would have waited for another process, in seconds.
        self.waits: list[float | None] = []
        self.reads = 0
        #: Those that were opened beside this one.
        self.others: list[Observed] = []
        self.go_on = threading.Event()
        self.go_on.set()

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        is_aside = threading.current_thread() is not threading.main_thread()
        self.writes.append("aside" if is_aside else "in place")
        self.waits.append(wait)
        if is_aside:
            self.go_on.wait(timeout=10)
        with self.inner.write(wait=wait) as tx:
            yield tx

    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        self.reads += 1
        with self.inner.read(is_single=is_single) as tx:
            yield tx

    def interrupt(self, *, writing: bool) -> None:
        self.inner.interrupt(writing=writing)

    def clone(self) -> "Observed":
        """Another one, whose questions are held up as well."""
        other = _Held(self.inner.clone())
        other.go_on = self.go_on
        self.others.append(other)
        return other

    def close(self) -> None:
        self.inner.close()


class _Held(Observed):
    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        assert threading.current_thread() is not threading.main_thread()
        self.go_on.wait(timeout=10)
        with super().read(is_single=is_single) as tx:
            yield tx


@contextmanager
def a_url(database: str, folder: Path) -> Iterator[str]:
    """The URL of a new database of this kind."""
    if database == "sqlite":
        yield url_of(folder)
        return
    with a_postgres_url() as url:
        yield url


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test to its end; nothing may fail unseen on its event loop."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        unseen: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, problem: unseen.append(problem))
            await test(**fixtures)

        asyncio.run(watched())
        assert unseen == []

    return run


class AnAsker:
    """Who waits for an outcome, or has gone."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.is_gone = is_gone
        #: As an earlier call has left it.
        self.is_begun = True


def a_desk(
    storage: Storage | Observed, most_waiting: int = 1000, answer_within: float = ANSWER_WITHIN, **more: Any
) -> Desk:
    executor = open_executor(cast(Storage, storage))
    return Desk(executor, most_waiting=most_waiting, answer_within=answer_within, **more)


async def turns(number: int) -> None:
    """Let everyone else have that many turns of the event loop."""
    for _ in range(number):
        await asyncio.sleep(0)


def start_calls(*calls: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    return [asyncio.ensure_future(call) for call in calls]


async def results(*calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """What each call returned or raised; an error must never come back as a value."""

    async def result(call: Coroutine[Any, Any, Any]) -> Any:
        try:
            value = await call
        except KeywrightError as error:
            return error
        assert not isinstance(value, Exception)
        return value

    return await asyncio.gather(*map(result, calls))
