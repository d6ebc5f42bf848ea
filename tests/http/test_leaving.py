"""Graceful shutdown: calls received so far get responses, and proxies are notified in time."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvicorn
import uvloop

from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.engine.desk import Desk
from keywright.http.app import create_app
from keywright.http.middleware import sending
from keywright.http.server import protocol
from keywright.http.server.run import _Server
from keywright.http.v2.wire import write_error
from keywright.licensing.licenses import store as license_store
from keywright.registry import open_executor
from tests.concurrency.desks import turns
from tests.http.asking import V2, Client, Reply, assert_refused, core, read_reply
from tests.makers import create
from tests.server import RunningServer, running, wait_until

DATABASES = ("sqlite",)
#: Longer than any test takes, in seconds.
FOR_EVER = 60
UNDONE = "The service is not available right now. Please try again."
UNKNOWN = "It is not known whether the request was carried out. Please look, or try again."
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}

# --- a server process -----------------------------------------------------------------------------


@contextmanager
def leaving(data_dir: Path, database: str = "sqlite", **settings: Any) -> Iterator[RunningServer]:
    """A server that is shutting down, but does not end during the block."""
    with running(data_dir, database, drain_seconds=FOR_EVER, **settings) as server:
        try:
            server.signal(signal.SIGTERM)
            wait_until(lambda: is_leaving(server), "it to leave")
            yield server
        finally:
            # An interactive user does not want to wait.
            server.signal(signal.SIGINT)
            assert server.wait() == 0


def is_leaving(server: RunningServer) -> bool:
    """Whether ten calls, and so probably each process, report the shutdown."""
    for _ in range(10):
        with Client(server) as client:
            if client.get("/readyz").status != 503:
                return False
    return True


def test_a_server_that_is_about_to_stop_says_so_and_goes_on_serving(tmp_path: Path) -> None:
    with leaving(tmp_path / "data") as server, Client(server, server.api_key()) as vendor:
        assert_refused(vendor.get("/readyz"), UNDONE, code="service_unavailable", status=503)
        alive = vendor.get("/healthz")
        assert (alive.status, alive.header("connection")) == (200, "close")
        key = vendor.license()
        assert [vendor.activate(key).data["timesActivated"] for _ in range(5)] == [1, 2, 3, 4, 5]
        # A second signal does not speed it up.
        server.signal(signal.SIGTERM)
        assert vendor.counter(key) == 5
    assert "told to stop; serving for another 60 s" in server.log


def test_it_stops_by_itself_in_the_end(tmp_path: Path) -> None:
    with running(tmp_path / "data", drain_seconds=1) as server:
        assert server.stop() == 0


def test_workers_leave_together_and_their_parent_takes_nobody(tmp_path: Path) -> None:
    with leaving(tmp_path / "data", "postgresql", workers=2) as server:
        assert listening(psutil.Process(server.pid)) == 0
        assert [listening(one) for one in psutil.Process(server.pid).children()] == [1, 1]
        for _ in range(10):
            with Client(server) as client:
                assert client.get("/healthz").status == 200
                assert client.get("/readyz").status == 503


def listening(process: psutil.Process) -> int:
    """The number of addresses that the process listens on."""
    return sum(one.status == psutil.CONN_LISTEN for one in process.net_connections("inet"))


def asked(connection: socket.socket) -> Reply:
    connection.sendall(REQUEST)
    return answer(connection)


def answer(connection: socket.socket) -> Reply:
    response = HTTPResponse(connection)
    response.begin()
    return read_reply(response)


# --- the very moment of the end -------------------------------------------------------------------


async def application(scope: Any, receive: Any, send: Any) -> None:
    """An application that always responds with 200."""
    if scope["type"] == "lifespan":
        for moment in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{moment}.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


class Ending:
    """A server in this process, on ``sockets``, that is shut down between two turns of the event loop."""

    def __init__(self, app: Any = application, grace: int = FOR_EVER) -> None:
        http: Any = partial(protocol.Protocol, write_error=write_error)
        silent: dict[str, Any] = {"http": http, "ws": "none", "log_config": None, "access_log": False}
        waits: dict[str, Any] = {"timeout_keep_alive": FOR_EVER, "timeout_graceful_shutdown": grace}
        config = uvicorn.Config(app, **silent, **waits)
        self.server = _Server(config, lambda: None, drain_seconds=FOR_EVER)
        config.load()
        self.server.lifespan = config.lifespan_class(config)
        self.sockets = [socket.create_server(("127.0.0.1", 0))]
        self.address = self.sockets[0].getsockname()

    async def start(self) -> None:
        await self.server.startup(self.sockets)

    async def end(self, how: Callable[..., Any] = _Server.shutdown) -> None:
        await how(self.server, self.sockets)

    def connect(self, *pieces: bytes) -> socket.socket:
        """Open a connection and send this, without a turn of the event loop."""
        connection = socket.create_connection(self.address, timeout=30)
        for piece in pieces:
            connection.sendall(piece)
        return connection

    def give_up(self) -> None:
        """Close open connections: uvloop would wait for them forever."""
        for listener in getattr(self.server, "servers", ()):
            listener.close()
        for connection in list(self.server.server_state.connections):
            connection.transport.abort()

    async def let_in(self, count: int) -> None:
        """Wait until the server has this many connections."""
        while len(self.server.server_state.connections) < count:
            await asyncio.sleep(0)


def run(what: Callable[[Ending], Any], loop: str = "uvloop", app: Any = application, **options: int) -> None:
    ending = Ending(app, **options)

    async def scenario() -> None:
        try:
            await what(ending)
        finally:
            ending.give_up()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


def test_a_connection_is_kept_until_it_is_used_once_more() -> None:
    async def scenario(ending: Ending) -> None:
        await ending.start()
        with ending.connect() as kept:
            assert (await asyncio.to_thread(asked, kept)).header("connection") is None
            ending.server.handle_exit(signal.SIGTERM, None)
            assert not await ending.server.on_tick(1)
            last = await asyncio.to_thread(asked, kept)
            assert (last.status, last.header("connection")) == (200, "close")
            assert kept.recv(1) == b""
            await ending.end()

    run(scenario)


@pytest.mark.parametrize("loop", LOOPS)
def test_who_has_connected_and_was_not_let_in_yet_is_answered(loop: str) -> None:
    async def scenario(ending: Ending) -> None:
        await ending.start()
        with ExitStack() as stack:
            waiting = [stack.enter_context(ending.connect(REQUEST)) for _ in range(50)]
            await ending.end()
            answers = [answer(one) for one in waiting]
            assert {(one.status, one.header("connection")) for one in answers} == {(200, "close")}
        with pytest.raises(ConnectionRefusedError):
            ending.connect()

    run(scenario, loop)


def test_control_without_that_they_are_cut_off() -> None:
    async def scenario(ending: Ending) -> None:
        await ending.start()
        with ExitStack() as stack:
            waiting = [stack.enter_context(ending.connect(REQUEST)) for _ in range(50)]
            await ending.end(uvicorn.Server.shutdown)
            for one in waiting:
                with pytest.raises(ConnectionResetError):
                    answer(one)

    run(scenario)


@pytest.mark.parametrize("sent", [b"", REQUEST[:20]], ids=["nothing yet", "half a request"])
def test_who_is_about_to_ask_is_answered(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "LAST_REQUEST_TIMEOUT", 30)

    async def scenario(ending: Ending) -> None:
        await ending.start()
        with ending.connect(sent) as connection:
            await ending.let_in(1)
            end = asyncio.create_task(ending.end())
            await asyncio.sleep(0)
            connection.sendall(REQUEST[len(sent) :])
            await end
            reply = answer(connection)
            assert (reply.status, reply.header("connection")) == (200, "close")

    run(scenario)


def test_who_asks_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "LAST_REQUEST_TIMEOUT", 0.05)

    async def scenario(ending: Ending) -> None:
        await ending.start()
        with ending.connect() as silent, ending.connect(REQUEST[:20]) as slow:
            await ending.let_in(2)
            await ending.end()
            assert silent.recv(1) == b""
            assert answer(slow).status == 408

    run(scenario)


# --- an end that takes too long -------------------------------------------------------------------


def test_what_is_given_up_at_the_end_is_said_to_be_undone_or_of_unknown_fate(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")

    async def scenario(ending: Ending) -> None:
        await ending.start()
        desk = ending.server.lifespan.state["app"]._interfaces[0].desk
        with ExitStack() as stack:
            first = stack.enter_context(ending.connect(activation("KEY-1")))
            assert (await asyncio.to_thread(answer, first)).status == 200
            await start_up_work_is_done(desk)
            with other.write():
                begun = stack.enter_context(ending.connect(activation("KEY-1")))
                while not ending.server.server_state.tasks:
                    await asyncio.sleep(0)
                await turns(20)
                waiting = stack.enter_context(ending.connect(activation("KEY-2")))
                while not desk.waiting:
                    await asyncio.sleep(0)
                await ending.end()
            replies = [answer(one) for one in (begun, waiting)]
        assert_refused(replies[0], UNKNOWN, code="service_unavailable", status=503)
        assert_refused(replies[1], UNDONE, code="service_unavailable", status=503)
        assert [reply.header("retry-after") for reply in replies] == ["1", "1"]

    with closing(open_installation(settings)) as storage, closing(open_installation(settings)) as other:
        open_executor(storage).execute([create("KEY-1"), create("KEY-2")])
        run(scenario, app=create_app(settings, storage), grace=1)
        with storage.read() as tx:
            found = license_store.find_licenses(tx, ["KEY-1", "KEY-2"])
        # The other call was writing the whole time.
        assert [found[key].times_activated for key in ("KEY-1", "KEY-2")] == [1, 0]


def test_a_delayed_refusal_is_sent_when_the_server_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "DELAY", FOR_EVER)
    settings = Settings(data_dir=tmp_path / "data", unknown_key_limit=1)

    async def scenario(ending: Ending) -> None:
        await ending.start()
        with ending.connect(activation("KEY-1")) as first:
            assert (await asyncio.to_thread(answer, first)).status == 404
        with ending.connect(activation("KEY-2")) as delayed:
            while not ending.server.server_state.tasks:
                await asyncio.sleep(0)
            await ending.end()
            assert answer(delayed).status == 429

    with closing(open_installation(settings)) as storage:
        run(scenario, app=create_app(settings, storage), grace=1)


async def start_up_work_is_done(desk: Desk) -> None:
    """Wait until thirty checks in a row found no change in progress."""
    quiet = 0
    while quiet < 30:
        quiet = 0 if desk._changes._is_awake else quiet + 1
        await asyncio.sleep(0.01)


def activation(key: str) -> bytes:
    return f"GET {V2}{core('activate', key)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
