"""A receiver of webhooks: a real HTTP server on this machine, which answers as a test says."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from standardwebhooks.webhooks import Webhook


class Received(NamedTuple):
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)

    @property
    def event_id(self) -> int:
        """The number of the event that it tells of."""
        return int(self.headers["webhook-id"].rpartition("_")[2])

    def verify(self, secret: str) -> None:
        """Raise an error unless the independent library finds the signature good."""
        Webhook(secret).verify(self.body, self.headers)


class Reply(NamedTuple):
    """What the receiver answers."""

    status: int = 200
    body: bytes = b"ok"
    headers: tuple[tuple[str, str], ...] = ()
    #: Sent in place of an answer.
    raw: bytes | None = None
    #: Wait until the receiver is closed.
    hangs: bool = False


class Receiver:
    """Keeps the requests that came; ``answer`` gets each, and can be set anew at any time."""

    def __init__(self, answer: Callable[[Received], Reply]) -> None:
        self.answer = answer
        self.received: list[Received] = []
        self.connections = 0
        self.is_closed = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        """The URL of an endpoint here."""
        return f"http://127.0.0.1:{self.port}/hooks"

    @property
    def event_ids(self) -> list[int]:
        """The numbers of the events that it was told of, in that order."""
        return [one.event_id for one in self.received]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    receiver: Receiver

    def setup(self) -> None:
        super().setup()
        self.receiver.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.path, headers, body)
        reply = self.receiver.answer(request)
        self.receiver.received.append(request)
        if reply.hangs:
            self.receiver.is_closed.wait()
        elif reply.raw is not None:
            self.wfile.write(reply.raw)
            self.close_connection = True
        else:
            self._write(reply)

    def _write(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """A sender that hangs up is nothing to report."""


@contextmanager
def receiving(
    answer: Callable[[Received], Reply] = lambda _: Reply(), tls: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    """A receiver until the end of the block."""
    receiver = Receiver(answer)

    handler = type("Handler", (_Handler,), {"receiver": receiver})
    with _Server(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.is_closed.set()
            server.shutdown()
