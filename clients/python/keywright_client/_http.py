"""Calls over HTTP, with the standard library alone."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from time import sleep
from typing import Any

from ._deadline import left
from .errors import KeywrightError, Refused, Unreachable

#: More than any answer has, in bytes.
_MAX_ANSWER = 2**20
#: In seconds; a server that asks for more patience gets it from the caller.
_MAX_WAIT = 20.0
#: Debian and Alpine, Fedora, SUSE, macOS and BSD.
_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_TO_BE_RETRIED = frozenset({408, 425, 429})


class Server:
    """A Keywright server. Proxies come from the environment; ``ca_file`` holds a CA bundle of one's own."""

    def __init__(self, url: str, ca_file: str | None, user_agent: str) -> None:
        self._url, self._ca_file, self._user_agent = url.rstrip("/"), ca_file, user_agent

    def call(self, path: str, content: bytes | None, accept: str, attempts: int = 3) -> str:
        """The text of a good answer: of POST with this JSON, or of GET. One Idempotency-Key for all attempts.

        Raises Refused for a problem that the server names, and Unreachable for all else; within the deadline.
        """
        headers = {"Accept": accept, "User-Agent": self._user_agent}
        if content is not None:
            headers.update({"Content-Type": "application/json", "Idempotency-Key": os.urandom(16).hex()})
        for attempt in range(1, attempts + 1):
            try:
                return self._try(path, content, headers)
            except Unreachable as error:
                # Spread, so that programs which lost a server together do not come back together.
                wait = max(error.retry_after, 2.0**attempt * (0.25 + os.urandom(1)[0] / 512))
                if attempt == attempts or wait > min(_MAX_WAIT, left()):
                    raise
                sleep(wait)
        raise AssertionError("never")

    def _try(self, path: str, content: bytes | None, headers: dict[str, str]) -> str:
        """One attempt, in a thread: nothing else ends the look-up of a name, or a header that never ends."""
        import threading

        found: list[str | KeywrightError] = []
        line, seconds = _Line(self._ca_file), left()

        def attempt() -> None:
            try:
                found.append(_exchange(self._url + path, content, headers, seconds, line))
            except KeywrightError as error:
                found.append(error)
            except Exception as error:
                unreachable = Unreachable("The license server cannot be reached.", "unreachable")
                # For developers: customers are shown the sentence alone.
                unreachable.__cause__ = error
                found.append(unreachable)

        # Where no thread can be started, there is no answer.
        with suppress(RuntimeError):
            thread = threading.Thread(target=attempt, name="keywright-call", daemon=True)
            thread.start()
            thread.join(seconds)
        late = Unreachable("The license server did not answer in time.", "unreachable")
        answer = found[0] if found else late
        line.cut()
        if isinstance(answer, KeywrightError):
            raise answer
        return answer


class _Line:
    """The connections of an attempt. Once they are cut, its thread ends, whatever it reads."""

    def __init__(self, ca_file: str | None) -> None:
        self.ca_file = ca_file
        self._sockets: list[Any] = []
        self._is_cut = False

    def connect(self, *arguments: Any, **options: Any) -> Any:
        """As ``socket.create_connection``."""
        from socket import create_connection

        sock = create_connection(*arguments, **options)
        # The same connection, whatever becomes of its socket.
        self._sockets.append(sock.dup())
        if self._is_cut:
            self.cut()
        return sock

    def cut(self) -> None:
        self._is_cut = True
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(2)
            sock.close()


def _exchange(url: str, content: bytes | None, headers: dict[str, str], seconds: float, line: _Line) -> str:
    from urllib.error import HTTPError
    from urllib.request import Request

    try:
        request = Request(url, content, headers)  # noqa: S310
        with _build_opener(line).open(request, timeout=seconds) as answer:
            return _read(answer).decode(errors="replace")
    except HTTPError as error:
        with error:
            raise _to_error(error) from None


def _build_opener(line: _Line) -> Any:
    """Not urllib's own: a license key follows no redirect, and goes to no other scheme than HTTP's."""
    import ssl
    from http.client import HTTPConnection, HTTPSConnection
    from urllib import request as urllib

    def watched(kind: Any) -> Any:
        def make(*arguments: Any, **options: Any) -> Any:
            connection = kind(*arguments, **options)
            connection._create_connection = line.connect
            return connection

        return make

    class Handler(urllib.HTTPHandler):
        https_request = urllib.HTTPHandler.http_request

        def http_open(self, request: Any) -> Any:
            return self.do_open(watched(HTTPConnection), request)

        def https_open(self, request: Any) -> Any:
            context = ssl.create_default_context(cafile=line.ca_file or _find_ca_file(ssl))
            return self.do_open(watched(HTTPSConnection), request, context=context)

    opener = urllib.OpenerDirector()
    errors = (urllib.HTTPDefaultErrorHandler, urllib.HTTPErrorProcessor, urllib.UnknownHandler)
    for kind in (urllib.ProxyHandler, Handler, *errors):
        opener.add_handler(kind())
    return opener


def _find_ca_file(ssl: Any) -> str | None:
    """The system's certificates, where the OpenSSL of a frozen program looks for those of another computer.
    None where it finds its own.
    """
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath or os.name == "nt":
        return None
    return next(filter(os.path.exists, _CA_FILES), None)


def _read(answer: Any) -> bytes:
    """The whole body. Raises Unreachable for one that is cut off or too long."""
    body = bytes(answer.read(_MAX_ANSWER + 1))
    if len(body) > _MAX_ANSWER or getattr(answer, "length", None):
        raise Unreachable("The answer of the license server is cut off or too long.", "unreachable")
    return body


def _to_error(error: Any) -> KeywrightError:
    """Only a problem that the server names is a refusal; a proxy's page is an outage."""
    wait = error.headers.get("Retry-After") or ""
    retry_after = float(wait) if wait.isdecimal() else 0.0
    try:
        problem = json.loads(_read(error))
        code, detail = str(problem["code"]), str(problem.get("detail") or problem["code"])
        devices = [one for one in problem.get("devices") or () if isinstance(one, dict)]
    except (OSError, ValueError, RecursionError, TypeError, LookupError, AttributeError, KeywrightError):
        code = detail = ""
    if code and 400 <= error.code < 500 and error.code not in _TO_BE_RETRIED:
        refused = Refused(detail, code, error.code, retry_after)
        refused.devices = devices
        return refused
    answer = f"The license server answers with status {error.code}."
    return Unreachable(answer, code or "unreachable", error.code, retry_after)
