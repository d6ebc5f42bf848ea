"""Run the application under uvicorn, with limits on what a client may send before it is understood."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from keywright import errors as e
from keywright.config import Settings
from keywright.http import problems
from keywright.http.app import create_app
from keywright.http.workers import Workers
from keywright.storage import Storage

#: How long accepted requests may take to finish after the signal to stop, in seconds.
_GRACE = 30
#: The most connections that wait to be accepted.
_BACKLOG = 2048
#: The most bytes of request line and headers together.
MAX_HEADERS = 32 * 1024
#: How long a request's headers may take to arrive, in seconds.
HEADERS_TIMEOUT = 10


class _Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with limits on headers and refusals in the interface's shape."""

    _is_in_headers = False
    _is_refused = False
    #: Bytes of the headers that are complete, and of what came since anything was.
    _header_bytes = 0
    _arrived = 0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_are_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._arrived += len(data)
        super().data_received(data)
        if self._arrived > MAX_HEADERS:
            self._refuse(e.HeadersTooLarge())
        elif self._is_in_headers and self._patience is None:
            self._wait_for_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_headers = True
        self._header_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        # What follows a body in pieces looks like headers too (RFC 9112 §7.1.2), and is nobody's to believe.
        if self._is_in_headers:
            self._header_bytes += len(name) + len(value) + 4
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        if self._is_refused:
            return
        if self._header_bytes + len(self.url) > MAX_HEADERS:
            self._refuse(e.HeadersTooLarge())
            return
        self._arrived = 0
        self._headers_are_here()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._arrived = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_refused:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(e.MalformedRequest())

    def _unsupported_upgrade_warning(self) -> None:
        """An upgrade that is not taken needs no word in the log."""

    def _wait_for_headers(self) -> None:
        self._patience = self.loop.call_later(HEADERS_TIMEOUT, self._give_up)

    def _headers_are_here(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self._is_answering():
            self._wait_for_headers()
        elif self._is_in_headers:
            self._refuse(e.RequestTooSlow())
        else:
            self.transport.close()

    def _is_answering(self) -> bool:
        """Whether a request that came whole still waits for its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _refuse(self, error: e.KeywrightError) -> None:
        """Answer what never became a request, and hang up.

        An earlier request of this connection gets its own answer; the connection ends with that.
        """
        self._is_refused = True
        if self.transport.is_closing():
            return
        if self._is_answering():
            self.cycle.keep_alive = False
            return
        status, body = problems.write(error, problems.NO_SAYINGS)
        head = (
            b"content-type: application/json; charset=UTF-8\r\ncache-control: no-store\r\n"
            b"x-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it listens, and returns after a signal instead of dying."""

    def __init__(
        self, config: uvicorn.Config, when_ready: Callable[[], None], parent: int | None = None
    ) -> None:
        """``parent`` is a descriptor that can be read when there is nobody any more to work for."""
        super().__init__(config)
        self._when_ready = when_ready
        self._parent = parent

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


def serve(settings: Settings, storage: Storage, *, when_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then finish what was accepted and return.

    ``when_ready`` gets the server's base URL as soon as connections are accepted. Raises
    ``ConfigurationError`` when the address cannot be used.
    """
    with closing(_listen(settings.host, settings.port)) as listening:
        _run(settings, storage, listening, lambda: when_ready(_url_of(listening)))


def serve_with_workers(
    settings: Settings, open_storage: Callable[[], Storage], *, when_ready: Callable[[str], None]
) -> None:
    """The same with as many processes as the settings say; each opens the storage for itself.

    Raises ``WorkerFailed`` too.
    """
    with closing(_listen(settings.host, settings.port)) as listening:

        def work(say_ready: Callable[[], None], parent: int) -> None:
            with closing(open_storage()) as storage:
                _run(settings, storage, listening, say_ready, parent)

        Workers(settings.workers, work).run(lambda: when_ready(_url_of(listening)))


def _run(
    settings: Settings,
    storage: Storage,
    listening: socket.socket,
    when_ready: Callable[[], None],
    parent: int | None = None,
) -> None:
    http: Any = _Protocol
    config = uvicorn.Config(
        create_app(settings, storage),
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
        backlog=_BACKLOG,
    )
    _Server(config, when_ready, parent).run(sockets=[listening])


def _url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as stack:
            listening = stack.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
            # It is open: whoever asked closes it.
            stack.pop_all()
    except OSError as problem:
        raise e.ConfigurationError(
            f"{host}:{port} cannot be listened on: {problem.strerror}. "
            "Choose another address with --host and --port."
        ) from problem
    return listening
