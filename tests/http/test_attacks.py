"""Malicious clients, and clients that disconnect in the middle."""

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from keywright.identity.model import Permissions
from tests.http.asking import V2, Client, a_key, basic, core, license_path
from tests.server import RunningServer, wait_until

#: These requests do not reach the database.
DATABASES = ("sqlite",)


def exchange(server: RunningServer, request: bytes) -> bytes:
    """Send a request, and read everything until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as connection:
        connection.sendall(request)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


def post(path: str, body: bytes, *headers: str) -> bytes:
    head = [f"POST {V2}{path} HTTP/1.1", "Host: x", "Connection: close", *headers]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def send_until_refused(connection: socket.socket, piece: bytes, most: int) -> int:
    """Send the piece repeatedly; return how often that succeeded."""
    for number in range(most):
        try:
            connection.sendall(piece)
        except ConnectionError:
            return number
    return most


def multipart(charset: str, value: bytes) -> tuple[bytes, str]:
    body = b'--BB\r\nContent-Disposition: form-data; name="token"\r\n\r\n' + value + b"\r\n--BB--\r\n"
    return body, f"Content-Type: multipart/form-data; boundary=BB; charset={charset}"


@pytest.mark.parametrize("body", [b"", b"tok", b"token=ab"])
def test_a_call_whose_body_breaks_off_changes_nothing(
    server: RunningServer, vendor: Client, body: bytes
) -> None:
    key = vendor.license()
    vendor.activated(key)
    before = server.log.count('"status":400')
    head = f"POST {V2}{core('deactivate', key)} HTTP/1.1\r\nHost: x\r\nContent-Length: 46\r\n"
    form = "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall((head + form).encode() + body)
    wait_until(lambda: server.log.count('"status":400') > before, "the refusal in the log")
    assert vendor.counter(key) == 1


def test_a_body_of_no_known_kind_is_refused_rather_than_overlooked(vendor: Client) -> None:
    key = vendor.license()
    vendor.activated(key)
    for kind in ("text/plain", "application/octet-stream"):
        reply = vendor.post(core("deactivate", key), body=b"token=abc", headers={"Content-Type": kind})
        assert (reply.status, reply.json["code"]) == (400, "rest_invalid_form")
    assert vendor.counter(key) == 1


@pytest.mark.parametrize(
    ("charset", "value"),
    [
        ("punycode", b"-" + b"ba" * 30_000),
        ("utf-7", b"+2AA-"),
        ("unicode_escape", rb"\ud800"),
        ("no-such", b"x"),
    ],
)
def test_a_client_does_not_choose_the_codec_of_a_form(
    server: RunningServer, vendor: Client, charset: str, value: bytes
) -> None:
    key = vendor.license()
    body, kind = multipart(charset, value)
    answer = exchange(server, post(core("validate", key), body, kind))
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"could not be found or is deactivated." in answer


def test_what_follows_a_body_in_pieces_is_not_taken_for_headers(
    server: RunningServer, vendor: Client
) -> None:
    key = vendor.license()
    request = (
        f"POST {V2}{core('activate', key)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nUser-Agent: real\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\nUser-Agent: trailer\r\nIdempotency-Key: trailer\r\n\r\n"
    )
    answer = exchange(server, request.encode())
    assert b'"user_agent":"real"' in answer
    listing = (
        f"POST {V2}licenses HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        f"0\r\nAuthorization: {basic(*server.api_key())}\r\n\r\n"
    )
    assert exchange(server, listing.encode()).startswith(b"HTTP/1.1 401")


def test_endless_trailers_are_cut_off(server: RunningServer, vendor: Client) -> None:
    key = vendor.license()
    head = f"POST {V2}{core('validate', key)} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as connection:
        connection.sendall(head.encode())
        assert send_until_refused(connection, b"X: " + b"y" * 1000 + b"\r\n", 20_000) < 20_000


def test_a_link_to_another_page_stays_on_this_host(server: RunningServer, vendor: Client) -> None:
    vendor.license()
    credentials = basic(*server.api_key(Permissions.READ))
    request = f"GET /{V2}licenses?page=2&per_page=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    answer = exchange(server, f"{request}Authorization: {credentials}\r\n\r\n".encode())
    (link,) = re.findall(rb"\r\nlink: ([^\r]*)", answer)
    assert link.startswith(b"</wp-json/")


def test_a_key_that_is_not_utf_8_is_nobodys(vendor: Client) -> None:
    key = "\ufffd" + a_key()
    vendor.license(license_key=key)
    assert vendor.validate(key).status == 200
    broken = license_path(key).replace("%EF%BF%BD", "%FF")
    assert vendor.get(broken).message == f"License Key: {key} could not be found."


def test_a_list_for_http_1_0_comes_in_one_piece(server: RunningServer, vendor: Client) -> None:
    vendor.license()
    credentials = basic(*server.api_key(Permissions.READ))
    answer = exchange(server, f"GET {V2}licenses HTTP/1.0\r\nAuthorization: {credentials}\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert json.loads(body)["success"] is True


def test_a_doubled_header_cannot_hide_a_prefetch(server: RunningServer, vendor: Client) -> None:
    key = vendor.license()
    prefetch = "Sec-Purpose: prefetch\r\nSec-Purpose: x\r\nConnection: close\r\n"
    request = f"GET {V2}{core('activate', key)} HTTP/1.1\r\nHost: x\r\n{prefetch}\r\n"
    assert exchange(server, request.encode()).startswith(b"HTTP/1.1 403")
    assert vendor.counter(key) == 0


def test_an_address_with_a_slash_at_its_end_is_no_redirect(vendor: Client) -> None:
    assert vendor.get("/healthz/").status == 404


def test_what_does_not_arrive_within_ten_seconds_is_not_waited_for(server: RunningServer) -> None:
    late = {
        b"GET / HTTP/1.1\r\nHost: x\r\nX": b"HTTP/1.1 408 ",
        post(core("validate", "x"), b"{ ")[:-1]: b"HTTP/1.1 408 ",
        b"": b"",
    }
    # Concurrently, because each takes ten seconds.
    with ThreadPoolExecutor(len(late)) as threads:
        answers = list(threads.map(lambda sent: exchange(server, sent), late))
    for answer, start in zip(answers, late.values(), strict=True):
        assert answer[: len(start)] == start
        assert bool(answer) == bool(start)
