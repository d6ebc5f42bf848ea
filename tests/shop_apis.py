"""The API of a shop as a local HTTP server: it answers from the files in tests/data/shops, or fails."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from keywright.core.errors import ShopRefused
from keywright.provisioning.shops.model import Shop
from tests.shop_events import Recorded, names, recorded

#: The only API key that the stub of each shop takes, and the header that it must come in.
API_KEYS = {
    Shop.STRIPE: "rk_for-tests-only",
    Shop.PADDLE: "pdl_for-tests-only",
    Shop.WOOCOMMERCE: "ck_for-tests:cs_only",
    Shop.LEMONSQUEEZY: "for-tests-only",
}
_AUTHORIZATIONS = {shop: f"Bearer {key}" for shop, key in API_KEYS.items()} | {
    Shop.WOOCOMMERCE: "Basic Y2tfZm9yLXRlc3RzOmNzX29ubHk="
}

#: Where each shop lists its orders, or events.
_LISTS = {
    Shop.STRIPE: "/v1/events",
    Shop.PADDLE: "/events",
    Shop.WOOCOMMERCE: "/wp-json/wc/v3/orders",
    Shop.LEMONSQUEEZY: "/v1/orders",
}


@dataclass(frozen=True)
class Fault:
    """What the API answers instead."""

    status: int = 500
    body: bytes = b"<html><body>Oh dear</body></html>"
    headers: dict[str, str] = field(default_factory=dict)


DOWN = Fault(500)
BUSY = Fault(429, b"{}", {"Retry-After": "7"})
HTML = Fault(200)
REDIRECT = Fault(302, b"", {"Location": "http://198.51.100.1/"})
GIANT = Fault(200, b" " * (5 * 1024**2) + b"{}")


class ShopApiStub:
    """One shop's API. ``fault`` is what it answers while it is set; while ``is_slow``, it answers nothing."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.fault: Fault | None = None
        self.is_slow = False
        #: What was asked, as ``/path?query``.
        self.asked: list[str] = []
        self.released = Event()
        self._answers = [recorded(shop, name) for name in names(shop, answers=True)]
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Answer until ``stop``."""
        self._server.serve_forever(0.05)

    def stop(self) -> None:
        """Let go of those who wait, and stop."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def spoil_an_order(self) -> bytes:
        """Let one order of the list be not as documented; returns what its body has now."""
        path = _LISTS[self.shop]
        page = next(one.contents for one in self._answers if (one.request or "").startswith(f"GET {path}?"))
        order = page[0] if isinstance(page, list) else page["data"][0]
        match self.shop:
            case Shop.WOOCOMMERCE:
                order["line_items"] = "spoiled"
            case Shop.LEMONSQUEEZY:
                order["attributes"]["first_order_item"] = "spoiled"
            case _:
                order["data"] = {"object": "spoiled"}
        return b"spoiled"

    def answer(self, asked: str, authorization: str | None) -> tuple[int, bytes, dict[str, str]]:
        """The status, the body and the headers for a request."""
        self.asked.append(asked)
        if self.is_slow:
            self.released.wait(60)
        if self.fault is not None:
            return self.fault.status, self.fault.body, self.fault.headers
        if authorization != _AUTHORIZATIONS[self.shop]:
            return 401, b'{"error": "this key may not"}', {}
        found = [one for one in self._answers if _fits(one, asked)]
        if not found:
            return 404, b'{"error": "there is no such thing"}', {}
        best = max(found, key=lambda one: len(one.request or ""))
        return 200, json.dumps(best.contents).encode(), dict(best.answer_headers)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, headers = stub.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

        return Handler


@contextmanager
def running_api(shop: Shop) -> Iterator[ShopApiStub]:
    """The API of this shop, until the end of the block."""
    stub = ShopApiStub(shop)
    thread = Thread(target=stub.serve, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.stop()
        thread.join()


def _fits(answer: Recorded, asked: str) -> bool:
    """Whether the answer's request has the path that was asked, and nothing in its query that was not."""
    wanted, given = urlsplit((answer.request or "").removeprefix("GET ")), urlsplit(asked)
    return wanted.path == given.path and set(parse_qsl(wanted.query)) <= set(parse_qsl(given.query))


class RecordedApi:
    """The same API without HTTP: a ``ShopApi`` that answers from the files."""

    def __init__(self, shop: Shop) -> None:
        self._answers = [recorded(shop, name) for name in names(shop, answers=True)]

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Any:
        """See ``ShopApi``."""
        asked = f"{path}?{urlencode(parameters or {})}"
        found = [one for one in self._answers if _fits(one, asked)]
        if not found:
            raise ShopRefused(f"404 for {path}")
        return max(found, key=lambda one: len(one.request or "")).contents
