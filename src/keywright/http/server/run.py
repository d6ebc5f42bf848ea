"""Run the application under uvicorn, in one process or several."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from time import monotonic
from types import FrameType
from typing import Any

import uvicorn

from keywright.config import Settings
from keywright.db import Storage
from keywright.http.app import create_app
from keywright.http.server.connection_limit import ConnectionLimit, raise_descriptor_limit
from keywright.http.server.listening import BACKLOG, ListeningSockets
from keywright.http.server.protocol import IS_LEAVING, Protocol
from keywright.http.server.workers import Workers

#: How long accepted requests may take to finish after the signal to stop, in seconds.
_GRACE = 30
#: How long a thread may keep the interpreter that another one wants, in seconds, by ``storage.is_local``.
_SWITCH_INTERVAL = {True: 0.00005, False: 0.0002}

log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it listens, and returns after a signal instead of dying. Whoever has
    connected before it stops listening is answered.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        when_ready: Callable[[], None],
        *,
        drain_seconds: int,
        parent: int | None = None,
    ) -> None:
        """``drain_seconds`` is how long it goes on after SIGTERM; ``parent`` is a descriptor that can be read
        when there is nobody any more to work for.
        """
        super().__init__(config)
        self._when_ready = when_ready
        self._parent = parent
        self._drain_seconds = drain_seconds
        #: When it stops, by ``monotonic``; None as long as nobody said so.
        self._stops_at: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._parent is not None:
            asyncio.get_running_loop().add_reader(self._parent, self._leave, self._parent)
        if self.started:
            # What is here now stays for good: the collector need not walk through it again and again
            # (tens of milliseconds each time, while everybody waits).
            gc.collect()
            gc.freeze()
            self._when_ready()

    async def on_tick(self, counter: int) -> bool:
        if self._stops_at is not None:
            if not self.lifespan.state.get(IS_LEAVING):
                self.lifespan.state[IS_LEAVING] = True
                log.info("told to stop; serving for another %d s", self._drain_seconds)
            self.should_exit = self.should_exit or monotonic() >= self._stops_at
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.lifespan.state[IS_LEAVING] = True
        await self._take_the_rest(sockets or [])
        await super().shutdown(sockets)

    async def _take_the_rest(self, sockets: Sequence[socket.socket]) -> None:
        """Stop listening, and let everybody in who has connected by then: the system would cut them off."""
        loop = asyncio.get_running_loop()
        copies: list[socket.socket] = []
        with suppress(OSError):
            copies += [one.dup() for one in sockets]
        for server in self.servers:
            server.close()
        for one in sockets:
            one.close()
        for connection in [late for copy in copies for late in _waiting_at(copy)]:
            with suppress(OSError):
                await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> Protocol:
        make: Any = self.config.http_protocol_class
        made: Protocol = make(self.config, self.server_state, self.lifespan.state, asyncio.get_running_loop())
        return made

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self._drain_seconds and not self.should_exit:
            # Once more is no reason to hurry: systemd may tell both a worker and its parent.
            self._stops_at = self._stops_at or monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)

    def _leave(self, parent: int) -> None:
        asyncio.get_running_loop().remove_reader(parent)
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in signals}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


#: Gets the server's base URL, and that of the administration pages.
WhenReady = Callable[[str, str], None]


def serve(settings: Settings, storage: Storage, *, when_ready: WhenReady) -> None:
    """Serve until SIGTERM (and the setting drain_seconds longer) or SIGINT, then finish what was accepted and
    return.

    ``when_ready`` is called as soon as connections are accepted. Raises ``ConfigurationError`` when the
    address cannot be used.
    """
    with closing(ListeningSockets.open(settings)) as listening:
        _run(settings, storage, listening, lambda: when_ready(listening.url, listening.admin_url))


def serve_with_workers(
    settings: Settings, open_storage: Callable[[], Storage], *, when_ready: WhenReady
) -> None:
    """The same with as many processes as the settings say; each opens the storage for itself.

    Raises ``WorkerFailed`` too.
    """
    with closing(ListeningSockets.open(settings)) as listening:

        def work(say_ready: Callable[[], None], parent: int) -> None:
            with closing(open_storage()) as storage:
                _run(settings, storage, listening, say_ready, parent)

        # What the parent keeps open would take connections that no worker takes any more.
        workers = Workers(
            settings.workers, work, when_stopping=listening.close, drain_seconds=settings.drain_seconds
        )
        workers.run(lambda: when_ready(listening.url, listening.admin_url))


def _run(
    settings: Settings,
    storage: Storage,
    listening: ListeningSockets,
    when_ready: Callable[[], None],
    parent: int | None = None,
) -> None:
    # The event loop and the threads that wait for the database, or make pages, hand the interpreter to each
    # other often. 5 ms, the default, would be most of an answer's time: on PostgreSQL, a fifth fewer answers
    # (make bench). On SQLite there are only the threads that make pages, and a call is not to wait for those.
    sys.setswitchinterval(_SWITCH_INTERVAL[storage.is_local])
    http: Any = partial(Protocol, admission=ConnectionLimit(settings, raise_descriptor_limit()))
    config = uvicorn.Config(
        create_app(settings, storage, listening.admin_address),
        loop="uvloop" if os.name == "posix" else "asyncio",
        http=http,
        ws="none",
        interface="asgi3",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        backlog=BACKLOG,
    )
    server = _Server(config, when_ready, drain_seconds=settings.drain_seconds, parent=parent)
    server.run(sockets=listening.sockets)


def _waiting_at(listening: socket.socket) -> list[socket.socket]:
    """Those who have connected and were not let in yet; nobody can connect any more."""
    waiting = []
    with listening, suppress(OSError):
        listening.setblocking(False)
        while True:
            waiting.append(listening.accept()[0])
    return waiting
