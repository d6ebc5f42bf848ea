"""Calls of v3 by many programs at once, each with a connection of its own, in this process."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import uvloop

from keywright.signing.jws import decode_base64url
from tests.server import RunningServer


class Posted(NamedTuple):
    """A call, and its answer; status 0 is none. Moments are those of ``time.monotonic``."""

    path: str
    body: Mapping[str, Any]
    status: int
    json: Any
    started_at: float
    ended_at: float


class Program:
    """A program with a connection to a server, which it opens again where that runs after a restart."""

    def __init__(self, server: RunningServer, number: int) -> None:
        self._server = server
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.number = number

    async def post(
        self, path: str, body: Mapping[str, Any], *, once: str = "", is_signed: bool = False
    ) -> Posted:
        """Call v3; ``once`` is the idempotency key. Of an answer that is signed, the claims are returned."""
        started_at, status, answer = time.monotonic(), 0, None
        try:
            status, answer = await self._post(path, body, once, is_signed=is_signed)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
        return Posted(path, body, status, answer, started_at, time.monotonic())

    async def _post(
        self, path: str, body: Mapping[str, Any], once: str, *, is_signed: bool
    ) -> tuple[int, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._server.port)
        reader, writer = self._streams
        content = json.dumps(body).encode()
        lines = [f"POST /v3{path} HTTP/1.1", "Host: x", "Content-Type: application/json"]
        lines += [f"Idempotency-Key: {once}"] if once else []
        lines += ["Accept: application/jwt, application/problem+json"] if is_signed else []
        lines += [f"Content-Length: {len(content)}", "", ""]
        writer.write("\r\n".join(lines).encode() + content)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        answer = await reader.readexactly(int(length[1]))
        if b"\r\ncontent-type: application/jwt" in head:
            answer = decode_base64url(answer.split(b".")[1])
        return int(head[9:12]), json.loads(answer)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            with suppress(OSError):
                self._streams[1].transport.abort()
            self._streams = None


def run_programs(
    servers: list[RunningServer], amount: int, play: Callable[[Program], Awaitable[list[Posted]]]
) -> list[Posted]:
    """Run so many programs at once, each at the next server; returns all of their calls."""

    async def run_one(number: int) -> list[Posted]:
        program = Program(servers[number % len(servers)], number)
        try:
            return await play(program)
        finally:
            program.close()

    async def main() -> list[Posted]:
        journals = await asyncio.gather(*(run_one(number) for number in range(amount)))
        return [one for journal in journals for one in journal]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())
