"""Run the application under uvicorn, in one process or several."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import uvicorn

from keywright import errors as e
from keywright.config import Settings
from keywright.http.app import create_app
from keywright.http.protocol import Protocol
from keywright.http.workers import Workers
from keywright.storage import Storage

#: How long accepted requests may take to finish after the signal to stop, in seconds.
_GRACE = 30
#: How long a thread may keep the interpreter that another one wants, in seconds.
_SWITCH_INTERVAL = 0.0002
#: The most connections that wait to be accepted.
_BACKLOG = 2048


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
    if not storage.is_local:
        # The event loop and the threads that wait for the database hand the interpreter to each other often.
        # 5 ms, the default, would be most of an answer's time: a fifth fewer answers (make bench).
        sys.setswitchinterval(_SWITCH_INTERVAL)
    http: Any = Protocol
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
