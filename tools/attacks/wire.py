"""An HTTP/1.1 client for attackers: sends any bytes, from any address of this machine."""

import asyncio
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

LICENSES = "/wp-json/lmfwc/v2/licenses"
#: Let the system choose the source port.
_ANY = 0
_LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


class Target(msgspec.Struct, frozen=True):
    """A server on this machine, and data in it for honest callers and attackers."""

    port: int
    #: License keys: one that the honest caller validates; one without a limit that it activates; one with a
    #: single free place; one whose only place is taken.
    honest_key: str
    changed_key: str
    single_key: str
    full_key: str
    #: A user of the administration pages.
    name: str
    password: str
    #: The path for a shop's events, and their secret.
    shop_path: str
    shop_secret: str
    #: The ``Authorization`` header of an API key with read permission for one product.
    reader: str = ""
    #: The path of a large download.
    download: str = ""
    host: str = "127.0.0.1"

    @property
    def server(self) -> tuple[str, int]:
        """The host and port."""
        return self.host, self.port

    def __post_init__(self) -> None:
        if ipaddress.ip_address(self.host) not in _LOOPBACK:
            raise ValueError(f"{self.host} is not an address of this machine")


class Answer(NamedTuple):
    """A complete response. Header names are in lower case; values of a repeated header are joined."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NotAnswered(Exception):
    """The connection was refused or closed, or the response timed out."""


class Connection:
    """A connection that is opened on demand, kept alive, and reopened after a failure."""

    def __init__(self, server: tuple[str, int], address: str) -> None:
        self._server = server
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    async def open(self) -> None:
        """Connect, unless already connected. Raises ``OSError``."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._server, local_addr=(self._address, _ANY))

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def wait_until_closed(self) -> None:
        """Wait until the server closes the connection, discarding what it sends; then close it."""
        assert self._streams is not None
        while await self._streams[0].read(65536):
            pass
        self.close()

    async def ask(self, request: bytes, timeout: float) -> Answer:
        """Send a request and read its response. Raises ``NotAnswered`` on failure or timeout."""
        try:
            async with asyncio.timeout(timeout):
                await self.open()
                assert self._streams is not None
                reader, writer = self._streams
                writer.write(request)
                answer = await _read_answer(reader)
        except BaseException as problem:
            self.close()
            if isinstance(problem, (OSError, EOFError, TimeoutError, ValueError)):
                raise NotAnswered from problem
            raise
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer


def get(path: str, *headers: str) -> bytes:
    """Build a GET request."""
    return _head("GET", path, headers) + b"\r\n"


def post(path: str, kind: str, body: bytes, *headers: str) -> bytes:
    """Build a POST request; ``kind`` is the media type of the body."""
    more = (*headers, f"Content-Type: {kind}", f"Content-Length: {len(body)}")
    return _head("POST", path, more) + b"\r\n" + body


def quiet_socket(address: str) -> socket.socket:
    """Create an unconnected socket with the smallest possible receive buffer."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    sock.setblocking(False)
    sock.bind((address, _ANY))
    return sock


def _head(method: str, path: str, headers: Sequence[str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: license.test", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, value = line.split(":", 1)
        before = headers.get(name.lower())
        headers[name.lower()] = value.strip() if before is None else f"{before}, {value.strip()}"
    status = int(first.split(" ", 2)[1])
    if headers.get("transfer-encoding") == "chunked":
        return Answer(status, headers, await _read_pieces(reader))
    return Answer(status, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _read_pieces(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    while size := int(await reader.readline(), 16):
        pieces.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(pieces)
