"""The door to the administration pages: where the event loop and the threads meet in which pages are made.

Pages are plain synchronous functions: they read the database, each thread with a storage of its own, and
write HTML. Changes go back to the desk on the event loop. What the pages are made of (templates, the frame)
is imported by a thread when the first visitor comes: a server whose pages nobody opens pays nothing.
"""

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keywright.background.counters import Counters
from keywright.background.job_runner import JobRunner
from keywright.config import Settings
from keywright.core.command import Command
from keywright.core.errors import FateUnknown, KeywrightError, QueueFull, Unavailable
from keywright.db import ReadTransaction, Storage, ask
from keywright.engine.desk import Desk
from keywright.http.middleware.edge import MAX_ADDRESS
from keywright.http.middleware.intake import BodyReader
from keywright.http.pages.page_lock import Turns
from keywright.http.pages.urls import BASE
from keywright.http.rooms import Room
from keywright.http.server.protocol import is_gone
from keywright.jobs.commands import StartJob

#: How many pages are under way at once. Only one of them works; the others wait, for the desk for instance.
_THREADS = 3
#: How many pages may wait for that; and for the one thread in which passwords of strangers are looked at,
#: which must not keep those who are signed in; and for the one for browsers that are known, which a crowd of
#: strangers must not keep out.
_MOST_WAITING = 100
_MOST_AT_ENTRANCE = 10
_MOST_KNOWN_AT_ENTRANCE = 10
#: How long a page waits for the desk, in seconds: longer than the desk itself waits for anything.
_PATIENCE = 90.0
#: What every answer below /admin says; but statics may be kept.
_ALWAYS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    # Not "no-referrer": with that, browsers would not say where a form comes from, either.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Door:
    """The ASGI application below /admin. Whoever runs it gives it its desk first, and closes it before the
    desk; ``tallies`` are what the edge counts, for who wants to see it; ``intake`` reads forms; ``long_work``
    works on jobs.
    """

    desk: Desk
    tallies: Counters
    intake: BodyReader
    long_work: JobRunner

    def __init__(self, settings: Settings, storage: Storage) -> None:
        self.settings = settings
        self._storage = storage
        self._inside = Room(_THREADS, _MOST_WAITING, "pages")
        self._entrance = Room(1, _MOST_AT_ENTRANCE, "entrance")
        self._known_entrance = Room(1, _MOST_KNOWN_AT_ENTRANCE, "known-entrance")
        self._here = threading.local()
        self._opened: list[Storage] = []
        #: ``turns.aside`` lets others work while a page waits for something.
        self.turns = Turns(lambda: self.tallies.calls)
        #: When this server process began, by ``monotonic``.
        self.began = monotonic()
        self._loop: asyncio.AbstractEventLoop
        self._building: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        has_begun = False

        async def send_safely(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [*message["headers"], *_ALWAYS]
            await send(message)

        try:
            if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_ADDRESS:
                await _say(send_safely, 414, "This address is too long.")
                return
            if scope["path"] == BASE:
                await _say(send_safely, 303, "", (b"location", f"{BASE}/".encode()))
                return
            await (await self._app())(scope, receive, send_safely)
        except QueueFull:
            await _say(send_safely, 503, "Too many pages are waiting. Try again.", (b"retry-after", b"1"))
        except Exception as problem:
            if is_gone(scope):
                raise
            await _fail(send_safely, problem, has_begun=has_begun)

    async def run(self, work: Callable[[], Result], *, is_begun: bool = False) -> Result:
        """What ``work`` returns, in one of the threads. Raises ``QueueFull`` when too many wait for that, but
        not for the rest of an answer that ``is_begun``.
        """
        return await self._inside.run(partial(self._in_turn, work), is_begun=is_begun)

    async def run_at_entrance(self, work: Callable[[], Result], *, is_known: bool = False) -> Result:
        """The same in a thread of its own, for what strangers can make long; in another one for whoever
        ``is_known``.
        """
        room = self._known_entrance if is_known else self._entrance
        return await room.run(partial(self._in_turn, work))

    def ask(self, question: Callable[[ReadTransaction], Result]) -> Result:
        """What the question reads from one moment of the database. In a thread only."""
        storage: Storage | None = getattr(self._here, "storage", None)
        if storage is None:
            storage = self._here.storage = self._storage.beside()
            self._opened.append(storage)
        return ask(storage, question)

    def ask_soon(self, question: Callable[[ReadTransaction], object]) -> None:
        """Ask the question when a thread is free; what it raises is written to the log."""

        def asked() -> None:
            try:
                self.ask(question)
            except Unavailable as fault:
                log.debug("a question of the pages was not answered: %s", fault)
            except Exception:
                log.exception("a question of the pages could not be asked")

        # Not any more once the last pages are made.
        with suppress(RuntimeError):
            self._inside.threads.submit(asked)

    def change(self, command: Command) -> Any:
        """What the desk makes of the command, durable; raises what it raises. In a thread only."""
        deciding = asyncio.run_coroutine_threadsafe(self.desk.execute(command), self._loop)
        try:
            with self.turns.aside():
                decided = deciding.result(_PATIENCE)
        except (TimeoutError, CancelledError):
            raise FateUnknown("the desk did not answer") from None
        if isinstance(command, StartJob):
            self.long_work.wake()
        return decided

    def change_soon(self, command: Command) -> None:
        """The same, for what no page waits for; a fault is not reported. In a thread only."""

        async def decided() -> None:
            try:
                await self.desk.execute(command)
            except KeywrightError as fault:
                log.debug("%s came to nothing: %s", type(command).__name__, fault.code)

        asyncio.run_coroutine_threadsafe(decided(), self._loop)

    async def close(self) -> None:
        """Return when every page is made, and the storages are closed."""
        # They may still want something of the desk, so this must not hold up the event loop.
        for room in (self._inside, self._entrance, self._known_entrance):
            await asyncio.to_thread(room.threads.shutdown, cancel_futures=True)
        for storage in self._opened:
            storage.close()

    def _in_turn(self, work: Callable[[], Result]) -> Result:
        with self.turns.taken():
            return work()

    async def _app(self) -> ASGIApp:
        """The pages; made by a thread when they are wanted for the first time."""
        if self._building is None:
            self._loop = asyncio.get_running_loop()
            self._building = asyncio.ensure_future(self.run(self._build))
        try:
            return await asyncio.shield(self._building)
        except Exception:
            self._building = None
            raise

    def _build(self) -> ASGIApp:
        # The collector would walk through all that is imported, again and again, and everybody would wait.
        gc.disable()
        try:
            from keywright.http.admin.app import build

            app = build(self)
            # It stays for good.
            gc.freeze()
        finally:
            gc.enable()
        return app


async def _fail(send: Send, problem: Exception, *, has_begun: bool) -> None:
    log.exception("a page could not be made", exc_info=problem)
    if not has_begun:
        await _say(send, 500, "Something went wrong. The server's log says more.")


async def _say(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    """What is said when not even a page can be made that says it."""
    body = f"{text}\n".encode() if text else b""
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *headers]})
    await send({"type": "http.response.body", "body": body})
