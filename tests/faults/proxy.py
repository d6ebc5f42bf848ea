"""A TCP proxy in front of PostgreSQL that breaks connections where a test says.

It reads as much of the protocol as that needs
(https://www.postgresql.org/docs/current/protocol-message-formats.html): a client's first messages have no
type, all others have one; COMMIT is a simple query.
"""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any, TypeAlias

from tests.server import wait_until

_HOST = "127.0.0.1"
_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
_COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
#: ReadyForQuery, outside a transaction: what ends the answer to a COMMIT.
_END_OF_COMMIT = b"Z\x00\x00\x00\x05I"
_Reader: TypeAlias = asyncio.StreamReader
_Writer: TypeAlias = asyncio.StreamWriter


class Place(Enum):
    """Where the connection of a transaction is cut: of one that changes something, but for the last."""

    STATEMENT = "its first statement is not passed on"
    BEFORE = "its COMMIT is not passed on"
    HALF_COMMIT = "half of its COMMIT is passed on"
    HALF_ANSWER = "half of the answer to its COMMIT is passed on"
    AFTER = "the answer to its COMMIT is not passed on"
    QUESTION = "the COMMIT of one that only reads is not passed on"

    @property
    def is_committed(self) -> bool:
        """Whether the server has committed what was cut here."""
        return self in (Place.HALF_ANSWER, Place.AFTER)


#: Of a transaction that changes something.
CHANGES: list[Place] = [place for place in Place if place is not Place.QUESTION]


