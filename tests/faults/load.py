"""Programs that activate licenses as fast as they are answered, and write down what they were told.

Every call has a label that no other has, so the database shows what became of it. Careful programs send an
Idempotency-Key, and ask again until they know; plain ones ask once; hasty ones ask again without the key.
"""

import asyncio
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import uvloop

from tests.http.asking import V2, Reply, assert_refused, core
from tests.server import RunningServer, wait_until

UNAVAILABLE = "The service is not available right now. Please try again."
READ_ONLY = "No change can be saved right now. Please try again later."
FATE_UNKNOWN = "It is not known whether the request was carried out. Please look, or try again."
BUSY = "The first request with this Idempotency-Key is still running. Please try again."
#: How long a careful program goes on asking after the load has ended, in seconds.
_TIMEOUT = 40.0
_PAUSE = 0.05
#: For programs of tests that take as long as a trouble lasts: they leave the processor to other tests.
RESTED = 0.03
_numbers = count(1)


Manner = Literal["careful", "plain", "hasty"]


class Programs(NamedTuple):
    """How many there are of each manner."""

    careful: int = 4
    plain: int = 4
    hasty: int = 0


MIXED = Programs()


class Answer(NamedTuple):
    """What came back, None when the connection ended without; moments are those of ``time.monotonic``."""

    reply: Reply | None
    started_at: float
    ended_at: float

    @property
    def status(self) -> int:
        return 0 if self.reply is None else self.reply.status

    @property
    def is_open(self) -> bool:
        """Whether it does not say what became of the call."""
        return self.reply is None or (self.status != 200 and self.reply.message == FATE_UNKNOWN)

    @property
    def seconds(self) -> float:
        return self.ended_at - self.started_at


class Call:
    """One activation that a program wanted, and every answer it got."""

    def __init__(self, key: str, manner: Manner) -> None:
        self.key = key
        self.label = f"call-{next(_numbers)}"
        self.is_careful = manner == "careful"
        self.answers: list[Answer] = []

    @property
    def is_acknowledged(self) -> bool:
        return bool(self.answers) and self.answers[-1].status == 200

    @property
    def may_have_happened(self) -> bool:
        """Whether some answer left it open."""
        return any(one.is_open for one in self.answers)

    @property
    def activation(self) -> Any:
        """What the last answer says of the activation."""
        reply = self.answers[-1].reply
        assert reply is not None
        return reply.data["activationData"]

    def request(self) -> bytes:
        lines = [f"GET {V2}{core('activate', self.key)}?label={quote(self.label)} HTTP/1.1", "Host: x"]
        if self.is_careful:
            lines.append(f"Idempotency-Key: {self.label}")
        return "\r\n".join([*lines, "", ""]).encode()


class Load:
    """Running programs, which rest for so many seconds after each call; ``journal`` grows while they run."""

    def __init__(
        self, server: RunningServer, keys: Sequence[str], programs: Programs, rest: float = 0.0
    ) -> None:
        self._server = server
        self._rest = rest
        self._keys = keys
        manners: dict[Manner, int] = {
            "careful": programs.careful,
            "plain": programs.plain,
            "hasty": programs.hasty,
        }
        self._manners = [manner for manner, number in manners.items() for _ in range(number)]
        self._is_over = False
        self._timeout = _TIMEOUT
        self._successes: list[Answer] = []
        self.journal: list[Call] = []
        self._thread = threading.Thread(target=self._run_programs, name="load")
        self._thread.start()

    @property
    def answers(self) -> list[Answer]:
        """Every answer of every call."""
        return [one for call in list(self.journal) for one in list(call.answers)]

    def successes_since(self, moment: float) -> int:
        """How many calls that began after this moment were carried out."""
        number = 0
        for answer in reversed(self._successes):
            if answer.ended_at < moment:
                break
            number += answer.started_at > moment
        return number

    def wait_for_successes(self, number: int = 20) -> float:
        """Return when that many calls that begin from now on were carried out; how long it took."""
        began = time.monotonic()
        wait_until(lambda: self.successes_since(began) >= number, f"{number} calls that succeed")
        return time.monotonic() - began

    def wait_for_refusal(self, since: float, trouble: str = "it") -> None:
        """Return when a call has got 503 since that moment."""
        wait_until(lambda: self.is_refused_since(since), f"a call that is refused because of {trouble}")

    def is_refused_since(self, moment: float) -> bool:
        """Whether a call has got 503 since then."""
        return any(one.status == 503 and one.ended_at > moment for one in self.answers)

    def finish(self) -> list[Call]:
        """End it, and return the whole journal."""
        self._is_over = True
        self._thread.join()
        return self.journal

    def give_up(self) -> None:
        """End it when it does not matter any more what becomes of the calls."""
        self._timeout = 0.0
        self.finish()

    def _run_programs(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        programs = (self._program(number, one) for number, one in enumerate(self._manners))
        await asyncio.gather(*programs)

    async def _program(self, number: int, manner: Manner) -> None:
        connection = _Connection(self._server)
        turn = number
        while not self._is_over:
            call = Call(self._keys[turn % len(self._keys)], manner)
            self.journal.append(call)
            await self._carry_out(call, connection, is_once=manner == "plain")
            turn += 1
            if self._rest:
                await asyncio.sleep(self._rest)
        connection.close()

    async def _carry_out(self, call: Call, connection: "_Connection", *, is_once: bool) -> None:
        end = None
        while end is None or time.monotonic() < end:
            call.answers.append(await connection.ask(call.request()))
            if call.is_acknowledged:
                self._successes.append(call.answers[-1])
                return
            await asyncio.sleep(_PAUSE)
            if is_once:
                return
            if self._is_over and end is None:
                end = time.monotonic() + self._timeout


class _Connection:
    """To wherever the server listens now."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> Answer:
        started_at = time.monotonic()
        reply = None
        with suppress(OSError, asyncio.IncompleteReadError):
            reply = await self._ask(request)
        if reply is None:
            self.close()
        return Answer(reply, started_at, time.monotonic())

    async def _ask(self, request: bytes) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._server.port)
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


def longest_wait(journal: list[Call]) -> float:
    """How long the slowest answer took, in seconds."""
    return max(answer.seconds for call in journal for answer in call.answers)


@contextmanager
def run_load(
    server: RunningServer,
    keys: Sequence[str],
    programs: Programs = MIXED,
    *,
    succeeding: bool = True,
    rest: float = 0.0,
) -> Iterator[Load]:
    """Programs that run until the block ends, or until it says ``finish``; with ``succeeding``, not before
    some of their calls were carried out. Where a test waits for something else, they may ``rest``.
    """
    load = Load(server, keys, programs, rest)
    try:
        if succeeding:
            load.wait_for_successes()
        yield load
    except BaseException:
        load.give_up()
        raise
    load.finish()


def assert_answers_in_shape(journal: list[Call]) -> None:
    """Whatever was no success told the program, as the contract says it, to come back."""
    for call in journal:
        for reply in (one.reply for one in call.answers):
            if reply is None or reply.status == 200:
                continue
            if reply.status == 409:
                assert call.is_careful
                assert_refused(reply, BUSY, code="idempotency_key_busy", status=409)
            else:
                known = (FATE_UNKNOWN, READ_ONLY)
                sentence = reply.message if reply.message in known else UNAVAILABLE
                assert_refused(reply, sentence, code="service_unavailable", status=503)
            assert int(reply.header("retry-after") or 0) >= 1
