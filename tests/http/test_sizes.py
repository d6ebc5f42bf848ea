"""The size limits of requests, to the byte; and bytes that are not requests."""

import gzip
import json
import re
import socket
import zlib
from contextlib import suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from keywright.identity.model import Permissions
from tests.http.asking import (
    V2,
    Client,
    Reply,
    a_key,
    assert_common_headers,
    assert_refused,
    basic,
    core,
    raw,
    read_reply,
)
from tests.server import RunningServer
from tests.tables import each_row

DATABASES = ("sqlite",)

MOST_ADDRESS, MOST_HEADERS, MOST_BODY = 8192, 32 * 1024, 1024 * 1024
MOST_OF_STRANGERS = 64 * 1024
JSON = {"Content-Type": "application/json"}


# --- the address ----------------------------------------------------------------------------------


@each_row("where", ["path", "query"])
def test_an_address_may_have_8_kib(program: Client, where: str) -> None:
    def reply(size: int) -> Reply:
        path = f"{V2}licenses/validate/x"
        filling = "x" * (size - len(path))
        return program.get(path + filling) if where == "path" else program.get(path, query=filling)

    assert reply(MOST_ADDRESS).status == 404
    for size in (MOST_ADDRESS + 1, 3 * MOST_ADDRESS):
        assert_refused(reply(size), "The address is too long.", code="rest_uri_too_long", status=414)


# --- headers --------------------------------------------------------------------------------------


def with_headers(size: int, count: int = 1) -> bytes:
    """A request whose target and headers have this size, including two separators per header."""
    target = f"{V2}licenses/validate/x".encode()
    fixed = b"Host: x\r\n"
    left = size - len(target) - len(fixed)
    lines = [b"X-%03d: " % number for number in range(count)]
    filling = left // count
    filled = [line + b"x" * (filling - len(line) - 2) + b"\r\n" for line in lines]
    filled[-1] = filled[-1][:-2] + b"x" * (left - filling * count) + b"\r\n"
    return b"GET " + target + b" HTTP/1.1\r\n" + fixed + b"".join(filled) + b"\r\n"


@each_row("count", [1, 7, 90])
def test_headers_may_have_32_kib(server: RunningServer, count: int) -> None:
    assert raw(server, with_headers(MOST_HEADERS, count)).status == 404
    for size in (MOST_HEADERS + 1, 3 * MOST_HEADERS):
        sentence = "The request headers are too large."
        reply = raw(server, with_headers(size, count))
        assert_refused(reply, sentence, code="rest_headers_too_large", status=431)


@pytest.mark.parametrize(("lines", "status"), [(256, 404), (257, 431), (6000, 431)])
def test_headers_may_have_256_lines(server: RunningServer, lines: int, status: int) -> None:
    head = f"GET {V2}licenses/validate/x HTTP/1.1\r\nHost: x\r\n"
    assert raw(server, (head + "a:\r\n" * (lines - 1) + "\r\n").encode()).status == status


def test_headers_without_end_are_not_waited_for(server: RunningServer) -> None:
    endless = with_headers(3 * MOST_HEADERS)[: 2 * MOST_HEADERS]
    assert raw(server, endless).status == 431


def test_a_request_names_its_host_once_and_with_http_1_0_perhaps_not(server: RunningServer) -> None:
    start, twice = f"GET {V2}licenses/validate/x HTTP/1.", "Host: x\r\nHost: x\r\n"
    for rest in ("1\r\n", f"1\r\n{twice}", "1\r\nHost: x\r\nhost: y\r\n", f"0\r\n{twice}"):
        reply = raw(server, f"{start}{rest}\r\n".encode())
        assert_refused(reply, "The request is not well-formed HTTP.", code="bad_request", status=400)
    assert raw(server, f"{start}0\r\n\r\n".encode()).status == 404


# --- the body -------------------------------------------------------------------------------------


def an_update(size: int) -> bytes:
    """A JSON body of this size that changes nothing."""
    return b'{"order_id": 5' + b" " * (size - 15) + b"}"


