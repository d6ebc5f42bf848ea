"""Connections to a server that may be killed at any time: what is said there, and what is not known."""

import asyncio
import json
import re
from contextlib import suppress
from typing import Any, NamedTuple

from tests.faults.load import FATE_UNKNOWN, UNAVAILABLE
from tests.server import RunningServer

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")
#: The sentences of v2 for codes of v3.
_SENTENCES = {
    "fate_unknown": FATE_UNKNOWN,
    **dict.fromkeys(("busy", "database_unavailable", "shutting_down"), UNAVAILABLE),
}
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Told(NamedTuple):
    """An answer."""

    status: int
    head: bytes
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The sentence of a refusal; of v3, its code; "" for a success."""
        if self.status in (200, 201):
            return ""
        body = self.json
        return str(body["message"] if "message" in body else _SENTENCES.get(body["code"], body["code"]))

    @property
    def is_replayed(self) -> bool:
        return b"\r\nidempotency-replayed: true\r\n" in self.head


class Door:
    """The way to one server: as many connections as are used at once, each for one request at a time."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._idle: list[_Streams] = []

    async def is_open(self) -> bool:
        """Whether there is a connection to be used, perhaps a new one."""
        while self._idle and self._idle[-1][0].at_eof():
            await _hung_up(self._idle.pop()[1])
        if not self._idle and self._server.port:
            with suppress(OSError):
                self._idle.append(await asyncio.open_connection("127.0.0.1", self._server.port))
        return bool(self._idle)

    async def ask(self, request: bytes) -> Told | None:
        """What is answered; None when the connection ended before, and nobody knows. After ``is_open``."""
        streams = self._idle.pop()
        try:
            told = await _answer(*streams, request)
        except (OSError, asyncio.IncompleteReadError):
            await _hung_up(streams[1])
            return None
        self._idle.append(streams)
        return told

    async def prepare(self, connections: int) -> None:
        """Have that many connections, so that as many requests can be sent at the same moment."""
        new = (asyncio.open_connection("127.0.0.1", self._server.port) for _ in range(connections))
        self._idle += await asyncio.gather(*new)

    async def close(self) -> None:
        """Hang up."""
        while self._idle:
            await _hung_up(self._idle.pop()[1])


async def _hung_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> Told:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    assert length is not None, head
    return Told(int(head[9:12]), head, await reader.readexactly(int(length[1])))


def kill_and_start(server: RunningServer) -> None:
    """``kill -9``; nobody is let in until it listens again, on another port."""
    server.port = 0
    server.kill()
    server.start()
