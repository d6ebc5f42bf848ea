"""Plain programs: each asks once, takes what it hears for the last word, and never asks again.

They come through a proxy, or directly. A program keeps its connection as long as the other side does, and
makes another one when it was told that this one ends, or finds it ended before it asks.
"""

import asyncio
import random
import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import cycle
from urllib.parse import quote

from tests.connections import a_paid_order, signed
from tests.deploy.proxies import Proxy, trusting
from tests.faults.load import Answer, Call
from tests.http.asking import V2, Reply, core
from tests.server import RunningServer, wait_until

_HOST = "127.0.0.1"
#: How long programs rest between an answer and the next question, in seconds, at most. Those that rest long
#: have a connection that is idle when something happens; none rests as long as connections are kept (5 s).
SHORT_REST, LONG_REST = 0.05, 2.0
_TIMEOUT = 30.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Way(ABC):
    """How a program comes to the servers, and from which address."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address

    @abstractmethod
    async def connect(self) -> Streams:
        """A new connection."""


class Through(Way):
    """Through a proxy, with TLS."""

    def __init__(self, name: str, address: str, proxy: Proxy) -> None:
        super().__init__(name, address)
        self._port = proxy.port
        self._context = trusting(proxy.certificate)

    async def connect(self) -> Streams:
        return await asyncio.open_connection(
            _HOST,
            self._port,
            ssl=self._context,
            server_hostname="localhost",
            local_addr=(self.address, 0),
        )


class Direct(Way):
    """To one of the servers; to the next when that takes no connections, for then nothing was sent."""

    def __init__(self, name: str, address: str, servers: Sequence[RunningServer]) -> None:
        super().__init__(name, address)
        self._servers = servers
        self._turns = cycle(range(len(servers)))

    async def connect(self) -> Streams:
        first = next(self._turns)
        ports = [server.port for server in (*self._servers[first:], *self._servers[:first])]
        for port in ports[:-1]:
            with suppress(ConnectionRefusedError):
                return await asyncio.open_connection(_HOST, port, local_addr=(self.address, 0))
        return await asyncio.open_connection(_HOST, ports[-1], local_addr=(self.address, 0))


class Line:
    """A program's connection."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._streams: Streams | None = None

    async def ask(self, request: bytes) -> Answer:
        """What came back; asked once, whatever happens."""
        started_at = time.monotonic()
        reply = None
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                reply = await self._ask(request)
        if reply is None or "close" in (reply.header("connection") or "").lower():
            self.close()
        return Answer(reply, started_at, time.monotonic())

    async def _ask(self, request: bytes) -> Reply:
        if self._streams is not None and self._streams[0].at_eof():
            self.close()
        if self._streams is None:
            self._streams = await self._way.connect()
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = [(name.lower(), value) for name, value in re.findall(r"(?m)^([\w-]+): (.*)\r$", head)]
        body = await reader.readexactly(int(dict(headers)["content-length"]))
        return Reply(int(head.split()[1]), headers, body)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class Journal:
    """What the programs of one way asked, and what they heard."""

    def __init__(self) -> None:
        self.activations: list[Call] = []
        self.answers: list[Answer] = []
        #: The orders that a shop was told are accepted.
        self.sales: list[str] = []
        #: What each answer that was not the right one was about.
        self.failed: list[tuple[str, Answer]] = []
        #: How many wait for an answer now.
        self.waiting = 0

    @property
    def longest(self) -> float:
        """How long the slowest answer took, in seconds."""
        return max(one.seconds for one in self.answers)


class Plain:
    """Running programs, some of each way."""

    def __init__(
        self, ways: Sequence[Way], key: str, full_key: str, *, busy: int, idle: int, sells: bool
    ) -> None:
        """``key`` has no limit; on ``full_key``, no place is left. With ``sells``, some sell, too."""
        self._key = key
        self._full_key = full_key
        self._rests = [SHORT_REST] * busy + [LONG_REST] * idle
        self._sells = sells
        self._ways = ways
        self._is_over = threading.Event()
        self.journals = {way.name: Journal() for way in ways}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="plain programs")
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many programs wait for an answer now."""
        return sum(journal.waiting for journal in self.journals.values())

    def wait_for_answers(self, number: int = 20) -> None:
        """Return when the programs of each way have heard that many more answers."""
        before = {name: len(journal.answers) for name, journal in self.journals.items()}

        def have_heard() -> bool:
            return all(len(self.journals[name].answers) >= before[name] + number for name in before)

        wait_until(have_heard, "answers")

    def finish(self) -> dict[str, Journal]:
        """End them, and return what they wrote down."""
        self._is_over.set()
        self._thread.join()
        return self.journals

    async def _run(self) -> None:
        await asyncio.gather(*(self._program(way, rest) for way in self._ways for rest in self._rests))

    async def _program(self, way: Way, rest: float) -> None:
        line, journal = Line(way), self.journals[way.name]
        while not self._is_over.is_set():
            call = Call(self._key, "plain")
            token = await self._activate(line, journal, call, random.choice(("GET", "POST")))
            await asyncio.sleep(random.uniform(0, rest))
            await self._expect(200, "validate", line, journal, _get("validate", self._key))
            if token is not None:
                # Done twice, the second one would be refused.
                taken_back = _get("deactivate", self._key, token=token)
                await self._expect(200, "deactivate", line, journal, taken_back)
            await asyncio.sleep(random.uniform(0, rest))
            await self._expect(404, "activate in vain", line, journal, _get("activate", self._full_key))
            if self._sells and rest == LONG_REST:
                await self._sell(line, journal)
        line.close()

    async def _sell(self, line: Line, journal: Journal) -> None:
        order = f"order-{secrets.token_hex(8)}"
        if (await self._expect(200, "sale", line, journal, sale_of(order))).status == 200:
            journal.sales.append(order)

    async def _activate(self, line: Line, journal: Journal, call: Call, method: str) -> str | None:
        journal.activations.append(call)
        write = _get if method == "GET" else _post
        request = write("activate", call.key, label=call.label)
        call.answers.append(await self._expect(200, f"{method} activate", line, journal, request))
        return str(call.activation["token"]) if call.is_acknowledged else None

    async def _expect(self, status: int, what: str, line: Line, journal: Journal, request: bytes) -> Answer:
        journal.waiting += 1
        answer = await line.ask(request)
        journal.waiting -= 1
        journal.answers.append(answer)
        if answer.status != status:
            journal.failed.append((what, answer))
        return answer


def _get(call: str, key: str, **query: str) -> bytes:
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    return f"GET {V2}{core(call, key)}?{asked} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def _post(call: str, key: str, **form: str) -> bytes:
    body = "&".join(f"{name}={quote(value)}" for name, value in form.items())
    head = f"POST {V2}{core(call, key)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}".encode()


def sale_of(order: str) -> bytes:
    """The call of a shop that tells of this order."""
    now = datetime.now(UTC)
    body = a_paid_order(order, now)
    lines = [f"{name}: {value}\r\n" for name, value in signed(body, now, order).items()]
    head = f"POST /in/generic/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return "".join([head, *lines, "\r\n"]).encode() + body


@contextmanager
def plain_programs(
    ways: Sequence[Way], key: str, full_key: str, *, busy: int, idle: int = 3, sells: bool = False
) -> Iterator[Plain]:
    """That many programs of each way, which run until the block ends, or until it says ``finish``."""
    programs = Plain(ways, key, full_key, busy=busy, idle=idle, sells=sells)
    try:
        programs.wait_for_answers()
        yield programs
    finally:
        programs.finish()
