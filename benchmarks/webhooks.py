"""Measure webhooks during calls: the rate of deliveries, and how they slow down the calls."""

import asyncio
import re
import socket
import statistics
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from time import monotonic, sleep, time
from typing import Any

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied, opened
from keywright.config.settings import PREFIX
from keywright.core.command import Command, Context, Origin
from keywright.core.errors import KeywrightError
from keywright.delivery.webhooks import rules
from keywright.delivery.webhooks.commands import CreateEndpoint, ResendSince, UpdateEndpoint
from keywright.delivery.webhooks.fields import NewWebhook, WebhookFields
from keywright.engine.executor import Executor
from keywright.registry import open_executor

#: The number of working endpoints, and of dead ones: one does not respond, and one refuses connections.
_ALIVE, DEAD = 8, 2
ENDPOINTS = _ALIVE + DEAD
_CASES = ("activate", "validate")
_CONNECTIONS, _LEAST_PAIRS = 64, 6
SETTINGS = {**servers.UNLIMITED, f"{PREFIX}WEBHOOK_NETWORKS": "127.0.0.0/8"}
#: The timeout for the first delivery, and the warm-up before deliveries count, in seconds.
_LONGEST, _WARM_UP = 30.0, 2.0
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)")
_SILENT = b"/silent "


class Cost(msgspec.Struct, frozen=True):
    """A call, alternately with and without deliveries: medians of rates and ratios."""

    case: str
    pairs: int
    rates: tuple[float, float]
    ratio: float
    #: The server's processor time per response, with deliveries divided by without.
    processor_ratio: float | None
    delivered_per_second: float


class Webhooks(msgspec.Struct, frozen=True):
    """The deliveries per second of an otherwise idle server, the processor time per delivery, and the calls
    during deliveries.
    """

    per_second: float
    processor_ms: float | None
    beside: list[Cost]


def measure(filled: Filled, seconds: int, rounds: int, say: Callable[[str], None]) -> Webhooks:
    """Deliver the events of 30 days, which are more than can be delivered during the measurement."""
    say("webhooks during calls …")
    with (
        receiving() as receiver,
        copied(filled, "webhooks") as copy,
        opened(copy.data_dir, copy.database) as storage,
        closing(open_executor(storage)) as executor,
        servers.running(copy, SETTINGS) as server,
    ):
        switch = _Switch(executor, receiver)
        server.wait_until_idle()
        per_second, processor_ms = _deliver_alone(server, switch, 2 * seconds)
        each = "" if processor_ms is None else f", processor time {processor_ms:.2f} ms each"
        say(f"{per_second:,.0f} deliveries/s{each}")
        beside = []
        for case in _CASES:
            pairs = [
                _drive_pair(server, copy, case, seconds, switch, begins_with=turn % 2 == 0)
                for turn in range(max(_LEAST_PAIRS, rounds))
            ]
            found = _compare(case, pairs)
            say(f"{case}: {found.ratio:.3f} after {found.pairs} pairs")
            beside.append(found)
    return Webhooks(per_second, processor_ms, beside)


# --- the endpoints --------------------------------------------------------------------------------


class Receiver:
    """Endpoints on this machine that count accepted deliveries."""

    def __init__(self) -> None:
        self.accepted = 0
        #: The received bodies, and their times in seconds since 1970; None to discard them.
        self.bodies: list[tuple[bytes, float]] | None = None
        self.port = self.refusing_port = 0

    def urls(self) -> list[str]:
        """The URLs of all endpoints; the last two are dead."""
        alive = [f"http://127.0.0.1:{self.port}/{number}" for number in range(_ALIVE)]
        return [*alive, f"http://127.0.0.1:{self.port}/silent", f"http://127.0.0.1:{self.refusing_port}/"]


class _Connection(asyncio.Protocol):
    """Responds to all requests immediately, except those to the silent endpoint."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            length = _LENGTH.search(head)
            whole = end + 4 + int(length[1] if length else 0)
            if len(self._received) < whole:
                return
            if self._receiver.bodies is not None:
                self._receiver.bodies.append((self._received[end + 4 : whole], time()))
            self._received = self._received[whole:]
            if _SILENT not in head:
                self._receiver.accepted += 1
                self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive deliveries in another thread during the block."""
    receiver, loop = Receiver(), asyncio.new_event_loop()
    listen = loop.create_server(lambda: _Connection(receiver), "127.0.0.1", 0, backlog=256)
    server = loop.run_until_complete(listen)
    receiver.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        # Bound but not listening, so that connections are refused.
        with socket.socket() as refusing:
            refusing.bind(("127.0.0.1", 0))
            receiver.refusing_port = refusing.getsockname()[1]
            yield receiver
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


