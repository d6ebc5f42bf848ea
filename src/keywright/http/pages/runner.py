"""Run pages in threads, one at a time, with access to the database and the desk.

A page is a synchronous function. It reads the database over its thread's connections, and submits its changes
to the desk on the event loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from time import monotonic, sleep, thread_time
from typing import Any, TypeVar

from keywright.core.command import Command
from keywright.core.errors import FateUnknown, KeywrightError, Unavailable
from keywright.db import ReadTransaction, Storage, run_read
from keywright.engine.desk import Desk
from keywright.http.middleware.thread_pool import ThreadPool

#: After a page during which API calls arrived, the next page pauses for this multiple of its CPU time, but at
#: most this long, in seconds.
_PAUSE_FACTOR = 2.0
_MAX_PAUSE = 0.05


class PageLock:
    """Lets one page thread run at a time: two would compete for the interpreter, and take twice as much of it
    from the event loop.
    """

    def __init__(self, count_calls: Callable[[], int]) -> None:
        """``count_calls`` returns the number of API calls since the process started."""
        self._count_calls = count_calls
        self._lock = threading.Lock()
        self._local = threading.local()
        self._paused_until = 0.0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock. If API calls arrive while it is held, the next thread to acquire it pauses first."""
        with self._lock:
            sleep(max(0.0, self._paused_until - monotonic()))
            started, calls = thread_time(), self._count_calls()
            self._local.has_lock = True
            try:
                yield
            finally:
                self._local.has_lock = False
                if self._count_calls() > calls:
                    pause = _PAUSE_FACTOR * (thread_time() - started)
                    self._paused_until = monotonic() + min(_MAX_PAUSE, pause)

    @contextmanager
    def release(self) -> Iterator[None]:
        """Release the lock, if this thread has it, while the thread waits or needs no interpreter."""
        if not getattr(self._local, "has_lock", False):
            yield
            return
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()


#: The most pages in progress at once. Only one of them runs; the others wait, for example for the desk.
_THREADS = 3
#: The most requests in the queue: of the threads for pages; of the thread that checks passwords from unknown
#: browsers, which must not delay signed-in users, and of the one for company sign-ins; and of the thread that
#: checks passwords from known browsers, which a flood of sign-ins must not block.
_MAX_WAITING = 100
_MAX_SIGN_INS = 10
_MAX_KNOWN_SIGN_INS = 10
#: How long a page waits for the desk, in seconds: longer than every timeout of the desk itself.
_DESK_TIMEOUT = 90.0

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Runner:
    """The threads in which pages run. Create it on the event loop, and close it before the desk."""

    def __init__(
        self,
        storage: Storage,
        desk: Desk,
        *,
        count_calls: Callable[[], int],
        on_change: Callable[[Command], None],
    ) -> None:
        """``count_calls`` returns the number of API calls since the process started; ``on_change`` is called
        with each command that ``change`` has carried out.
        """
        self._storage = storage
        self._desk = desk
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._pages = ThreadPool(_THREADS, _MAX_WAITING, "pages")
        self._sign_ins = ThreadPool(1, _MAX_SIGN_INS, "sign-ins")
        self._known_sign_ins = ThreadPool(1, _MAX_KNOWN_SIGN_INS, "known-sign-ins")
        self._company_sign_ins = ThreadPool(1, _MAX_SIGN_INS, "company-sign-ins")
        self._local = threading.local()
        self._opened: list[Storage] = []
        self.lock = PageLock(count_calls)

    @property
    def waiting(self) -> int:
        """The number of calls in the desk's queue."""
        return self._desk.waiting

    @property
    def is_writable(self) -> bool:
        """Whether changes are possible, judging by the latest attempt to write to the database."""
        return not self._storage.watch.writing.is_on

    async def run(self, work: Callable[[], Result], *, is_started: bool = False) -> Result:
        """Run ``work`` in a thread. Raises ``QueueFull`` when too many requests wait, unless ``is_started``:
        an answer that has begun is completed.
        """
        return await self._pages.run(self._carry(work), is_started=is_started)

    async def run_sign_in(self, work: Callable[[], Result], *, is_known: bool = False) -> Result:
        """Run ``work`` in the thread for sign-ins, or in the one for known browsers. Raises ``QueueFull``."""
        pool = self._known_sign_ins if is_known else self._sign_ins
        return await pool.run(self._carry(work))

    async def run_company_sign_in(self, work: Callable[[], Result]) -> Result:
        """Run ``work`` in the thread that waits for the company's provider: a provider that hangs delays no
        other page, and no password check. Raises ``QueueFull``.
        """
        return await self._company_sign_ins.run(self._carry(work))

    def ask(self, question: Callable[[ReadTransaction], Result]) -> Result:
        """Read from one snapshot of the database. Call it in a thread."""
        storage: Storage | None = getattr(self._local, "storage", None)
        if storage is None:
            storage = self._local.storage = self._storage.clone()
            self._opened.append(storage)
        return run_read(storage, question)

    def ask_soon(self, question: Callable[[ReadTransaction], object]) -> None:
        """Read as soon as a thread is free, without waiting for it; errors are logged."""

        def read() -> None:
            try:
                self.ask(question)
            except Unavailable as fault:
                log.debug("a background query failed: %s", fault)
            except Exception:
                log.exception("a background query failed")

        # The pool refuses work after close().
        with suppress(RuntimeError):
            self._pages.executor.submit(read)

    def change(self, command: Command) -> Any:
        """Submit the command to the desk and wait for its durable outcome. Raises its refusal or fault, or
        ``FateUnknown`` after a timeout. Call it in a thread.
        """
        pending = asyncio.run_coroutine_threadsafe(self._desk.execute(command), self._loop)
        try:
            with self.lock.release():
                outcome = pending.result(_DESK_TIMEOUT)
        except (TimeoutError, CancelledError):
            raise FateUnknown("the desk did not answer") from None
        self._on_change(command)
        return outcome

    def change_soon(self, command: Command) -> None:
        """Submit the command without waiting for it; errors are only logged. Call it in a thread."""

        async def submit() -> None:
            try:
                await self._desk.execute(command)
            except KeywrightError as fault:
                log.debug("%s failed: %s", type(command).__name__, fault.code)

        asyncio.run_coroutine_threadsafe(submit(), self._loop)

    async def close(self) -> None:
        """Wait for the pages in progress, then close their database connections."""
        # Pages may still need the desk, so the event loop must keep running.
        for pool in (self._pages, self._sign_ins, self._known_sign_ins, self._company_sign_ins):
            await asyncio.to_thread(pool.executor.shutdown, cancel_futures=True)
        for storage in self._opened:
            storage.close()

    def _carry(self, work: Callable[[], Result]) -> Callable[[], Result]:
        """The work for a thread, in the request's context, which has its language."""
        return partial(copy_context().run, self._run_locked, work)

    def _run_locked(self, work: Callable[[], Result]) -> Result:
        with self.lock.hold():
            return work()
