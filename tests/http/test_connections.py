"""Requests on one connection: sequential, pipelined, or abandoned."""

import json
import re
import socket
import struct
from contextlib import suppress
from http.client import HTTPResponse
from io import BufferedReader
from pathlib import Path

import pytest

from tests.http.asking import V2, Client, Reply, a_key, basic, core, read_reply
from tests.server import RunningServer, wait_until


def connected(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def replies(connection: socket.socket, count: int) -> list[Reply]:
    """Read the next responses on the connection."""
    with connection.makefile("rb") as received:
        return [_next_reply(received) for _ in range(count)]


def _next_reply(received: BufferedReader) -> Reply:
    status = int(received.readline().split()[1])
    headers = []
    while line := received.readline().decode().strip():
        name, _, value = line.partition(": ")
        headers.append((name.lower(), value))
    return Reply(status, headers, received.read(int(dict(headers)["content-length"])))


def activation(key: str, extra: str = "") -> bytes:
    return f"GET {V2}{core('activate', key)}?label={extra} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_requests_sent_ahead_are_answered_in_their_order_however_they_come(
    server: RunningServer, vendor: Client
) -> None:
    key = vendor.license()
    head = f"POST {V2}{core('activate', key)} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    bodies = [json.dumps({"label": f"{number}-{'x' * 200}"}) for number in range(150)]
    # Together larger than the limit for the headers of one request.
    rest = "".join(f"{head}Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies).encode()
    with connected(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in (1, 700, 2047, 2048, 2049, 5000, len(rest)):
            connection.sendall(rest[:size])
            rest = rest[size:]
        answers = replies(connection, 150)
    assert [reply.data["timesActivated"] for reply in answers] == list(range(1, 151))
    labels = [reply.data["activationData"]["label"].partition("-")[0] for reply in answers]
    assert labels == [str(number) for number in range(150)]


@pytest.mark.parametrize("size", [10, 100_000, 900_000])
def test_a_body_that_was_not_read_is_not_taken_for_a_request(
    server: RunningServer, vendor: Client, size: int
) -> None:
    key = vendor.license()
    body = activation(key).ljust(size, b" ")
    head = f"POST {V2}licenses HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with connected(server) as connection:
        connection.sendall(head + body)
        assert [reply.status for reply in replies(connection, 1)] == [401]
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [reply.status for reply in replies(connection, 1)] == [200]
    assert vendor.counter(key) == 0


def test_who_asks_before_sending_a_body_is_told_to_go_on(server: RunningServer, vendor: Client) -> None:
    body = json.dumps({"license_key": a_key()}).encode()
    authorization = basic(*(vendor.credentials or ("", "")))
    lines = f"Host: x\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n"
    head = f"POST {V2}licenses HTTP/1.1\r\n{lines}"
    with connected(server) as connection:
        connection.sendall(f"{head}Authorization: {authorization}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert replies(connection, 1)[0].data["status"] == 3
    with connected(server) as connection:
        connection.sendall(f"{head}\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_http_1_0_and_close_are_understood(server: RunningServer, vendor: Client) -> None:
    path = V2 + core("validate", vendor.license())
    for request in (
        f"GET {path} HTTP/1.0\r\n\r\n",
        f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ):
        with connected(server) as connection:
            connection.sendall(request.encode())
            response = HTTPResponse(connection)
            response.begin()
            assert read_reply(response).status == 200
            assert connection.recv(1) == b""


def test_who_goes_away_while_waiting_is_not_decided_and_stops_no_other(
    server: RunningServer, vendor: Client, program: Client, database: str
) -> None:
    key = vendor.license()
    before = refused_activations(server)
    with server.holding_changes():
        gone = [connected(server) for _ in range(20)]
        stayed = [connected(server) for _ in range(5)]
        for connection in (*gone, *stayed):
            connection.sendall(activation(key))
        assert [program.get("/healthz").status for _ in range(3)] == [200] * 3
        for connection in gone:
            connection.close()
        if database == "sqlite":
            wait_until(lambda: refused_activations(server) == before + 20, "the server to notice")
    for connection in stayed:
        assert replies(connection, 1)[0].status == 200
        connection.close()
    # On PostgreSQL, the first one is already being processed.
    assert vendor.counter(key) == 5 if database == "sqlite" else vendor.counter(key) >= 5
    server.assert_consistent()


def refused_activations(server: RunningServer) -> int:
    """Count the activations refused because the server could not carry them out."""
    return sum('"route":"activate","status":503' in line for line in server.log.splitlines())


@pytest.mark.parametrize("is_abrupt", [False, True])
def test_a_caller_that_hangs_up_is_no_error_in_the_log(
    server: RunningServer, vendor: Client, program: Client, is_abrupt: bool
) -> None:
    recipe = {"charset": "ABCDEFGH01234567", "chunks": 4, "chunk_length": 8, "prefix": "CANARY"}
    number = vendor.post("generators", json_body={"name": "g", **recipe}).data["id"]
    vendor.post(f"generators/{number}/generate", json_body={"amount": 1000})
    before = len(server.log)
    authorization = f"Host: x\r\nAuthorization: {basic(*(vendor.credentials or ('', '')))}\r\n\r\n"
    for request in (
        f"GET {V2}licenses HTTP/1.1\r\n{authorization}",
        "GET /openapi/v2.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20,
        activation(vendor.license()).decode() * 20,
        "GET /admin/sign-in HTTP/1.1\r\nHost: x\r\n\r\n" * 5,
    ):
        for waits in (False, True) * 5:
            connection = connected(server)
            if is_abrupt:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(request.encode())
            if waits:
                connection.recv(100)
            connection.close()
    # These calls are processed after the activations.
    assert [program.get("/readyz").status for _ in range(3)] == [200] * 3
    log = server.log[before:]
    assert "Traceback" not in log
    assert '"level":"error"' not in log


def test_requests_sent_ahead_are_kept_as_bytes(server: RunningServer) -> None:
    def memory() -> int:
        """The server's memory, in KiB."""
        status = Path(f"/proc/{server.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0])

    before, most = memory(), 0
    opened = [connected(server) for _ in range(20)]
    for connection in opened:
        connection.setblocking(False)
        with suppress(BlockingIOError):
            connection.send(b"GET /x HTTP/1.1\r\nHost:\r\n\r\n" * 9000)
    for connection in opened:
        connection.setblocking(True)
        replies(connection, 100)
        most = max(most, memory())
    for connection in opened:
        connection.close()
    # If all were parsed, they would take 270 MiB.
    assert most - before < 100 * 1024