class _Switch:
    """Enables and disables all endpoints."""

    def __init__(self, executor: Executor, receiver: Receiver) -> None:
        self._executor = executor
        self.receiver = receiver
        context = _now()
        made = self._execute(
            [
                CreateEndpoint(context=context, fields=NewWebhook(url=one, events=["license.*"]))
                for one in receiver.urls()
            ]
        )
        self._ids = [one.endpoint.id for one in made]
        self.turn_off()

    def turn_on(self) -> None:
        """Deliver the events of 30 days again; return after a warm-up."""
        context, before = _now(), self.receiver.accepted
        since = rules.oldest_event_at(context.now)
        self._execute([ResendSince(context=context, endpoint_id=one, since=since) for one in self._ids])
        self._execute(
            [
                UpdateEndpoint(context=context, id=one, fields=WebhookFields(is_enabled=True))
                for one in self._ids
            ]
        )
        end = monotonic() + _LONGEST
        while self.receiver.accepted == before:
            if monotonic() > end:
                raise RuntimeError("no webhook is delivered")
            sleep(0.01)
        sleep(_WARM_UP)

    def turn_off(self) -> None:
        """Stop all deliveries."""
        context = _now()
        self._execute(
            [
                UpdateEndpoint(context=context, id=one, fields=WebhookFields(is_enabled=False))
                for one in self._ids
            ]
        )

    def _execute(self, commands: Collection[Command]) -> list[Any]:
        outcomes = self._executor.execute([*commands])
        for one in outcomes:
            if isinstance(one, KeywrightError):
                raise one
        return outcomes


def _now() -> Context:
    return Context(datetime.now(UTC).replace(microsecond=0), Origin("benchmark", "", ""))


# --- measurements ---------------------------------------------------------------------------------


class _Side(msgspec.Struct, frozen=True):
    load: wrk.Load
    delivered_per_second: float


def _deliver_alone(server: servers.Server, switch: _Switch, seconds: int) -> tuple[float, float | None]:
    """The deliveries per second, and the server's processor time per delivery in milliseconds."""
    switch.turn_on()
    began, accepted, used = monotonic(), switch.receiver.accepted, server.processor_seconds()
    sleep(seconds)
    delivered, elapsed = switch.receiver.accepted - accepted, monotonic() - began
    used_later = server.processor_seconds()
    switch.turn_off()
    if not delivered:
        raise RuntimeError("no webhook is delivered")
    if used is None or used_later is None:
        return delivered / elapsed, None
    return delivered / elapsed, 1000 * (used_later - used) / delivered


def _drive_pair(
    server: servers.Server, filled: Filled, case: str, seconds: int, switch: _Switch, *, begins_with: bool
) -> tuple[_Side, _Side]:
    """Measure with and without deliveries."""
    sides = {
        is_on: _drive(server, filled, case, seconds, switch, is_on=is_on)
        for is_on in (begins_with, not begins_with)
    }
    return sides[True], sides[False]


def _drive(
    server: servers.Server, filled: Filled, case: str, seconds: int, switch: _Switch, *, is_on: bool
) -> _Side:
    server.wait_until_idle()
    if is_on:
        switch.turn_on()
    began, accepted = monotonic(), switch.receiver.accepted
    load = wrk.drive(server, filled, case, _CONNECTIONS, seconds)
    delivered = (switch.receiver.accepted - accepted) / (monotonic() - began)
    if is_on:
        switch.turn_off()
    return _Side(load, delivered)


def _compare(case: str, pairs: list[tuple[_Side, _Side]]) -> Cost:
    both = [one.load for one, _ in pairs], [one.load for _, one in pairs]
    return Cost(
        case,
        len(pairs),
        (
            statistics.median(one.per_second for one in both[0]),
            statistics.median(one.per_second for one in both[1]),
        ),
        statistics.median(one.per_second / other.per_second for one, other in zip(*both, strict=True)),
        wrk.processor_ratio(*both),
        statistics.median(one.delivered_per_second for one, _ in pairs),
    )
