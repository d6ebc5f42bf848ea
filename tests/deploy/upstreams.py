"""Upstreams that note what arrives, and answer as a test wants."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.server import wait_until

_READY = b"/readyz"


class Upstream:
    """Answers 200 as long as it is well; once it is not, it reads a request and hangs up.

    Health checks are not noted; they are answered as ``is_ready`` says.
    """

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.is_well = True
        self.is_ready = True
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def targets(self) -> list[str]:
        """The second word of each request that came."""
        return [request.split(b" ")[1].decode("latin-1") for request in self.requests]

    def close(self) -> None:
        """Take no more connections, and end those that there are."""
        # A thread that accepts is not woken by close alone.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join(30)
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: not self._open, "the upstream's connections to end")

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            received = b""
            while piece := connection.recv(65536):
                received += piece
                while b"\r\n\r\n" in received:
                    request, _, received = received.partition(b"\r\n\r\n")
                    if not self._answer(connection, request):
                        self._open.discard(connection)
                        return
        self._open.discard(connection)

    def _answer(self, connection: socket.socket, request: bytes) -> bool:
        """Whether there was an answer."""
        if request.split(b" ")[1] == _READY:
            status = b"200 OK" if self.is_ready else b"503 Service Unavailable"
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
            return True
        self.requests.append(request)
        if not self.is_well:
            return False
        connection.sendall(self.answer)
        return True


@contextmanager
def an_upstream() -> Iterator[Upstream]:
    """An upstream for as long as the block runs."""
    upstream = Upstream()
    try:
        yield upstream
    finally:
        upstream.close()
