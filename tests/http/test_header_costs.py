"""Whatever the headers or the body of a stranger's request contain, parsing them takes the server little
time.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.http.asking import V2, core, raw
from tests.server import NO_LIMITS, RunningServer, running

DATABASES = ("sqlite",)

_SPACE = 31 * 1024
#: How often each request is sent, because the system measures processor time in hundredths of a second.
_TIMES = 20
#: The maximum processor time of one, in seconds. A normal page takes 2 ms; quadratic parsing took 5 s, hops
#: 75 ms.
_MOST = 0.025


def filled(unit: str, head: str = "", tail: str = "") -> str:
    return head + unit * ((_SPACE - len(head) - len(tail)) // len(unit)) + tail


SHAPES = {
    "cookie of quoted backslashes": "Cookie: keywright=" + filled("\\", '"', '"'),
    "cookie of escaped octals": "Cookie: keywright=" + filled("\\101", '"', '"'),
    "cookie of semicolons": "Cookie: " + filled(";"),
    "cookie of pairs": "Cookie: " + filled("a=b; "),
    "cookie of a sentence": "Cookie: keywright=x; keywright_said=" + filled("A"),
    "many cookies": "\r\n".join(['Cookie: keywright="' + "\\" * 3000 + '"'] * 10),
    "content type of semicolons": "Content-Type: multipart/form-data" + filled(";"),
    "content type of quotes": "Content-Type: multipart/form-data; boundary=" + filled('\\"', '"', '"'),
    "content type of parameters": "Content-Type: application/json" + filled("; a=b"),
    "content type of stars": "Content-Type: multipart/form-data" + filled("; a*1*=''%41"),
    "accept": "Accept: " + filled("text/html;q=0.1,"),
    "accept encoding": "Accept-Encoding: " + filled("gzi,"),
    "accept language": "Accept-Language: " + filled("en-US;q=0.5,"),
    "basic credentials": "Authorization: Basic " + filled("QUJD"),
    "authorization of spaces": "Authorization: Basic " + filled(" ") + "x",
    "another scheme": "Authorization: Digest " + filled('a="\\", '),
    "hops that are trusted": "X-Forwarded-For: " + filled("10.0.0.1,", "", "10.0.0.1"),
    "hops of nothing": "X-Forwarded-For: " + filled(","),
    "hops of version 6": "X-Forwarded-For: " + filled("fd00::1,", "", "fd00::1"),
    "many lines of hops": "\r\n".join(["X-Forwarded-For: 10.0.0.1"] * 1000),
    "forwarded schemes": "X-Forwarded-Proto: " + filled("https,"),
    "range": "Range: bytes=" + filled("0-1,"),
    "tags": "If-None-Match: " + filled('W/"x",'),
    "modified since": "If-Modified-Since: " + filled("1 "),
    "user agent": "User-Agent: " + filled("Mozilla/5.0 ("),
    "user agent of odd bytes": "User-Agent: " + filled("\xff"),
    "origin": "Origin: https://" + filled("a."),
    "origin of brackets": "Origin: https://" + filled("["),
    "idempotency key": "Idempotency-Key: " + filled("k"),
    "connection options": "Connection: " + filled("upgrade,") + "\r\nUpgrade: h2c",
    "expectations": "Expect: " + filled("100-continue,"),
    "purpose": "Sec-Purpose: " + filled("prefetc,"),
    "method override": "X-HTTP-Method-Override: " + filled("D"),
    "csrf token": "X-CSRF-Token: " + filled("f"),
    "many headers": "\r\n".join(["a:"] * 6000),
    "white space": "X-A: " + filled("\t ") + "x",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    data_dir: Path = tmp_path_factory.mktemp("costs") / "data"
    trusted = "10.0.0.0/8,127.0.0.1,fd00::/8"
    with running(
        data_dir, trusted_proxies=trusted, allowed_origins="https://shop.example", **NO_LIMITS
    ) as it:
        for _ in range(3):
            # Warm up: the pages are imported on the first request.
            raw(it, request("GET", "/admin/sign-in", "X-A: 1"))
        yield it


def request(method: str, path: str, headers: str) -> bytes:
    lines = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n{headers}\r\n\r\n"
    return lines.encode("latin-1")


_JSON, _FORM, _PARTS = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=B",
)
_PART = b'--B\r\nContent-Disposition: form-data; name="a"'
#: Bodies of 1 MiB, of which a stranger may send 64 KiB: the repeated unit, and its surroundings.
BODIES = {
    "lists": (_JSON, b'{"a":[', b"[],", b"[]]}"),
    "deep lists": (_JSON, b'{"a":[', b"[" * 30 + b"]" * 30 + b",", b"[]]}"),
    "too deep": (_JSON, b'{"a":', b"[", b""),
    "objects": (_JSON, b'{"a":[', b'{"a":{}},', b"{}]}"),
    "numbers": (_JSON, b'{"a":[', b"1.5e308,", b"1]}"),
    "digits": (_JSON, b'{"a":', b"1", b"}"),
    "fractions": (_JSON, b'{"a":0.', b"1", b"}"),
    "escapes": (_JSON, b'{"a":"', b'\\"', b'"}'),
    "open strings": (_JSON, b'{"a":"', b'\\"', b""),
    "escaped form": (_FORM, b"a=", b"%41\xc3\xa9", b""),
    "fields": (_FORM, b"", b"a=b&", b""),
    "parts": (_PARTS, b"", _PART + b"\r\n\r\n\r\n", b"--B--\r\n"),
    "files": (_PARTS, b"", _PART + b'; filename="b"\r\n\r\n\r\n', b"--B--\r\n"),
    "almost boundaries": (_PARTS, _PART + b"\r\n\r\n", b"\r\n--", b"\r\n--B--\r\n"),
}


@pytest.mark.parametrize("size", [63 * 1024, 1024 * 1024])
@pytest.mark.parametrize("shape", BODIES)
def test_no_body_of_a_stranger_takes_the_server_long(server: RunningServer, shape: str, size: int) -> None:
    kind, start, unit, end = BODIES[shape]
    body = start + unit * ((size - len(start) - len(end)) // len(unit)) + end
    head = f"Host: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    asked = f"POST {V2}{core('deactivate', 'nobody')} HTTP/1.1\r\n{head}".encode() + body
    before = processor_time(server.pid)
    for _ in range(_TIMES):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            # A request refused before it is complete still gets a response.
            with suppress(ConnectionError):
                connection.sendall(asked)
            status = int(connection.recv(64).split()[1])
        assert (status == 413) if size > 64 * 1024 else (status in (400, 404))
    assert processor_time(server.pid) - before < _MOST * _TIMES


def processor_time(pid: int) -> float:
    """The processor time of the process in seconds, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("path", [f"{V2}{core('validate', 'nobody')}", "/admin/sign-in", "/admin/sign-out"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_header_takes_the_server_long(server: RunningServer, path: str, shape: str) -> None:
    method = "GET" if path.endswith("-in") else "POST"
    asked = request(method, path, SHAPES[shape])
    raw(server, asked, method)
    before = processor_time(server.pid)
    for _ in range(_TIMES):
        assert raw(server, asked, method).status < 500
    assert processor_time(server.pid) - before < _MOST * _TIMES
