"""A small server that signs its answers as Keywright does, and can be made to lie."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

from clients.vectors.pieces import DAY, ISSUER, Key, key_hash, question

KEY, NEXT_KEY, STRANGER = Key("server"), Key("next"), Key("stranger")
LICENSE_KEY = "EDTR-7QKX-M2VD-9RTA"
#: The problems that it answers with: status, and what stands beside the code.
_STATUS = {"unknown_license": 404, "unknown_device": 404, "too_many_requests": 429, "busy": 503}


def moment(seconds: float) -> str:
    """RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SigningServer(ThreadingHTTPServer):
    """One license of the product ``editor``. What is set here changes the next answers."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.now, self.lock = now, Lock()
        self.key = KEY
        self.key_sets: list[str] = []
        self.devices: dict[str, str] = {}
        self.max_activations = 2
        self.expires_at: float | None = None
        self.grace_days = 0
        self.entitlements = ["export"]
        #: When to ask again.
        self.next_check_seconds = DAY
        #: Whether an answer is for the build alone that asks.
        self.is_for_build = False
        #: Where not None, the activation that every answer names.
        self.named: dict[str, Any] | None = None
        #: The holder of the lease; while None, the one that asks for it.
        self.holder: str | None = None
        #: Codes of the next validations, before the true ones.
        self.noes: list[str] = []
        #: Problems of the next calls of any kind, before the true answers; with Retry-After.
        self.problems: list[tuple[str, int]] = []
        #: Where not None, what every call is answered with.
        self.always: tuple[int, str, str] | None = None
        #: The hash of the question that is being answered.
        self.asked = ""
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.given: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def calls(self, path: str) -> int:
        """How many requests came to this path."""
        return sum(called == path for called, _, _ in self.requests)

    def sign(self, request: dict[str, Any], code: str = "valid", **more: Any) -> str:
        """The signed answer to a request."""
        now = int(self.now())
        expires_at = None if self.expires_at is None else int(self.expires_at)
        grace_until = None if expires_at is None else expires_at + self.grace_days * DAY
        is_good = code in ("valid", "grace")
        exp = now + 14 * DAY if grace_until is None else min(now + 14 * DAY, grace_until)
        fingerprint = request.get("fingerprint", "")
        device = {"id": 5, "fingerprint": fingerprint} if fingerprint in self.devices else None
        claims = {
            "iss": ISSUER,
            "aud": "editor",
            "sub": "license:17",
            "iat": now,
            "nbf": now - 300,
            "exp": exp if is_good else now + 300,
            "valid": is_good,
            "code": code,
            "codes": [code],
            "license": {
                "id": 17,
                "state": code,
                "expires_at": expires_at and moment(expires_at),
                "grace_until": grace_until and moment(grace_until),
                "key_hash": key_hash(request["license_key"]),
            },
            "activation": self.named or device,
            "entitlements": self.entitlements if is_good else [],
            "nonce": request.get("nonce"),
            "next_check_at": moment(now + self.next_check_seconds),
            "asked": self.asked,
            "built_at": request.get("built_at") if self.is_for_build else None,
            **more,
        }
        answer = self.key.sign(claims)
        self.given.append(answer)
        return answer

    def answer(self, path: str, request: dict[str, Any]) -> str | tuple[str, int]:
        """A text, or the code of a problem and its Retry-After."""
        if self.problems:
            return self.problems.pop(0)
        if path == "/v3/signing-keys":
            return json.dumps({"keys": self.key_sets})
        if path == "/v3/trials":
            return json.dumps({"license": {"key": LICENSE_KEY}})
        if request["license_key"] != LICENSE_KEY:
            return "unknown_license", 0
        return _ANSWERS[path](self, request)

    def validate(self, request: dict[str, Any]) -> str:
        if self.noes:
            return self.sign(request, self.noes.pop(0))
        if request.get("fingerprint") not in self.devices:
            return self.sign(request, "not_activated")
        if self.expires_at is None or self.now() < self.expires_at:
            return self.sign(request)
        is_grace = self.now() < self.expires_at + self.grace_days * DAY
        return self.sign(request, "grace" if is_grace else "expired")

    def activate(self, request: dict[str, Any]) -> str | tuple[str, int]:
        if request.get("replaces") in self.devices:
            del self.devices[request["replaces"]]
        if request["fingerprint"] not in self.devices and len(self.devices) >= self.max_activations:
            return "limit_reached", 0
        self.devices[request["fingerprint"]] = request.get("name") or ""
        return self.sign(request)

    def deactivate(self, request: dict[str, Any]) -> str | tuple[str, int]:
        if self.devices.pop(request["fingerprint"], None) is None:
            return "unknown_device", 0
        return "{}"

    def lease(self, request: dict[str, Any]) -> str:
        holder = self.holder or request["holder"]
        lease = {
            "id": "ab" * 16,
            "holder": holder,
            "expires_at": moment(int(self.now()) + (request.get("seconds") or 600)),
        }
        return self.sign(request, lease=lease)


_ANSWERS: dict[str, Callable[[SigningServer, dict[str, Any]], str | tuple[str, int]]] = {
    "/v3/validate": SigningServer.validate,
    "/v3/activate": SigningServer.activate,
    "/v3/deactivate": SigningServer.deactivate,
    "/v3/leases": SigningServer.lease,
    "/v3/leases/renew": SigningServer.lease,
    "/v3/leases/release": lambda server, request: "{}",
    "/v3/usage": lambda server, request: json.dumps({"meter": request["meter"], "used": request["amount"]}),
}


class _Handler(BaseHTTPRequestHandler):
    server: SigningServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length).decode()
        request = json.loads(body or "{}")
        with self.server.lock:
            self.server.asked = question(self.path.removeprefix("/v3/"), body)
            self.server.requests.append((self.path, request, dict(self.headers)))
            if self.server.always is not None:
                return self._send(*self.server.always)
            found = self.server.answer(self.path, request)
        if isinstance(found, str):
            return self._send(200, "application/json" if found[:1] == "{" else "application/jwt", found)
        code, retry_after = found
        problem = json.dumps({"code": code, "detail": f"It is {code}.", "status": _STATUS.get(code, 409)})
        self._send(_STATUS.get(code, 409), "application/problem+json", problem, retry_after)

    do_POST = do_GET

    def _send(self, status: int, content_type: str, text: str, retry_after: int = 0) -> None:
        body = text.encode()
        self.send_response(status)
        if retry_after:
            self.send_header("Retry-After", str(retry_after))
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def signing_server(now: Callable[[], float]) -> Iterator[SigningServer]:
    """A server that runs meanwhile."""
    with SigningServer(now) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def closed_address() -> str:
    """The address of a server that is away."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"
