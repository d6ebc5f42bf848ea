"""Requests on whose end two parties might disagree: no proxy and server do."""

import pytest

from tests.deploy.proxies import Proxy, SecureClient
from tests.http.asking import V2, core

#: Stands where a request is hidden, and for its length.
HIDDEN, LENGTH = b"{HIDDEN}", b"{LENGTH}"
POST = f"POST {V2}licenses/validate/x HTTP/1.1\r\nHost: localhost\r\n".encode()
GET = f"GET {V2}licenses/validate/x HTTP/1.1\r\nHost: localhost\r\n".encode()
CHUNKED = b"Transfer-Encoding: chunked\r\n"
ALL_OF_IT = b"Content-Length: {LENGTH}\r\n"
THE_LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
AFTER_THE_END = b"\r\n0\r\n\r\n" + HIDDEN

DISPUTED = [
    POST + ALL_OF_IT + CHUNKED + AFTER_THE_END,
    POST + CHUNKED + ALL_OF_IT + AFTER_THE_END,
    POST + b"Content-Length: 4\r\n" + CHUNKED + b"\r\n{HEX}\r\n" + HIDDEN + b"\r\n0\r\n\r\n",
    POST + ALL_OF_IT + b"Transfer-Encoding: xchunked\r\n" + AFTER_THE_END,
    POST + ALL_OF_IT + b"Transfer-Encoding : chunked\r\n" + AFTER_THE_END,
    POST + ALL_OF_IT + b"Transfer-Encoding:\tchunked\r\n" + AFTER_THE_END,
    POST + ALL_OF_IT + b"Transfer-Encoding:\r\n chunked\r\n" + AFTER_THE_END,
    POST + ALL_OF_IT + b"Transfer-Encoding: \x0bchunked\r\n" + AFTER_THE_END,
    POST + ALL_OF_IT + b"Transfer_Encoding: chunked\r\n" + AFTER_THE_END,
    POST + ALL_OF_IT + b"X: y\rTransfer-Encoding: chunked\r\n" + AFTER_THE_END,
    POST + ALL_OF_IT + b"X: y\nTransfer-Encoding: chunked\n" + AFTER_THE_END,
    POST + CHUNKED + CHUNKED + AFTER_THE_END,
    POST + CHUNKED + b"Transfer-Encoding: identity\r\n" + AFTER_THE_END,
    POST + b"Transfer-Encoding: chunked, identity\r\n" + AFTER_THE_END,
    POST + b"Transfer-Encoding: identity\r\n" + ALL_OF_IT + AFTER_THE_END,
    POST.replace(b"1.1", b"1.0") + CHUNKED + ALL_OF_IT + AFTER_THE_END,
    POST + b"Content-Length: 0\r\n" + ALL_OF_IT + b"\r\n" + HIDDEN,
    POST + ALL_OF_IT + b"Content-Length: 0\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: 0, {LENGTH}\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: +{LENGTH}\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: 0x0\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: -1\r\n\r\n" + HIDDEN,
    POST + b"Content-Length : {LENGTH}\r\n\r\n" + HIDDEN,
    POST + b"Content-Length:\r\n {LENGTH}\r\n\r\n" + HIDDEN,
    POST + b"Connection: Content-Length\r\n" + ALL_OF_IT + b"\r\n" + HIDDEN,
    POST + b"Connection: Transfer-Encoding\r\n" + CHUNKED + b"\r\n{HEX}\r\n" + HIDDEN + b"\r\n0\r\n\r\n",
    POST + CHUNKED + b"\r\n0x0\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n-0\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n0;a=\n\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n0\n\n" + HIDDEN,
    POST + CHUNKED + b"\r\n1\r\nxx\r\n0\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n10000000000000000\r\n\r\n0\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n0\r\nContent-Length: {LENGTH}\r\n\r\n" + HIDDEN,
    GET + ALL_OF_IT + b"\r\n" + HIDDEN,
    GET + CHUNKED + b"\r\n{HEX}\r\n" + HIDDEN + b"\r\n0\r\n\r\n",
    GET + ALL_OF_IT + b"Expect: 100-continue\r\n\r\n" + HIDDEN,
    GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + HIDDEN,
    GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + ALL_OF_IT + b"\r\n" + HIDDEN,
    GET.replace(b" HTTP/1.1", b"\tHTTP/1.1") + b"\r\n" + HIDDEN,
    GET.replace(b"x HTTP", b"x HTTP/1.1\rHost: y\r\n\r\n HTTP") + b"\r\n" + HIDDEN,
    b"\r\n" + GET + b"X: a\0b\r\n\r\n" + HIDDEN,
]


def test_there_are_forty_of_them() -> None:
    assert len(set(DISPUTED)) == len(DISPUTED) >= 40


@pytest.mark.parametrize("number", range(len(DISPUTED)))
def test_what_was_carried_out_was_asked_and_answered_in_turn(
    proxy: Proxy, vendor: SecureClient, number: int
) -> None:
    hidden_key, other_key = vendor.license(), vendor.license()
    answer = exchange(proxy, disputed(DISPUTED[number], hidden_key))
    assert answer.count(b"HTTP/1.1 ") <= 3, "more answers than requests, whoever counts them"
    # What was left over on a connection to the server would begin the next call of somebody else.
    for _ in range(5):
        with SecureClient(proxy) as program:
            assert program.validate(other_key).data["licenseKey"] == other_key
    taken = int(vendor.validate(hidden_key).data["timesActivated"])
    assert taken == answer.count(b'"timesActivated":1,')


def disputed(template: bytes, key: str) -> bytes:
    head = f"GET {V2}{core('activate', key)} HTTP/1.1\r\nHost: localhost\r\nConnection: close"
    hidden = head.encode() + b"\r\n\r\n"
    filled = template.replace(HIDDEN, hidden).replace(b"{HEX}", b"%x" % len(hidden))
    body = filled.partition(b"\r\n\r\n")[2]
    return filled.replace(LENGTH, b"%d" % len(body)) + THE_LAST


def exchange(proxy: Proxy, request: bytes) -> bytes:
    """Everything that comes back until the proxy hangs up, or waits for more itself."""
    received = b""
    with proxy.connect() as connection:
        connection.sendall(request)
        connection.settimeout(2)
        try:
            while piece := connection.recv(65536):
                received += piece
        except (TimeoutError, ConnectionError):
            pass
    return received
