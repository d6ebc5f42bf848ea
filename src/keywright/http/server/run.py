"""Run an application under uvicorn, in one process or in several."""

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
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp

from keywright.config import Settings
from keywright.db import Storage
from keywright.http.answer import ErrorWriter
from keywright.http.server.protocol import IS_LEAVING, Protocol
from keywright.http.server.sockets import (
    BACKLOG,
    Address,
    ConnectionLimit,
    ListeningSockets,
    raise_descriptor_limit,
)
from keywright.http.server.workers import Workers

#: The timeout for accepted requests to finish after the signal to stop, in seconds.
_GRACE = 30
#: The interval of ticks, and their interval while the server is draining, in seconds.
_TICK, _LAST_TICK = 1.0, 0.1
#: How long a thread may keep the interpreter while another one waits for it, in seconds, by
#: ``storage.is_local``.
_SWITCH_INTERVAL = {True: 0.00005, False: 0.0002}
#: Python's defaults; the program starts with higher values.
_COLLECTION_THRESHOLDS = (700, 10, 10)

log = logging.getLogger(__name__)

#: Called with the base URLs of the server and of the administration pages.
WhenReady = Callable[[str, str], None]


class Application(NamedTuple):
    """An application that can be served. ``create`` builds it; its last argument is the only address that
    serves the administration pages, if there is one. ``write_error`` answers malformed requests.
    """

    create: Callable[[Settings, Storage, Address | None], ASGIApp]
    write_error: ErrorWriter


class _Server(uvicorn.Server):
    """uvicorn's server, which reports when it listens, and returns after a signal instead of ending the
    process. Clients that connected before it stopped listening are answered.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        when_ready: Callable[[], None],
        *,
        drain_seconds: int,
        parent: int | None = None,
    ) -> None:
        """``drain_seconds`` is how long it continues to serve after SIGTERM; the descriptor ``parent``
        becomes readable when the parent process has ended.
        """
        super().__init__(config)
        self._when_ready = when_ready
        self._parent = parent
        self._drain_seconds = drain_seconds
        #: The time to stop, by ``monotonic``; None until SIGTERM.
        self._stops_at: float | None = None
        self._is_signaled = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        if self._parent is not None:
            self._loop.add_reader(self._parent, self._leave, self._parent)
        if self.started:
            # Nearly all objects created so far live as long as the process. The garbage collector must not
            # traverse them: that takes tens of milliseconds each time, in which no call is answered.
            gc.freeze()
            gc.set_threshold(*_COLLECTION_THRESHOLDS)
            self._when_ready()

    async def main_loop(self) -> None:
        # uvicorn's own loop wakes ten times a second. Tick 0 also updates the date of answers.
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                seconds = _TICK if self._stops_at is None else _LAST_TICK
                await asyncio.wait_for(self._is_signaled.wait(), seconds)
            self._is_signaled.clear()

    async def on_tick(self, counter: int) -> bool:
        if self._stops_at is not None:
            if not self.lifespan.state.get(IS_LEAVING):
                self.lifespan.state[IS_LEAVING] = True
                log.info("told to stop; serving for another %d s", self._drain_seconds)
            self.should_exit = self.should_exit or monotonic() >= self._stops_at
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.lifespan.state[IS_LEAVING] = True
        await self._accept_waiting(sockets or [])
        await super().shutdown(sockets)

    async def _accept_waiting(self, sockets: Sequence[socket.socket]) -> None:
        """Stop listening, and accept all waiting connections, which the system would otherwise reset."""
        loop = asyncio.get_running_loop()
        copies: list[socket.socket] = []
        with suppress(OSError):
            copies += [one.dup() for one in sockets]
        for server in self.servers:
            server.close()
        for one in sockets:
            one.close()
        for connection in [late for copy in copies for late in _accept_all(copy)]:
            with suppress(OSError):
                await loop.connect_accepted_socket(self._create_protocol, connection)

    def _create_protocol(self) -> Protocol:
        protocol_class: Any = self.config.http_protocol_class
        protocol: Protocol = protocol_class(
            self.config, self.server_state, self.lifespan.state, asyncio.get_running_loop()
        )
        return protocol

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self._drain_seconds and not self.should_exit:
            # A second SIGTERM changes nothing: systemd may send one to both a worker and its parent.
            self._stops_at = self._stops_at or monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._is_signaled.set)

    def _leave(self, parent: int) -> None:
        asyncio.get_running_loop().remove_reader(parent)
        self.should_exit = True
        self._is_signaled.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in signals}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def serve(settings: Settings, storage: Storage, application: Application, *, when_ready: WhenReady) -> None:
    """Serve until SIGINT, or until ``drain_seconds`` (a setting) after SIGTERM; then finish the accepted
    requests and return.

    ``when_ready`` is called once connections are accepted. Raises ``ConfigurationError`` if an address cannot
    be used.
    """
    with closing(ListeningSockets.open(settings)) as listening:
        report_ready = partial(when_ready, listening.url, listening.admin_url)
        _run(settings, storage, application, listening, when_ready=report_ready)


def serve_with_workers(
    settings: Settings,
    open_storage: Callable[[], Storage],
    application: Application,
    *,
    when_ready: WhenReady,
) -> None:
    """Serve like ``serve``, with the configured number of processes; each opens its own storage.

    Also raises ``WorkerFailed``.
    """
    with closing(ListeningSockets.open(settings)) as listening:

        def work(report_ready: Callable[[], None], parent: int) -> None:
            with closing(open_storage()) as storage:
                _run(settings, storage, application, listening, when_ready=report_ready, parent=parent)

        # Sockets left open by the parent would accept connections that no worker serves.
        workers = Workers(
            settings.workers, work, when_stopping=listening.close, drain_seconds=settings.drain_seconds
        )
        workers.run(lambda: when_ready(listening.url, listening.admin_url))


def _run(
    settings: Settings,
    storage: Storage,
    application: Application,
    listening: ListeningSockets,
    *,
    when_ready: Callable[[], None],
    parent: int | None = None,
) -> None:
    # The event loop and the threads that wait for the database, or render pages, hand the interpreter to each
    # other often. With the default of 5 ms, waiting would be most of an answer's time: on PostgreSQL, a fifth
    # fewer answers (make bench). On SQLite, the only threads are those that render pages, and calls must not
    # wait for them.
    sys.setswitchinterval(_SWITCH_INTERVAL[storage.is_local])
    protocol: Any = partial(
        Protocol,
        write_error=application.write_error,
        connection_limit=ConnectionLimit(settings, raise_descriptor_limit()),
    )
    config = uvicorn.Config(
        application.create(settings, storage, listening.admin_address),
        loop="uvloop" if os.name == "posix" else "asyncio",
        http=protocol,
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


def _accept_all(listening: socket.socket) -> list[socket.socket]:
    """Accept all waiting connections of a socket that is no longer listening."""
    waiting = []
    with listening, suppress(OSError):
        listening.setblocking(False)
        while True:
            waiting.append(listening.accept()[0])
    return waiting
