"""Callers that do not read their responses, or have too many connections."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from keywright.config import Settings
from keywright.http.server import protocol
from keywright.http.server.protocol import Protocol
from keywright.http.server.sockets import ConnectionLimit, raise_descriptor_limit
from keywright.http.v2.wire import write_error
from tests.http.asking import V2, raw
from tests.server import RunningServer, running, wait_until

DATABASES = ("sqlite",)
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\n"
#: More than the system buffers, in bytes.
_MUCH = 16 * 1024 * 1024


def answering(size: int, pieces: int = 1) -> Any:
    """An application that responds with this many bytes, in this many pieces."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(pieces):
            piece = b"x" * (size // pieces)
            await send({"type": "http.response.body", "body": piece, "more_body": number < pieces - 1})

    return app


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[tuple[int, ServerState]]:
    """Serve the application; yield the port, and the open connections."""
    config, state = uvicorn.Config(app, log_config=None, ws="none", timeout_keep_alive=1), ServerState()
    config.load()
    limit = ConnectionLimit(Settings(), 1024)
    make = partial(Protocol, config, state, {}, write_error=write_error, connection_limit=limit)
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], state


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("pieces", [1, 64])
@pytest.mark.parametrize("header", [b"", b"Connection: close\r\n"])
def test_a_caller_that_does_not_read_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch, pieces: int, header: bytes
) -> None:
    monkeypatch.setattr(protocol, "SEND_TIMEOUT", 0.1)

    async def served() -> None:
        async with serving(answering(_MUCH, pieces)) as (port, state):
            with socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(ASK % header)
                await until(lambda: bool(state.connections))
                await until(lambda: not state.connections and not state.tasks)

    asyncio.run(served())


def test_a_caller_that_reads_slowly_but_in_time_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    # The timeout restarts whenever the buffer has room again.
    monkeypatch.setattr(protocol, "SEND_TIMEOUT", 2)

    async def served() -> int:
        async with serving(answering(_MUCH, 64)) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASK % b"Connection: close\r\n")
            received = 0
            while piece := await reader.read(1024 * 1024):
                received += len(piece)
                await asyncio.sleep(0.001)
            writer.close()
            return received

    assert asyncio.run(served()) > _MUCH


def test_a_caller_that_has_read_its_answer_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "SEND_TIMEOUT", 0.5)

    async def served() -> None:
        async with serving(answering(1_000_000)) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2_000_000)
            for _ in range(2):
                writer.write(ASK % b"")
                await reader.readuntil(b"\r\n0\r\n\r\n")
                # Longer than the timeout of an unread response.
                await asyncio.sleep(0.7)
            writer.close()

    asyncio.run(served())


def test_connections_beyond_the_limit_are_refused_and_told_to_come_again(tmp_path: Path) -> None:
    with running(tmp_path / "data", connections_limit=3) as server:
        opened = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        wait_until(lambda: is_full(server), "the third connection")
        for one in opened:
            one.close()
        wait_until(lambda: not is_full(server), "an end of the first three")


def is_full(server: RunningServer) -> bool:
    reply = raw(server, f"GET {V2}licenses/validate/x HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    if reply.status == 503:
        assert reply.header("retry-after") == "1"
        assert reply.json["code"] == "service_unavailable"
    return reply.status == 503


def test_an_address_has_so_many_connections_and_others_have_theirs() -> None:
    limits = {"connections_per_address": 2, "connections_limit": 7, "trusted_proxies": "10.0.0.0/8"}
    limit = ConnectionLimit(Settings.model_validate(limits), 1024)
    assert [limit.admit("192.0.2.1") for _ in range(3)] == [True, True, False]
    assert [limit.admit(f"2001:db8::{one}") for one in range(3)] == [True, True, False]
    limit.leave("192.0.2.1")
    assert limit.admit("192.0.2.1")
    # This machine and trusted proxies forward calls of others.
    assert [limit.admit(one) for one in ("127.0.0.1", "10.0.0.1", "10.0.0.1")] == [True] * 3
    assert not limit.admit("10.0.0.1")


def test_there_are_no_more_connections_than_descriptors() -> None:
    limit = ConnectionLimit(Settings(), 130)
    assert [limit.admit("127.0.0.1") for _ in range(3)] == [True, True, False]


def test_a_server_may_open_as_much_as_the_system_allows(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    expected = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    with running(tmp_path / "data") as server:
        limits = Path(f"/proc/{server.pid}/limits").read_text()
    soft = next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3]
    assert soft == "unlimited" or int(soft) >= expected


def test_the_limit_of_descriptors_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        assert raise_descriptor_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert raise_descriptor_limit() > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
