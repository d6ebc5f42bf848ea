"""uvicorn's HTTP/1 protocol with limits on what a client may send before the application is called, and
without ambiguous requests.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import httptools
from starlette.types import Scope
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from keywright.core import errors as e
from keywright.http.answer import CLOSE, COMMON_HEADERS, JSON, ErrorWriter
from keywright.http.server.sockets import ConnectionLimit

#: The maximum size of the request line and headers together, in bytes.
MAX_HEADERS = 32 * 1024
#: The maximum number of header lines: each costs time wherever a header is searched for.
MAX_HEADER_LINES = 256
#: Methods whose requests have a body only if they declare one.
BODILESS = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
#: The timeout for receiving the headers of a request, in seconds.
HEADERS_TIMEOUT = 10
#: How many bytes are parsed at once, which also limits how many can be in the pipeline.
_PIECE = 2048
#: The timeout for a client to read what was sent to it, in seconds.
SEND_TIMEOUT = 30
#: The timeout for a new connection to send a request while the server is stopping, in seconds.
LAST_REQUEST_TIMEOUT = 1
#: The key of the transport in a request's scope. The transport closes when a client that waits for an answer
#: disconnects.
TRANSPORT = "keywright.transport"
#: The key in the lifespan state that is true while the server is about to stop.
IS_LEAVING = "is_leaving"

log = logging.getLogger(__name__)


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on headers; ``write_error`` answers refused requests."""

    _is_in_headers = False
    _is_in_body = False
    _is_refused = False
    #: The bytes of the headers so far, and the bytes received since something was last complete.
    _header_bytes = 0
    _received = 0
    #: Unparsed bytes that follow pipelined requests.
    _held = b""
    _headers_timeout: asyncio.TimerHandle | None = None
    #: The timer that runs while the client does not read pending data.
    _send_timeout: asyncio.TimerHandle | None = None
    _peer = ""
    _is_admitted = False
    #: The request that is being answered, or was last; later ones wait in the pipeline.
    _running: RequestResponseCycle | None = None

    def __init__(
        self,
        *arguments: Any,
        write_error: ErrorWriter,
        connection_limit: ConnectionLimit | None = None,
        **named: Any,
    ) -> None:
        """``connection_limit`` is None for no limit."""
        super().__init__(*arguments, **named)
        self._write_error = write_error
        self._connection_limit = connection_limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self._is_admitted = self._connection_limit is None or self._connection_limit.admit(self._peer)
        if self._is_admitted:
            self._start_headers_timeout()
        else:
            self._refuse(e.QueueFull())

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_headers_timeout()
        self._stop_send_timeout()
        if self._is_admitted and self._connection_limit is not None:
            self._connection_limit.leave(self._peer)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_send_timeout()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_send_timeout()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def data_received(self, data: bytes) -> None:
        if self._held:
            self._held += data
            self.flow.pause_reading()
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Parse the data, but hold back whatever follows a request that waits in the pipeline: as parsed
        requests, it would take far more memory than as bytes.
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
        self._received += len(data)
        self._feed(data)
        if self._received > MAX_HEADERS:
            self._refuse(e.HeadersTooLarge())
        elif self._headers_timeout is None and (self._is_in_headers or self._is_idle()):
            self._start_headers_timeout()

    def _read_held(self) -> None:
        """Parse the data that was held back."""
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
        # Trailers of a chunked body arrive as headers, too (RFC 9112 §7.1.2); they are ignored.
        if self._is_in_headers:
            self._header_bytes += len(name) + len(value) + 4
            if len(self.headers) < MAX_HEADER_LINES:
                super().on_header(name, value)
            elif not self._is_refused:
                self._refuse(e.HeadersTooLarge())

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        if self._is_refused or self.parser.should_upgrade():
            # An upgrade request is parsed again without its upgrade, see ``_feed``.
            return
        if self._header_bytes + len(self.url) > MAX_HEADERS:
            self._refuse(e.HeadersTooLarge())
            return
        if not self._has_one_host():
            self._refuse(e.MalformedRequest())
            return
        self._is_in_body = True
        self._received = 0
        self._stop_headers_timeout()
        is_next = self._is_idle()
        super().on_headers_complete()
        self.scope[TRANSPORT] = self.transport  # type: ignore[literal-required]
        if self.app_state.get(IS_LEAVING):
            # Close the connection after the answer, so that the client sends its next request to another
            # instance.
            self.cycle.keep_alive = False
        if is_next:
            self._running = self.cycle

    def _has_one_host(self) -> bool:
        """Whether the request has exactly one ``Host`` header, as HTTP/1.1 requires (RFC 9112 §3.2)."""
        hosts = [name for name, _ in self.headers].count(b"host")
        return hosts == 1 or (hosts == 0 and self.parser.get_http_version() == "1.0")

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()
        if self.transport.is_closing():
            self._start_send_timeout()
        elif self._held:
            self.flow.pause_reading()
            if not self.pipeline:
                self.loop.call_soon(self._read_held)

    def on_body(self, body: bytes) -> None:
        self._received = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_body = False
        if not self._is_refused and not self.parser.should_upgrade():
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        super()._start_asgi_task(cycle, partial(_answer, app, cycle))

    def shutdown(self) -> None:
        """Stop serving, but answer every request, even one that is still arriving on a new connection."""
        if self._is_in_headers or self.cycle is None:
            self._stop_headers_timeout()
            self._headers_timeout = self.loop.call_later(LAST_REQUEST_TIMEOUT, self._end_headers_timeout)
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
        """The request without its request for another protocol, which a server may ignore (RFC 9110 §7.8).
        The parser would treat the bytes after such headers as data of that protocol, not as a body.
        """
        method: bytes = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(e.MalformedRequest())
            return b""
        head = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
        head += (b"%b: %b" % (name, value) for name, value in _drop_upgrade(self.headers))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"\r\n".join([*head, b"", rest])

    def _start_headers_timeout(self) -> None:
        self._headers_timeout = self.loop.call_later(HEADERS_TIMEOUT, self._end_headers_timeout)

    def _stop_headers_timeout(self) -> None:
        if self._headers_timeout is not None:
            self._headers_timeout.cancel()
            self._headers_timeout = None

    def _end_headers_timeout(self) -> None:
        self._headers_timeout = None
        if self._is_answering():
            self._start_headers_timeout()
        elif self._is_in_headers:
            self._refuse(e.RequestTooSlow())
        else:
            self._close()

    def _close(self) -> None:
        """Close the connection when all data is sent, or when the client does not read it in time."""
        self.transport.close()
        self._start_send_timeout()

    def _start_send_timeout(self) -> None:
        if self._send_timeout is None:
            self._send_timeout = self.loop.call_later(SEND_TIMEOUT, self.transport.abort)

    def _stop_send_timeout(self) -> None:
        if self._send_timeout is not None:
            self._send_timeout.cancel()
            self._send_timeout = None

    def _is_answering(self) -> bool:
        """Whether a request awaits its answer that is complete, or whose body the application ignores."""
        running = self._running
        if running is None or running.response_complete:
            return False
        if running is not self.cycle or not running.more_body:
            return True
        return not has_body(running.scope["method"], dict(running.scope["headers"]))

    def _is_idle(self) -> bool:
        """Whether every request was answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _refuse(self, error: e.KeywrightError) -> None:
        """Answer data that did not become a request, and close the connection.

        An earlier request on this connection gets its own answer instead, and the connection closes after it.
        """
        self._is_refused = True
        if self.transport.is_closing():
            return
        if self._running is not None and self._is_answering():
            self._running.keep_alive = False
            self.pipeline.clear()
            return
        if self._is_in_body and self._is_idle():
            # This request has been answered; the client would take a second answer for that of its next
            # request.
            self._close()
            return
        answer = self._write_error(error)
        headers = [JSON, *COMMON_HEADERS, CLOSE, (b"content-length", b"%d" % len(answer.body))]
        headers += (header for header in answer.headers if header != CLOSE)
        head = STATUS_LINE[answer.status] + b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(head + b"\r\n" + answer.body)
        self._close()


def has_body(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request has a body that matters: for GET, HEAD and DELETE, one with a ``Content-Type``."""
    if headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers:
        return False
    return method not in BODILESS or (method != "OPTIONS" and bool(headers.get(b"content-type")))


def is_gone(scope: Scope) -> bool:
    """Whether the connection of this request is closed or closing."""
    transport = scope.get(TRANSPORT)
    return transport is not None and transport.is_closing()


def is_leaving(scope: Scope) -> bool:
    """Whether the server of this request is about to stop."""
    transport = scope.get(TRANSPORT)
    return transport is not None and bool(transport.get_protocol().app_state.get(IS_LEAVING))


async def _answer(
    app: ASGI3Application, cycle: RequestResponseCycle, scope: Any, receive: Any, send: Any
) -> None:
    """Run the application. A client that disconnects before it is answered is not an error."""
    try:
        await app(scope, receive, send)
    except (RuntimeError, e.Unavailable) as problem:
        if not is_gone(scope):
            raise
        cycle.disconnected = True
        log.debug("a client hung up before it was answered: %s", problem)


def _drop_upgrade(headers: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    for name, value in headers:
        if name == b"connection":
            options = [option.strip() for option in value.split(b",")]
            yield name, b", ".join(one for one in options if one.lower() != b"upgrade")
        elif name != b"upgrade":
            yield name, value
