"""HTTP/1 as it is read: uvicorn's, with limits on what a client may send before it is understood, and
nothing that could be read in two ways.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import httptools
from starlette.types import Scope
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from keywright.core import errors as e
from keywright.http.server.connection_limit import ConnectionLimit
from keywright.http.v2 import messages
from keywright.http.v2.parameters import has_body

#: The most bytes of request line and headers together.
MAX_HEADERS = 32 * 1024
#: The most lines of headers: each costs time wherever a header is looked for.
MAX_HEADER_LINES = 256
#: How long a request's headers may take to arrive, in seconds.
HEADERS_TIMEOUT = 10
#: How much of what has come is read at once, in bytes: what can be in the pipeline.
_PIECE = 2048
#: How long a caller may take to read what was sent to it, in seconds.
TAKING_TIMEOUT = 30
#: How long a connection without a request is given to bring one when the server stops, in seconds.
LAST_CHANCE = 1
#: Where a request's scope has the transport that it came over: closing it is all that a caller says who gives
#: up waiting.
TRANSPORT = "keywright.transport"
#: What is true in the state that the server shares with the application when it is about to stop.
IS_LEAVING = "is_leaving"

log = logging.getLogger(__name__)


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with limits on headers and refusals in the interface's shape."""

    _is_in_headers = False
    _is_in_body = False
    _is_refused = False
    #: Bytes of the headers that are complete, and of what came since anything was.
    _header_bytes = 0
    _arrived = 0
    #: What has come behind requests that wait.
    _held = b""
    _patience: asyncio.TimerHandle | None = None
    #: Runs while the caller does not read what waits to be sent.
    _taking: asyncio.TimerHandle | None = None
    _peer = ""
    _is_admitted = False
    #: The request that is being answered, or was last; later ones wait in the pipeline.
    _running: RequestResponseCycle | None = None

    def __init__(self, *arguments: Any, admission: ConnectionLimit | None = None, **named: Any) -> None:
        """``admission`` bounds the connections that there are at once; without it, nothing does."""
        super().__init__(*arguments, **named)
        self._admission = admission

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self._is_admitted = self._admission is None or self._admission.admit(self._peer)
        if self._is_admitted:
            self._wait_for_headers()
        else:
            self._refuse(e.QueueFull())

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_are_here()
        self._stop_waiting_for_taking()
        if self._is_admitted and self._admission is not None:
            self._admission.leave(self._peer)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_waiting_for_taking()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def data_received(self, data: bytes) -> None:
        if self._held:
            self._held += data
            self.flow.pause_reading()
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Read what has come, but not what stands behind a request that waits for the answers before it: as a
        request, that would take far more memory than as bytes.
        """
        for start in range(0, len(data), _PIECE):
            if self._is_refused:
                return
            if self.pipeline:
                self._held = data[start:]
                self.flow.pause_reading()
                return
            self._read_piece(data[start : start + _PIECE])

    def _read_piece(self, data: bytes) -> None:
        self._arrived += len(data)
        self._feed(data)
        if self._arrived > MAX_HEADERS:
            self._refuse(e.HeadersTooLarge())
        elif self._patience is None and (self._is_in_headers or self._is_idle()):
            self._wait_for_headers()

    def _read_on(self) -> None:
        """Read what was held back."""
        held, self._held = self._held, b""
        if not self.transport.is_closing():
            self._read(held)
            if not self.pipeline:
                self.flow.resume_reading()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_headers = True
        self._header_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        # What follows a body in pieces looks like headers too (RFC 9112 §7.1.2), and is nobody's to believe.
        if self._is_in_headers:
            self._header_bytes += len(name) + len(value) + 4
            if len(self.headers) < MAX_HEADER_LINES:
                super().on_header(name, value)
            elif not self._is_refused:
                self._refuse(e.HeadersTooLarge())

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        if self._is_refused or self.parser.should_upgrade():
            # An upgrade: read again without that wish, see ``_feed``.
            return
        if self._header_bytes + len(self.url) > MAX_HEADERS:
            self._refuse(e.HeadersTooLarge())
            return
        if not self._has_one_host():
            self._refuse(e.MalformedRequest())
            return
        self._is_in_body = True
        self._arrived = 0
        self._headers_are_here()
        is_next = self._is_idle()
        super().on_headers_complete()
        self.scope[TRANSPORT] = self.transport  # type: ignore[literal-required]
        if self.app_state.get(IS_LEAVING):
            # The answer says that it is this connection's last one: the next request goes elsewhere.
            self.cycle.keep_alive = False
        if is_next:
            self._running = self.cycle

    def _has_one_host(self) -> bool:
        """Whether the request names its host once, as HTTP/1.1 demands (RFC 9112 §3.2)."""
        hosts = [name for name, _ in self.headers].count(b"host")
        return hosts == 1 or (hosts == 0 and self.parser.get_http_version() == "1.0")

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for_taking()
        elif self._held:
            self.flow.pause_reading()
            if not self.pipeline:
                self.loop.call_soon(self._read_on)

    def on_body(self, body: bytes) -> None:
        self._arrived = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_body = False
        if not self._is_refused and not self.parser.should_upgrade():
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        super()._start_asgi_task(cycle, partial(_answer, app, cycle))

    def shutdown(self) -> None:
        """The server stops: who has just come, or is asking, is heard; everybody is answered."""
        if self._is_in_headers or self.cycle is None:
            self._headers_are_here()
            self._patience = self.loop.call_later(LAST_CHANCE, self._give_up)
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        self._refuse(e.MalformedRequest())

    def _feed(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        left = data
        while left and not self._is_refused:
            try:
                self.parser.feed_data(left)
                return
            except httptools.HttpParserError:
                self._refuse(e.MalformedRequest())
            except httptools.HttpParserUpgrade as upgrade:
                left = self._without_upgrade(left[upgrade.args[0] :])

    def _without_upgrade(self, rest: bytes) -> bytes:
        """Read the request as if it had not asked for another protocol, which a server need not speak (RFC
        9110 §7.8). The parser takes what follows such a head for that protocol: to it, the body is no body.
        """
        method: bytes = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(e.MalformedRequest())
            return b""
        head = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
        head += (b"%b: %b" % (name, value) for name, value in _without_upgrade(self.headers))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"\r\n".join([*head, b"", rest])

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
            self._close()

    def _close(self) -> None:
        """Hang up when everything is sent, or when the caller does not read it in time."""
        self.transport.close()
        self._wait_for_taking()

    def _wait_for_taking(self) -> None:
        if self._taking is None:
            self._taking = self.loop.call_later(TAKING_TIMEOUT, self.transport.abort)

    def _stop_waiting_for_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _is_answering(self) -> bool:
        """Whether a request that came whole, or whose body nobody reads, still waits for its answer."""
        running = self._running
        if running is None or running.response_complete:
            return False
        if running is not self.cycle or not running.more_body:
            return True
        return not has_body(running.scope["method"], dict(running.scope["headers"]))

    def _is_idle(self) -> bool:
        """Whether every request has its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _refuse(self, error: e.KeywrightError) -> None:
        """Answer what never became a request, and hang up.

        An earlier request of this connection gets its own answer; the connection ends with that.
        """
        self._is_refused = True
        if self.transport.is_closing():
            return
        if self._running is not None and self._is_answering():
            self._running.keep_alive = False
            self.pipeline.clear()
            return
        if self._is_in_body and self._is_idle():
            # This request has its answer; a second one would be taken for the next request's.
            self._close()
            return
        status, body = messages.write(error, messages.NO_SAYINGS)
        head = (
            b"content-type: application/json; charset=UTF-8\r\ncache-control: no-store\r\n"
            b"x-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: %d\r\n"
        )
        others = (header for header in messages.headers(error) if header != messages.CLOSE)
        more = b"".join(b"%b: %b\r\n" % header for header in others)
        self.transport.write(STATUS_LINE[status] + head % len(body) + more + b"\r\n" + body)
        self._close()


def is_gone(scope: Scope) -> bool:
    """Whether the caller of this request has hung up, or was hung up on."""
    transport = scope.get(TRANSPORT)
    return transport is not None and transport.is_closing()


async def _answer(
    app: ASGI3Application, cycle: RequestResponseCycle, scope: Any, receive: Any, send: Any
) -> None:
    """Have the application answer. That nobody is there any more to be told is no fault of ours."""
    try:
        await app(scope, receive, send)
    except (RuntimeError, e.Unavailable) as problem:
        if not is_gone(scope):
            raise
        cycle.disconnected = True
        log.debug("a caller hung up before it was answered: %s", problem)


def _without_upgrade(headers: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    for name, value in headers:
        if name == b"connection":
            options = [option.strip() for option in value.split(b",")]
            yield name, b", ".join(one for one in options if one.lower() != b"upgrade")
        elif name != b"upgrade":
            yield name, value