@each_row(("size", "status"), [(MOST_BODY, 200), (MOST_BODY + 1, 413), (2 * MOST_BODY, 413)])
@each_row("chunked", [False, True])
def test_a_body_may_have_1_mib(vendor: Client, size: int, status: int, chunked: bool) -> None:
    path = f"licenses/{vendor.license()}"
    body = an_update(size)
    headers = dict(JSON)
    if chunked:
        pieces = [body[start : start + 65536] for start in range(0, size, 65536)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        headers |= {"Transfer-Encoding": "chunked", "Content-Length": ""}
    reply = send(vendor, path, body, headers)
    assert reply.status == status
    if status == 413:
        assert_refused(reply, "The request body is too large.", code="rest_body_too_large", status=413)


@each_row(
    ("permissions", "most"),
    [
        *((None, MOST_OF_STRANGERS), (Permissions.CLIENT, MOST_OF_STRANGERS)),
        *((Permissions.READ, MOST_BODY), (Permissions.READ_WRITE, MOST_BODY)),
    ],
)
@each_row("method", ["GET", "POST"])
def test_a_body_of_a_core_call_may_have_64_kib_and_1_mib_with_an_api_key_that_reads_or_writes(
    *, server: RunningServer, vendor: Client, permissions: Permissions | None, most: int, method: str
) -> None:
    path = core("validate", vendor.license())
    with Client(server, server.api_key(permissions) if permissions else None) as caller:
        sent = [send(caller, path, an_update(size), JSON, method).status for size in (most, most + 1)]
    assert sent == [200, 413]


def send(client: Client, path: str, body: bytes, headers: dict[str, str], method: str = "PUT") -> Reply:
    """Send on a separate connection, which a refused body may close."""
    credentials = "" if client.credentials is None else basic(*client.credentials)
    lines = {"Host": "x", "Authorization": credentials, "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    request = f"{method} {V2}{path} HTTP/1.1\r\n{head}\r\n".encode() + body
    with socket.create_connection(("127.0.0.1", client._server.port), timeout=30) as connection:
        # A request refused before it is complete still gets a response.
        with suppress(ConnectionError):
            connection.sendall(request)
        response = HTTPResponse(connection, method=method)
        response.begin()
        return read_reply(response)


def test_a_body_that_is_announced_as_too_large_is_not_waited_for(server: RunningServer) -> None:
    request = f"POST {V2}licenses/activate/x HTTP/1.1\r\nHost: x\r\nContent-Length: {10**12}\r\n\r\n"
    assert raw(server, request.encode(), "POST").status == 413


@each_row("encoding", ["gzip", "deflate", "br", "zstd", "GZIP", "x-gzip", "gzip, identity", "nonsense"])
def test_a_compressed_body_is_not_taken(vendor: Client, program: Client, encoding: str) -> None:
    key = vendor.license()
    bomb = gzip.compress(json.dumps({"label": "x" * 10**6}).encode())
    for client, path in ((program, core("activate", key)), (vendor, "licenses"), (vendor, f"licenses/{key}")):
        reply = client.post(path, body=bomb, headers={**JSON, "Content-Encoding": encoding})
        sentence = "Compressed request bodies are not accepted. Send the body as it is."
        assert_refused(reply, sentence, code="rest_unsupported_encoding", status=415)
    assert program.counter(key) == 0


def test_a_compressed_body_takes_no_memory(server: RunningServer, program: Client) -> None:
    def most_memory() -> int:
        """The most that the server has had in memory since the peak was reset, in KiB."""
        status = Path(f"/proc/{server.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])

    compressor = zlib.compressobj(level=9, wbits=31)
    bomb = b"".join(compressor.compress(bytes(2**20)) for _ in range(48)) + compressor.flush()
    assert len(bomb) < MOST_OF_STRANGERS
    # proc(5): the peak begins anew with what is there now.
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    before = most_memory()
    for _ in range(5):
        assert (
            program.post(core("activate", "x"), body=bomb, headers=JSON | {"Content-Encoding": "gzip"}).status
            == 415
        )
    assert most_memory() - before < 16 * 1024


def test_a_body_that_says_it_is_not_compressed_is_taken(vendor: Client) -> None:
    headers = {"Content-Encoding": "identity"}
    assert vendor.post("licenses", json_body={"license_key": a_key()}, headers=headers).status == 200


def test_json_may_be_32_levels_deep(vendor: Client, program: Client) -> None:
    path = core("activate", vendor.license())
    bodies = [b'{"x":' * depth + b"1" + b"}" * depth for depth in (32, 33)]
    replies = [program.post(path, body=body, headers=JSON) for body in bodies]
    assert replies[0].status == 200
    assert_refused(replies[1], "Invalid JSON body passed.", code="rest_invalid_json", status=400)


@pytest.mark.parametrize(("count", "status"), [(1000, 200), (1001, 400), (7_000, 400)])
def test_a_form_may_have_a_thousand_fields(vendor: Client, program: Client, count: int, status: int) -> None:
    fields = "&".join(f"f{number}=x" for number in range(count))
    reply = program.post(core("activate", vendor.license()), form=fields)
    assert reply.status == status
    assert reply.json["success"] is (status == 200)


# --- what is no request ---------------------------------------------------------------------------

POST = f"POST {V2}licenses/validate/x HTTP/1.1\r\nHost: x\r\n".encode()
GET = f"GET {V2}licenses/validate/x HTTP/1.1\r\n".encode()


@each_row(
    "request_",
    [
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        POST + b"Content-Length: 5, 5\r\n\r\nhello",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: +5\r\n\r\nhello",
        POST + b"Content-Length: 0x5\r\n\r\nhello",
        POST + b"Content-Length: five\r\n\r\nhello",
        POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
        POST + b"Content-Length : 5\r\n\r\nhello",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\nhello\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        GET + b"Ho st: x\r\n\r\n",
        GET + b"Host: x\r\nX: a\0b\r\n\r\n",
        GET + b"Host: x\r\n: nothing\r\n\r\n",
        GET + b"Host: x\r\nno colon\r\n\r\n",
        f"GET {V2}licenses/validate/a b HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        f"GET {V2}licenses/validate/a\0b HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        f"GET {V2}licenses HTTP/9.9\r\nHost: x\r\n\r\n".encode(),
        b"GET licenses HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(
    server: RunningServer, request_: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        # The bytes after it must not be interpreted as the next request.
        connection.sendall(request_ + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 400 "), received
    assert received.count(b"HTTP/1.1 ") == 1
    reply = raw(server, request_)
    assert_refused(reply, "The request is not well-formed HTTP.", code="bad_request", status=400)
    assert_common_headers(reply)


@pytest.mark.parametrize("kind", ["json_body", "form", "multipart"])
def test_a_long_body_says_as_much_as_a_short_one(vendor: Client, kind: str) -> None:
    sent: dict[str, Any] = {kind: {"x": "ü" * 100_000, "label": "Büro 7"}}
    reply = vendor.post(core("activate", vendor.license()), **sent)
    assert reply.data["activationData"]["label"] == "Büro 7"