class Proxy:
    """Listens on ``port`` of 127.0.0.1, and passes everything on to a server's port. All is well at first."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._links: set[_Link] = set()
        self._listening: asyncio.Server | None = None
        self._is_flowing = True
        self._next_cut: Place | None = None
        #: Types of messages at which a connection is frozen.
        self.freezing_at = b""
        #: Where connections were cut, in order.
        self.cuts: list[Place] = []
        self._name = socket.socket()
        self._name.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Bound and not listening: the port stays ours while connections are refused.
        self._name.bind((_HOST, 0))
        self.port = int(self._name.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._thread.start()
        self.accept()

    def close(self) -> None:
        """Hang up on everybody."""
        self.refuse()
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._name.close()

    def arm(self, place: Place) -> None:
        """Cut the next transaction that comes there."""
        self._next_cut = place

    def cut(self, place: Place) -> None:
        """The same, and return when it has happened."""
        before = len(self.cuts)
        self.arm(place)
        wait_until(lambda: len(self.cuts) > before, f"a cut where {place.value}")

    def refuse(self) -> None:
        """Cut all connections, and refuse new ones."""
        self._run(self._refuse())

    def accept(self) -> None:
        """Take connections again."""
        self._run(self._accept())

    def freeze(self) -> None:
        """Pass nothing more on over the connections that are there, and leave them open."""
        self._run(self._freeze())

    def blackhole(self) -> None:
        """The same, for connections that come from now on, too."""
        self._is_flowing = False
        self.freeze()

    def thaw(self) -> None:
        """Freeze no more connections; those that are frozen stay so."""
        self._is_flowing = True
        self.freezing_at = b""

    def resume(self) -> None:
        """Pass on what was held back, and all that follows."""
        self.thaw()
        self._run(self._melt())

    def take(self, place: Place) -> bool:
        """Whether to cut here, where a transaction has come to."""
        if self._next_cut is not place:
            return False
        self._next_cut = None
        return True

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _freeze(self) -> None:
        for link in self._links:
            link.flowing.clear()

    async def _melt(self) -> None:
        for link in self._links:
            link.flowing.set()

    async def _accept(self) -> None:
        self._listening = await asyncio.start_server(self._serve, _HOST, self.port, reuse_address=True)

    async def _refuse(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for link in list(self._links):
            link.cut()

    async def _end(self) -> None:
        while self._links:
            await asyncio.sleep(0.001)

    async def _serve(self, reader: _Reader, writer: _Writer) -> None:
        link = _Link(self, reader, writer)
        if not self._is_flowing:
            link.flowing.clear()
        self._links.add(link)
        try:
            await link.serve(self._server_port)
        finally:
            self._links.discard(link)
            link.close()


class _Link:
    """One client's connection, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, reader: _Reader, writer: _Writer) -> None:
        self._proxy = proxy
        self._client_reader, self._client_writer = reader, writer
        self._server_writer: _Writer | None = None
        self._is_changing = False
        self._last_answer: Place | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.flowing = asyncio.Event()
        self.flowing.set()

    async def serve(self, port: int) -> None:
        """Pass everything on in both directions, until one side hangs up or the connection is cut."""
        self._tasks = [asyncio.ensure_future(self._connect_and_pass(port))]
        with suppress(asyncio.CancelledError):
            await self._tasks[0]

    def cut(self) -> None:
        """End it at once."""
        for task in self._tasks:
            task.cancel()

    def close(self) -> None:
        for writer in (self._client_writer, self._server_writer):
            if writer is not None:
                writer.transport.abort()

    async def _connect_and_pass(self, port: int) -> None:
        with suppress(OSError, EOFError):
            await self.flowing.wait()
            reader, self._server_writer = await asyncio.open_connection(_HOST, port)
            directions = [
                asyncio.ensure_future(self._pass_questions(self._server_writer)),
                asyncio.ensure_future(self._pass_answers(reader)),
            ]
            self._tasks += directions
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in directions:
                    one.cancel()
                await asyncio.gather(*directions, return_exceptions=True)

    async def _pass_questions(self, server: _Writer) -> None:
        async for message in _messages(self._client_reader):
            if message[:1] in self._proxy.freezing_at:
                self.flowing.clear()
            await self.flowing.wait()
            passed_on = self._as_passed_on(message)
            server.write(passed_on)
            await server.drain()
            if passed_on != message:
                return

    def _as_passed_on(self, message: bytes) -> bytes:
        """The message as the server gets it: all of it, or what is left of it where it is cut."""
        if message[5:10] == b"BEGIN":
            self._is_changing = b"READ ONLY" not in message
        elif self._is_changing and message[:1] == b"P" and self._is_cut(Place.STATEMENT):
            return b""
        elif message == _COMMIT:
            return self._commit() if self._is_changing else self._commit_of_question()
        return message

    def _commit(self) -> bytes:
        if self._is_cut(Place.BEFORE):
            return b""
        if self._is_cut(Place.HALF_COMMIT):
            return _COMMIT[:6]
        self._last_answer = self._taken(Place.AFTER) or self._taken(Place.HALF_ANSWER)
        return _COMMIT

    def _commit_of_question(self) -> bytes:
        return b"" if self._is_cut(Place.QUESTION) else _COMMIT

    def _is_cut(self, place: Place) -> bool:
        if self._taken(place) is None:
            return False
        self._proxy.cuts.append(place)
        return True

    def _taken(self, place: Place) -> Place | None:
        return place if self._proxy.take(place) else None

    async def _pass_answers(self, server: _Reader) -> None:
        last = b""
        while data := await server.read(65536):
            await self.flowing.wait()
            if self._last_answer is None:
                self._client_writer.write(data)
                await self._client_writer.drain()
                continue
            last += data
            if last.endswith(_END_OF_COMMIT):
                if self._last_answer is Place.HALF_ANSWER:
                    self._client_writer.write(last[: len(last) // 2])
                    await self._client_writer.drain()
                self._proxy.cuts.append(self._last_answer)
                return


async def _messages(reader: _Reader) -> AsyncIterator[bytes]:
    """A client's messages, each whole."""
    with suppress(asyncio.IncompleteReadError):
        is_started = False
        while not is_started:
            size = await reader.readexactly(4)
            rest = await reader.readexactly(int.from_bytes(size) - 4)
            yield size + rest
            is_started = int.from_bytes(rest[:4]) not in (_SSL_REQUEST, _GSS_REQUEST)
        while True:
            head = await reader.readexactly(5)
            yield head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


@contextmanager
def run_proxy(server_port: int) -> Iterator[Proxy]:
    """A proxy for as long as the block runs."""
    proxy = Proxy(server_port)
    try:
        yield proxy
    finally:
        proxy.close()
