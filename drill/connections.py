"""One client's connection to an instance of Keywright: no more of HTTP than that needs."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """A status, and the body, which is always JSON."""

    status: int
    body: Any


class Connection:
    """A connection that is opened when it is needed, and again after it failed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, headers: Mapping[str, str], timeout: float) -> Reply:
        """Ask once. Raises ``TimeoutError`` after so many seconds, or another ``OSError``."""
        try:
            async with asyncio.timeout(timeout):
                return await self._get(path, headers)
        except asyncio.IncompleteReadError as problem:
            self.close()
            raise ConnectionResetError("closed in the middle of an answer") from problem
        except BaseException:
            # Whatever comes on this connection now would be the answer to an old question.
            self.close()
            raise

    def close(self) -> None:
        """Let go of it."""
        if self._streams is not None:
            with suppress(RuntimeError):
                self._streams[1].close()
        self._streams = None

    async def _get(self, path: str, headers: Mapping[str, str]) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        lines = [f"GET {path} HTTP/1.1", "Host: drill", *(f"{one}: {what}" for one, what in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        _, _, after = head.partition("content-length:")
        body = await reader.readexactly(int(after.split("\r\n", 1)[0]))
        if "connection: close" in head:
            self.close()
        return Reply(int(head.split(" ", 2)[1]), json.loads(body))
