"""Misbehaving servers that a client library may reach instead of Keywright.

A library must return from a call to each within its deadline, believe nothing, and keep its cached answer.
"""

import gzip
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import repeat

#: The pause between two pieces of a slow response, in seconds.
_PAUSE = 0.2
# One request per connection, so that no request is sent over a connection that is closing.
_CLOSE = "Connection: close"
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/jwt\r\nConnection: close\r\n"
_PORTAL = b"<html><a href='http://portal.invalid'>Sign in to the network. It is. Free.</a></html>"
_BLOCK = b"e" * 65_536

Behave = Callable[["Connection"], None]


class Connection:
    """A connection whose request was read. It ends with the server, or earlier."""

    def __init__(self, sock: socket.socket, server: "BadServer") -> None:
        self._sock, self.server = sock, server

    def send(self, *parts: bytes) -> None:
        """Send bytes. Raises ``OSError`` if the library has closed the connection."""
        for part in parts:
            self._sock.sendall(part)
            self.server.sent += len(part)

    def send_slowly(self, text: Iterator[bytes]) -> None:
        """Send the pieces slowly, until the library closes the connection or the server ends."""
        for piece in text:
            if self.server.is_over.wait(_PAUSE):
                return
            self.send(piece)

    def wait(self) -> None:
        """Send nothing until the library closes the connection or the server ends."""
        self._sock.settimeout(_PAUSE)
        while not self.server.is_over.is_set():
            with suppress(TimeoutError):
                if not self._sock.recv(65_536):
                    return

    def reset(self) -> None:
        """Reset the connection."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class BadServer:
    """A server with one behavior for all connections. ``requests`` are the complete requests received,
    ``sent`` counts bytes.

    With the scheme HTTPS, it does not speak TLS: the behavior replaces the handshake.
    """

    def __init__(self, behave: Behave, scheme: str = "http") -> None:
        self.scheme = scheme
        self.requests: list[bytes] = []
        self.sent = 0
        self.is_over = threading.Event()
        self._behave = behave
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"{self.scheme}://127.0.0.1:{self._listening.getsockname()[1]}"

    @contextmanager
    def running(self) -> Iterator["BadServer"]:
        """Run the server during the block."""
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.is_over.set()
            # This makes accept() return.
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            thread.join()

    def _serve(self) -> None:
        answering = []
        while not self.is_over.is_set():
            try:
                sock, _ = self._listening.accept()
            except OSError:
                break
            answering.append(threading.Thread(target=self._answer, args=(sock,), daemon=True))
            answering[-1].start()
        for thread in answering:
            thread.join()

    def _answer(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            if self.scheme == "http":
                sock.settimeout(30)
                self.requests.append(_read_request(sock))
                sock.settimeout(None)
            self._behave(Connection(sock, self))


def _read_request(sock: socket.socket) -> bytes:
    """Read a request, including its body according to Content-Length."""
    read = b""
    while b"\r\n\r\n" not in read:
        part = sock.recv(65_536)
        if not part:
            raise OSError
        read += part
    head, _, body = read.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0].split(b":")[1]):
        part = sock.recv(65_536)
        if not part:
            raise OSError
        body += part
    return head + b"\r\n\r\n" + body


def _answer(status: str, kind: str, body: bytes, *headers: str) -> Behave:
    """Send a complete response."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        _CLOSE,
        *headers,
        "",
        "",
    ]
    return lambda connection: connection.send("\r\n".join(lines).encode(), body)


def _problem(body: bytes, status: str = "404 Not Found") -> Behave:
    return _answer(status, "application/problem+json", body)


def _raw(*parts: bytes) -> Behave:
    """Send these bytes, then close."""
    return lambda connection: connection.send(*parts)


def _endless(head: bytes, block: bytes) -> Behave:
    def behave(connection: Connection) -> None:
        connection.send(head)
        while not connection.server.is_over.is_set():
            connection.send(block)

    return behave


def _slow(head: bytes, piece: bytes) -> Behave:
    def behave(connection: Connection) -> None:
        connection.send(head)
        connection.send_slowly(repeat(piece))

    return behave


def _then_wait(*parts: bytes) -> Behave:
    def behave(connection: Connection) -> None:
        connection.send(*parts)
        connection.wait()

    return behave


def _redirect(status: int, to: str) -> Behave:
    return _answer(f"{status} Elsewhere", "text/html", _PORTAL, f"Location: {to}")


def _bomb() -> bytes:
    """Build 16 KiB of gzip that decompress to 16 MiB."""
    return gzip.compress(bytes(16 * 2**20), 1)


