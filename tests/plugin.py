"""A server that answers as *License Manager for WooCommerce* 3.0.9 does, with its faults, one at a time."""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Semaphore, Thread
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

CREDENTIALS = ("ck_" + "1" * 40, "cs_" + "2" * 40)
_ROOT = "/wp-json/lmfwc/v2/"
_NOT_FOUND = "License Key: {} could not be found."


class Plugin(ThreadingHTTPServer):
    """The server of a shop. ``fault`` is what is wrong with its answers: a name in ``_FAULTS``, or None."""

    daemon_threads = True

    def __init__(self, licenses: list[dict[str, Any]], generators: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.licenses, self.generators = licenses, generators
        self.fault: str | None = None
        #: How many answers have the fault before it ends; None is all.
        self.faults_left: int | None = None
        #: Whether it knows pages, as Keywright does; the plugin does not.
        self.has_pages = False
        #: Whether its settings let generators be read.
        self.has_generators = True
        #: The requests that came, as paths with queries.
        self.requests: list[str] = []
        self.lock = Lock()
        #: While it is clear, answers wait; ``arrived`` counts the requests that do.
        self.may_answer = Event()
        self.may_answer.set()
        self.arrived = Semaphore(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take_fault(self) -> str | None:
        """The fault of this answer."""
        with self.lock:
            if self.faults_left == 0:
                return None
            if self.fault is not None and self.faults_left is not None:
                self.faults_left -= 1
            return self.fault

    def secure(self, certificate: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        self.socket = certificate.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error."""


@contextmanager
def plugin(
    licenses: list[dict[str, Any]], generators: list[dict[str, Any]] | None = None
) -> Iterator[Plugin]:
    """The server, for as long as the block runs."""
    with Plugin(licenses, generators or []) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Plugin

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        shop = self.server
        with shop.lock:
            shop.requests.append(self.path)
        shop.arrived.release()
        shop.may_answer.wait()
        fault = shop.take_fault()
        if fault is not None:
            _FAULTS[fault](self)
        elif self.headers.get("Authorization") != _basic(*CREDENTIALS):
            self.fail(401, "lmfwc_rest_authentication_error", "Consumer secret is invalid.")
        else:
            self._answer(urlsplit(self.path))

    def _answer(self, target: Any) -> None:
        words = target.path.removeprefix(_ROOT).split("/")
        shop = self.server
        if words == ["licenses"]:
            self._list({name: int(value[0]) for name, value in parse_qs(target.query).items()})
        elif words == ["generators"] and shop.has_generators:
            self._send_list(shop.generators, "No Generators available")
        elif words[0] == "licenses" and len(words) == 2:
            key = unquote(words[1])
            found = [one for one in shop.licenses if one["licenseKey"] == key]
            if found:
                self.send(200, {"success": True, "data": found[0]})
            else:
                self.fail(404, "lmfwc_rest_data_error", _NOT_FOUND.format(key))
        else:
            self.fail(404, "rest_no_route", "No route was found matching the URL and request method.")

    def _list(self, query: dict[str, int]) -> None:
        many = self.server.licenses
        if not self.server.has_pages:
            self._send_list(many, "No License Keys available")
            return
        start = (query["page"] - 1) * query["per_page"]
        pages = -(-len(many) // query["per_page"])
        page = many[start : start + query["per_page"]]
        self.send(200, {"success": True, "data": page}, {"X-WP-TotalPages": str(pages)})

    def _send_list(self, many: list[dict[str, Any]], nothing: str) -> None:
        if many:
            self.send(200, {"success": True, "data": many})
        else:
            self.fail(404, "lmfwc_rest_data_error", nothing)

    def fail(self, status: int, code: str, message: str) -> None:
        self.send(status, {"code": code, "message": message, "data": {"status": status}})

    def send(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        # PHP writes slashes and other letters so.
        self.send_text(status, json.dumps(answer).replace("/", "\\/"), headers)

    def send_text(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def errors_inside(self) -> None:
        code = "lmfwc_rest_data_error"
        inside = {"errors": {code: ["The list is broken."]}, "error_data": {code: {"status": 404}}}
        self.send(200, {"success": True, "data": inside})

    def broken_off(self) -> None:
        self.send_text(200, '{"success":true,"data":[{"id":1,"licenseKey":"CUT')

    def drip(self) -> None:
        """An answer that comes byte by byte and never ends."""
        self.send_response(200)
        self.end_headers()
        gone = Event()
        try:
            while not gone.wait(0.02):
                self.wfile.write(b" ")
        except OSError:
            return


_FAULTS: dict[str, Any] = {
    "500": lambda one: one.send(500, {"code": "internal_server_error", "message": "x", "data": {}}),
    "html": lambda one: one.send_text(200, "<!DOCTYPE html><title>Just a moment...</title>"),
    "warning": lambda one: one.send_text(200, '<br /><b>Warning</b>: x {"success":true,"data":[]}'),
    "errors inside": _Handler.errors_inside,
    "broken off": _Handler.broken_off,
    "drip": _Handler.drip,
    "redirect": lambda one: one.send_text(301, "", {"Location": f"https://www.shop.example{one.path}"}),
    "no route": lambda one: one.fail(404, "rest_no_route", "No route was found."),
}


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def expected(path: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The licenses and generators that a real plugin answered."""
    answers = json.loads(path.read_text(encoding="utf-8"))
    return cast("list[dict[str, Any]]", answers["licenses"]), answers["generators"]
