"""Sends requests to a receiver: connects only to checked addresses, with a timeout, and reads only as much of
the answer as is kept.

Built on asyncio and httptools, which the server has loaded anyway. A delivery takes a tenth of the CPU time
of a general HTTP client, so that it hardly slows the calls that the same process answers.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, cast

import httptools

from keywright.delivery.webhooks.addresses import Network, Target, find_allowed, parse_target

#: The timeouts for a whole request, and for connecting to each address, in seconds.
TIMEOUT, CONNECT_TIMEOUT = 10.0, 5.0
#: The most bytes of an answer that are read, and the most addresses of a host name that are tried.
MAX_ANSWER, _MAX_ADDRESSES = 16_384, 3

#: Resolves a host name and port to addresses. Raises ``OSError``.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Answer(NamedTuple):
    """The answer of a receiver: its status, the beginning of its body, and ``Retry-After``."""

    status: int
    text: str
    retry_after: str | None


class SendingFailed(Exception):
    """No answer was received; the text states why."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Resolve a host name with the system's resolver. Raises ``OSError``."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def resolve_with(found: list[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        try:
            known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found: list[str] | OSError = list(dict.fromkeys(str(one[4][0]) for one in known))
        except OSError as problem:
            found = problem
        except UnicodeError:
            found = OSError("this is no name of a host")
        with suppress(RuntimeError):  # The loop may be closed by now.
            loop.call_soon_threadsafe(resolve_with, found)

    # A daemon thread: in one of the loop's threads, an unresponsive name server would delay shutdown.
    threading.Thread(target=ask, name="webhooks-resolve", daemon=True).start()
    return await answer


@cache
def _tls_context() -> ssl.SSLContext:
    """Create a context with the system's certificates. Slow: call it in a thread, not on the event loop."""
    return ssl.create_default_context()


class Sender:
    """Sends requests to one endpoint over a pool of kept connections. Belongs to one event loop."""

    def __init__(
        self,
        url: str,
        allowed: Collection[Network],
        *,
        resolve: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``allowed`` are the private networks that the setting ``webhook_networks`` allows."""
        self._target = parse_target(url)
        self._allowed = allowed
        self._resolve = resolve
        self._tls = tls
        self._idle: list[_Connection] = []
        self._looking: asyncio.Task[Sequence[str]] | None = None

    async def send(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """POST the body. Raises ``SendingFailed``."""
        request = _write_request(self._target, headers, body)
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._send(request)
        except TimeoutError:
            raise SendingFailed(f"no answer within {TIMEOUT:.0f} seconds") from None
        except ssl.SSLError as problem:
            raise SendingFailed(f"TLS: {problem.reason or problem}") from None
        except (OSError, ValueError) as problem:
            raise SendingFailed(str(problem)[:300] or type(problem).__name__) from None

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()
        if self._looking is not None:
            self._looking.cancel()

    async def _send(self, request: bytes) -> Answer:
        while self._idle:
            connection = self._idle.pop()
            # The receiver may have closed the idle connection.
            if connection.is_open and (answer := await self._exchange(connection, request)) is not None:
                return answer
        connection = await self._connect()
        answer = await self._exchange(connection, request)
        if answer is None:
            raise SendingFailed("the connection was closed without an answer")
        return answer

    async def _exchange(self, connection: "_Connection", request: bytes) -> Answer | None:
        """Send a request and receive its answer; None if the connection was closed before any answer."""
        try:
            answer = await connection.exchange(request)
        except BaseException:
            connection.close()
            raise
        if answer is None or not connection.is_open:
            connection.close()
        else:
            self._idle.append(connection)
        return answer

    async def _find_addresses(self) -> Sequence[str]:
        """Resolve the host name, one lookup at a time: an unresponsive name server blocks only one thread."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._resolve(self._target.host, self._target.port))
            # Retrieve its exception even if its caller was canceled.
            self._looking.add_done_callback(lambda one: one.cancelled() or one.exception())
        return await asyncio.shield(self._looking)

    async def _connect(self) -> "_Connection":
        try:
            found = await self._find_addresses()
        except (OSError, UnicodeError):
            raise SendingFailed("the host name is unknown") from None
        addresses = find_allowed(found, self._allowed)[:_MAX_ADDRESSES]
        problem = "the host name has no address"
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return await self._open(address)
            except TimeoutError:
                problem = "the connection was not answered"
            except ConnectionError as error:
                problem = str(error)
        raise SendingFailed(problem)

    async def _open(self, address: str) -> "_Connection":
        target = self._target
        if target.is_tls and self._tls is None:
            self._tls = await asyncio.to_thread(_tls_context)
        tls: dict[str, Any] = {"ssl": self._tls, "server_hostname": target.host} if target.is_tls else {}
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_Connection, address, target.port, **tls)
        return connection


class _Connection(asyncio.Protocol):
    """A connection for one request after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reading: _Reading | None = None
        self._received = 0
        self._answer: asyncio.Future[Answer | None] | None = None
        #: Whether another request can be sent over it.
        self.is_open = False

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            # Abort without the TLS closing handshake, which a receiver could delay.
            self._transport.abort()

    async def exchange(self, request: bytes) -> Answer | None:
        """Send a request and read the answer; None if the connection is closed instead."""
        if self._transport is None or not self.is_open:
            return None
        self._answer, self._reading, self._received = self._loop.create_future(), _Reading(), 0
        self._transport.write(request)
        return await self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with ``isinstance``: the server's event loop has its own transport class.
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        reading = self._reading
        if reading is None:
            # Unexpected data: no request is pending.
            self.close()
            return
        room = MAX_ANSWER - self._received
        self._received += len(data)
        try:
            reading.feed(data[:room])
        except SendingFailed as problem:
            self._end(problem)
            return
        if reading.is_complete:
            self.is_open = self.is_open and reading.keeps_alive
            self._end()
        elif self._received >= MAX_ANSWER:
            self.is_open = False
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._end()

    def _end(self, problem: SendingFailed | None = None) -> None:
        """Report the outcome of the pending request."""
        reading, answer, self._reading = self._reading, self._answer, None
        if reading is None or answer is None or answer.done():
            return
        if problem is None and self._received and not reading.has_headers:
            problem = SendingFailed("the answer is not HTTP")
        if problem is not None:
            answer.set_exception(problem)
        else:
            answer.set_result(reading.answer() if self._received else None)


class _Reading:
    """Parses an answer. The methods ``on_…`` are httptools' callbacks."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._retry_after: str | None = None
        self.has_headers = self.is_complete = self.keeps_alive = False

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.feed_data(chunk)
        except httptools.HttpParserUpgrade:
            self.is_complete = True
        except httptools.HttpParserError:
            raise SendingFailed("the answer is not HTTP") from None

    def answer(self) -> Answer:
        text = bytes(self._body).decode(errors="replace").replace("\0", "")
        return Answer(self._parser.get_status_code(), text, self._retry_after)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        # 1xx responses precede the final one.
        self.has_headers = self._parser.get_status_code() >= 200

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.is_complete = self.has_headers
        self.keeps_alive = self._parser.should_keep_alive()


def _write_request(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"host: {target.authority}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
