"""A relay between a program and its server that alters requests and returns the signed responses.

It has no signing key. It keeps the program's nonce in the request, so that the response contains it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

_FORM = "application/x-www-form-urlencoded"


class Request(NamedTuple):
    """A program's call: the path below /v3/, body and headers."""

    operation: str
    body: bytes
    headers: dict[str, str]

    def with_members(self, **members: Any) -> "Request":
        """The same request with other members in its body."""
        return self._replace(body=json.dumps(json.loads(self.body) | members).encode())

    def with_headers(self, **headers: str) -> "Request":
        """The same request with other headers."""
        return self._replace(headers=self.headers | headers)


Alter = Callable[[Request], Request]


def alterations(other_key: str, other_token: str) -> dict[str, Alter]:
    """The alterations of requests, by name. ``other_key`` is a valid license key of the same product,
    ``other_token`` the token of an API key for another product.
    """
    return {
        "unaltered": lambda request: request,
        "an unknown license key": lambda request: request.with_members(license_key="NO-SUCH-LICENSE-KEY"),
        "another license key": lambda request: request.with_members(license_key=other_key),
        "another device": lambda request: request.with_members(fingerprint="a-device-without-a-place"),
        "no device": lambda request: request.with_members(fingerprint=None),
        "an entitlement": lambda request: request.with_members(entitlements=["never-sold"]),
        "another product": lambda request: request.with_members(product="viewer"),
        "another operation": _as_another_operation,
        "as a form": _as_form,
        "an API key of another product": lambda request: request.with_headers(
            Authorization=f"Bearer {other_token}"
        ),
        "a wrong API key": lambda request: request.with_headers(Authorization="Bearer kw_wrong"),
        "without a signature": lambda request: request.with_members(
            license_key="NO-SUCH-LICENSE-KEY"
        ).with_headers(Accept="application/json"),
    }


def _as_another_operation(request: Request) -> Request:
    return request._replace(operation="activate" if request.operation == "validate" else "validate")


def _as_form(request: Request) -> Request:
    members = json.loads(request.body) | {"license_key": "NO-SUCH-LICENSE-KEY"}
    form = urlencode({name: value for name, value in members.items() if value is not None})
    return request.with_headers(**{"Content-Type": _FORM})._replace(body=form.encode())


class Relay(ThreadingHTTPServer):
    """The relay. The first segment of a path selects the alteration, see ``url_of``. ``handed`` has, by
    alteration, the status and content type of each response that was returned.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, server_url: str, alter: dict[str, Alter]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_address_asked = urlsplit(server_url).netloc
        self.names, self.alter = list(alter), alter
        self.handed: dict[str, list[tuple[int, str]]] = {name: [] for name in alter}

    def url_of(self, name: str) -> str:
        """The URL that selects this alteration."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.names.index(name)}"

    def signed(self, name: str) -> int:
        """The number of signed responses to requests with this alteration."""
        return sum(kind.startswith("application/jwt") for _, kind in self.handed[name])


class _Handler(BaseHTTPRequestHandler):
    server: Relay
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        number, _v3, operation = self.path[1:].split("/", 2)
        name = self.server.names[int(number)]
        headers = {word.title(): value for word, value in self.headers.items()}
        for hop in ("Host", "Connection", "Content-Length", "Accept-Encoding"):
            headers.pop(hop, None)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(operation, body, headers)
        if self.command == "POST":
            request = self.server.alter[name](request)
        status, kind, answer = self._ask(request)
        self.server.handed[name].append((status, kind))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST

    def _ask(self, request: Request) -> tuple[int, str, bytes]:
        connection = HTTPConnection(self.server.server_address_asked, timeout=60)
        try:
            connection.request(self.command, f"/v3/{request.operation}", request.body, request.headers)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Content-Type", ""), answer.read()
        finally:
            connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def relay(server_url: str, alter: dict[str, Alter]) -> Iterator[Relay]:
    """Run a relay to the server during the block."""
    with Relay(server_url, alter) as running:
        thread = Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()
