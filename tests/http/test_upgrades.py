"""Requests to upgrade the protocol are ignored, and do not change the parsing: a body is never interpreted as
another request.
"""

import fcntl
import socket
import struct
import termios
import time
from itertools import product

import pytest

from tests.http.asking import V2, Client, core
from tests.server import RunningServer
from tests.tables import each_row

DATABASES = ("sqlite",)

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def framed(framing: str, body: bytes) -> tuple[str, bytes]:
    """The framing header, and the body as it is sent."""
    return {
        "length": (f"Content-Length: {len(body)}\r\n", body),
        "chunked": ("Transfer-Encoding: chunked\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)),
        "none": ("", b""),
    }[framing]


def statuses(server: RunningServer, pieces: list[bytes]) -> list[bytes]:
    """Send the pieces in separate segments; return the statuses of all responses until the
    connection closes.
    """
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
            # Only wait until the server has read it: there is no response yet.
            wait_until_read(connection)
        answers = connection.makefile("rb").read()
    return [one.split(b" ", 1)[0] for one in answers.split(b"HTTP/1.1 ")[1:]]


def wait_until_read(connection: socket.socket) -> None:
    """Wait until the peer has received everything (tcp(7), SIOCOUTQ) and had time to process it."""
    while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0]:
        time.sleep(0.001)
    time.sleep(0.02)


@each_row(
    ("method", "wish", "framing"),
    list(product(("GET", "POST"), ("websocket", "h2c", "foo"), ("length", "chunked", "none"))),
)
def test_a_body_is_never_read_as_a_request(
    server: RunningServer, vendor: Client, method: str, wish: str, framing: str
) -> None:
    key = vendor.license()
    hidden = f"GET {V2}{core('activate', key)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    header, body = framed(framing, hidden)
    head = (
        f"{method} {V2}{core('validate', key)} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n"
        f"Upgrade: {wish}\r\nContent-Type: text/plain\r\n{header}\r\n"
    ).encode()
    # A plain text contains no parameters.
    first = b"200" if framing == "none" else b"400"
    for pieces in ([head + body + HEALTH], [head, body, HEALTH]):
        assert statuses(server, pieces) == [first, b"200"]
    assert vendor.counter(key) == 0


def test_a_body_is_heard_although_another_protocol_was_wished_for(
    server: RunningServer, vendor: Client
) -> None:
    key = vendor.license()
    tokens = [vendor.activate(key).data["activationData"]["token"] for _ in range(2)]
    body = f"token={tokens[0]}".encode()
    head = (
        f"POST {V2}{core('deactivate', key)} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        f"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    assert statuses(server, [head, body, HEALTH]) == [b"200", b"200"]
    assert vendor.counter(key) == 1


def test_a_tunnel_is_refused(server: RunningServer) -> None:
    request = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
    assert statuses(server, [request + HEALTH]) == [b"400"]


def test_many_wishes_at_once_are_each_not_heard(server: RunningServer) -> None:
    wish = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n"
    answered = statuses(server, [wish * 400 + HEALTH])
    assert answered == [b"200"] * 401


def test_a_broken_request_does_not_take_the_answer_of_the_one_before(
    server: RunningServer, vendor: Client
) -> None:
    key = vendor.license()
    first = f"GET {V2}{core('activate', key)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    broken = b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"
    assert statuses(server, [first + broken]) == [b"200"]
    assert vendor.counter(key) == 1


@pytest.mark.parametrize(
    "last", [b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n1"]
)
def test_a_connection_on_which_nothing_more_comes_is_ended(server: RunningServer, last: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.recv(65536)
        connection.sendall(last)
        while connection.recv(65536):
            pass