def behaviors(elsewhere: str) -> Mapping[str, Behave]:
    """The behaviors by name; redirects lead to ``elsewhere``."""
    chunked = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
    zipped = _OK + b"Content-Encoding: gzip\r\n"
    return {
        "hang": Connection.wait,
        "hang after the header": _then_wait(_OK + b"Content-Length: 900\r\n\r\n"),
        "drip of the first line": _slow(b"HTTP/1.1 200 ", b"O"),
        "drip of headers": _slow(_OK, b"X: y\r\n"),
        "drip of the body": _slow(_OK + b"Content-Length: 100000\r\n\r\n", b"e"),
        "drip of a body without a length": _slow(_OK + b"\r\n", b"e"),
        "drip of chunks": _slow(chunked, b"1\r\ne\r\n"),
        "drip of a chunk's length": _slow(chunked, b"0"),
        "go on for ever": _slow(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "endless": _endless(_OK + b"\r\n", _BLOCK),
        "endless chunks": _endless(chunked, b"10000\r\n" + _BLOCK + b"\r\n"),
        "endless header": _endless(_OK + b"X: ", _BLOCK),
        "endless problem": _endless(
            b"HTTP/1.1 404 X\r\nContent-Type: application/problem+json\r\n\r\n", _BLOCK
        ),
        "bad gzip": _raw(zipped + b"Content-Length: 8\r\n\r\n", b"\x1f\x8b\x08\0nope"),
        "gzip of 16 MiB": _raw(zipped + b"\r\n", _bomb()),
        "cut off": _raw(_OK + b"Content-Length: 900\r\n\r\neyJhbGciOiJFZERTQSIsImtpZCI6Il"),
        "chunks cut off": _raw(chunked + b"10\r\neyJhbGci"),
        "a length that is too long": _then_wait(_OK + b"Content-Length: 900\r\n\r\neyJ.eyJ.c2ln"),
        "a length that is too short": _raw(_OK + b"Content-Length: 7\r\n\r\neyJ.eyJ.c2ln"),
        "a length that is no number": _raw(_OK + b"Content-Length: many\r\n\r\neyJ.eyJ.c2ln"),
        "a length below zero": _raw(_OK + b"Content-Length: -1\r\n\r\neyJ.eyJ.c2ln"),
        "two lengths": _raw(_OK + b"Content-Length: 3\r\nContent-Length: 9\r\n\r\neyJ.eyJ.c2ln"),
        **{f"redirect with {status}": _redirect(status, elsewhere) for status in (301, 302, 303, 307, 308)},
        "redirect to itself": _redirect(307, "/v3/validate"),
        "redirect to a file": _redirect(302, "file:///etc/passwd"),
        "redirect to nowhere": _redirect(302, "%%%://["),
        "a problem that is no JSON": _problem(b"<html>"),
        "a problem that is null": _problem(b"null"),
        "a problem that is a list": _problem(b'["unknown_license"]'),
        "a problem whose code is a list": _problem(b'{"code":["x"],"detail":{"a":1}}'),
        "a problem that is empty": _problem(b""),
        "a problem that is no UTF-8": _problem(b'{"code":"\xff\xfe","detail":"\x80"}'),
        "a problem that is deep": _problem(b"[" * 100_000),
        "a problem of a server": _problem(b'{"code":"unknown_license","detail":"x"}', "500 X"),
        "a problem in a redirect": _problem(b'{"code":"unknown_license","detail":"x"}', "302 X"),
        "busy for years": _answer("503 X", "text/plain", b"", "Retry-After: 99999999999999999999"),
        "busy since": _answer("429 X", "text/plain", b"", "Retry-After: Mon, 01 Jan 1900 00:00:00 GMT"),
        "captive portal": _answer("200 OK", "text/html", _PORTAL),
        "captive portal that refuses": _answer("511 Sign in", "text/html", _PORTAL),
        "an empty answer": _answer("200 OK", "application/jwt", b""),
        "no content": _raw(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
        "a yes without a signature": _answer("200 OK", "application/json", b'{"valid":true,"code":"valid"}'),
        "a no without a signature": _answer(
            "200 OK", "application/json", b'{"valid":false,"code":"disabled"}'
        ),
        "a token of nothing": _answer("200 OK", "application/jwt", b".."),
        "a token of nonsense": _answer("200 OK", "application/jwt", b"\xff.\xfe.\0"),
        "a token that is too long": _answer("200 OK", "application/jwt", b"eyJ.eyJ." + _BLOCK),
        "no HTTP": _raw(b"SSH-2.0-OpenSSH_9.2p1\r\n"),
        "a status that is none": _raw(b"HTTP/1.1 abc\r\n\r\n"),
        "an end at once": lambda connection: None,
        "a reset": Connection.reset,
    }


@contextmanager
def bad_servers() -> Iterator[tuple[dict[str, BadServer], BadServer]]:
    """Run all bad servers; yield them by name, and the target of redirects, which should get no requests."""
    with ExitStack() as stack:
        caught = stack.enter_context(BadServer(_answer("200 OK", "text/plain", b"caught")).running())
        named = {name: BadServer(behave) for name, behave in behaviors(f"{caught.url}/v3/validate").items()}
        named["a handshake that hangs"] = BadServer(Connection.wait, "https")
        named["drip of a handshake"] = BadServer(
            _slow(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", b"\x03"), "https"
        )
        named["no TLS"] = BadServer(_answer("400 Bad Request", "text/html", _PORTAL), "https")
        for server in named.values():
            stack.enter_context(server.running())
        yield named, caught


@contextmanager
def full_server() -> Iterator[str]:
    """Yield the URL of a server whose backlog is full, so that connections are not accepted."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
