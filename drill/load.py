"""Clients at work in a thread, while faults are made in another."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from drill.clients import Clients
from drill.journal import Journal, Lane
from drill.trouble import Trouble, wait_for

_LANES: tuple[Lane, ...] = ("write", "read")
#: The last calls may take as long as clients try, and an answer may come late.
_JOIN_SECONDS = 90.0


class Load:
    """Running clients; the journal is theirs until the block ends."""

    def __init__(self, journal: Journal, ports: Sequence[int], writers: int) -> None:
        self._journal = journal
        self._instances = range(len(ports))
        self._writers = writers
        self._clients = Clients(journal, ports)
        self._problem: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._work_task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="clients")

    def start(self) -> None:
        """Let them begin."""
        self._thread.start()

    def end(self) -> None:
        """Let them finish what they have begun. Raises what ended one of them before."""
        self._clients.end()
        self._thread.join(_JOIN_SECONDS)
        if self._problem is not None:
            raise self._problem
        if self._thread.is_alive():
            raise Trouble("the clients do not come to an end")

    def abandon(self) -> None:
        """Let them drop everything."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_JOIN_SECONDS)

    def wait_for_success(self, since: float, timeout: float) -> None:
        """Wait until every instance has changed and validated something after this moment."""
        for lane in _LANES:
            for instance in self._instances:
                self._wait(lane, instance, since, timeout)

    def _wait(self, lane: Lane, instance: int, since: float, timeout: float) -> None:
        what = f"a {lane} by instance {instance + 1}"
        wait_for(what, lambda: self._has_succeeded(lane, instance, since), timeout=timeout)

    def _has_succeeded(self, lane: Lane, instance: int, since: float) -> bool:
        if self._problem is not None:
            raise self._problem
        return self._journal.last(lane, instance) > since

    def _run(self) -> None:
        try:
            self._work_task = self._loop.create_task(self._work())
            self._loop.run_until_complete(self._work_task)
        except BaseException as problem:
            self._problem = problem
        finally:
            self._loop.close()

    def _cancel(self) -> None:
        if self._work_task is not None:
            self._work_task.cancel()

    async def _work(self) -> None:
        instances = len(self._instances)
        async with asyncio.TaskGroup() as group:
            for number in range(self._writers):
                # Every fourth of an instance is a program that knows nothing of Idempotency-Key.
                is_keyed = number // instances % 4 != 3
                group.create_task(self._clients.activate(number % instances, is_keyed=is_keyed))
            for number in range(max(instances, self._writers // 4)):
                group.create_task(self._clients.validate(number % instances))


@contextmanager
def running(journal: Journal, ports: Sequence[int], *, writers: int) -> Iterator[Load]:
    """So many writing clients, and some that validate; when the block ends, so have they."""
    load = Load(journal, ports, writers)
    load.start()
    try:
        yield load
    except BaseException:
        load.abandon()
        raise
    load.end()
