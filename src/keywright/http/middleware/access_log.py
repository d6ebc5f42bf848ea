"""The access log: a line for every request, or only for failed and slow ones.

It writes directly, because a logger would take three times as long, or a twentieth of a request. No line
contains a full license key, token or secret.
"""

import asyncio
import logging
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock
from time import perf_counter, time_ns
from typing import Any

import msgspec
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keywright.config.logs import render_for_people
from keywright.core import crypto
from keywright.core.errors import FateUnknown
from keywright.http.answer import COMMON_HEADERS, JSON, Answer, ErrorWriter
from keywright.http.middleware.call import Call

#: Calls that take longer, in seconds, are slow, except those that were asked to wait for events.
_SLOW = 1.0
_ASKED_TO_WAIT = b"wait_seconds="
#: How many lines may be written in a burst, and per second, unless all requests are logged: in an outage,
#: every request fails.
_BURST, _PER_SECOND = 20.0, 1.0
#: Version, trace ID, parent ID, flags, and fields of later versions.
_TRACE = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.{0,200})?"
)

log = logging.getLogger(__name__)


class AccessLog:
    """Writes to standard error: status 5xx at the level ``warning``, everything else at ``info``. Lines that
    cannot be written are dropped.
    """

    def __init__(self, *, is_json: bool, calls: str) -> None:
        """``calls`` is the setting ``log_calls``. Logging must be configured first."""
        # A binary stream: writing text would take 50 % longer.
        self._stream = sys.stderr.buffer
        self._render = _build_renderer(is_json=is_json)
        self._lock = Lock()
        has_info = log.isEnabledFor(logging.INFO)
        self._is_on = calls != "off" and log.isEnabledFor(logging.WARNING)
        self._has_all = calls == "all" and has_info
        #: The lowest status that is logged for any caller.
        self._lowest = 0 if has_info else 500
        #: The lines that may still be written, the ``perf_counter`` time of that count, and the number of
        #: lines omitted since the last one.
        self._room, self._room_at, self._omitted = _BURST, perf_counter(), 0
        #: The last second that was logged, and its cached text.
        self._second = (0, "")

    def log_call(self, call: Call, answer: Answer, started: float) -> None:
        """Log a call of an interface that arrived at ``started``, by ``perf_counter``."""
        lowest_error = 400 if call.has_secret_key else 500
        if self._is_on and (self._has_all or self._is_due(call.scope, answer.status, started, lowest_error)):
            self._write(
                method=call.method,
                route=call.operation or "none",
                status=answer.status,
                duration_ms=_milliseconds_since(started),
                address=call.client_address,
                caller=call.actor,
                license_id=answer.license_id,
                key=crypto.mask(call.key) if call.key else None,
                **_trace_of(call.scope),
            )

    def log_page(self, scope: Scope, status: int, started: float) -> None:
        """Log any other request by its route, not its path, which may contain a license key."""
        if self._is_on and (self._has_all or self._is_due(scope, status, started, 500)):
            route = scope.get("route")
            self._write(
                method=scope["method"],
                route=f"{scope.get('root_path', '')}{route.path}" if isinstance(route, Route) else "none",
                status=status,
                duration_ms=_milliseconds_since(started),
                **_trace_of(scope),
            )

    def _is_due(self, scope: Scope, status: int, started: float, lowest_error: int) -> bool:
        """Whether the request failed or was slow, and the rate of lines allows one more."""
        now = perf_counter()
        is_slow = now - started > _SLOW and _ASKED_TO_WAIT not in scope["query_string"]
        if status < self._lowest or (status < lowest_error and not is_slow):
            return False
        self._room = min(_BURST, self._room + (now - self._room_at) * _PER_SECOND)
        self._room_at = now
        if self._room < 1:
            self._omitted += 1
            return False
        self._room -= 1
        return True

    def _write(self, **entry: Any) -> None:
        if self._omitted:
            entry["omitted"], self._omitted = self._omitted, 0
        level = "warning" if entry["status"] >= 500 else "info"
        entry["event"], entry["level"], entry["timestamp"] = "request", level, self._read_clock()
        line = self._render(entry) + b"\n"
        with self._lock, suppress(OSError):
            self._stream.write(line)
            self._stream.flush()

    def _read_clock(self) -> str:
        """The time in UTC, in the format of the other log lines."""
        seconds, microseconds = divmod(time_ns() // 1000, 1_000_000)
        if seconds != self._second[0]:
            text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = (seconds, text)
        return f"{self._second[1]}.{microseconds:06d}Z"


def _build_renderer(*, is_json: bool) -> Callable[[dict[str, Any]], bytes]:
    if is_json:
        return msgspec.json.Encoder().encode
    return lambda entry: render_for_people(entry).encode()


def _trace_of(scope: Scope) -> dict[str, str]:
    """The trace ID and parent ID of the request, from one well-formed ``traceparent`` header
    (https://www.w3.org/TR/trace-context/); empty otherwise.
    """
    given = [value for name, value in scope["headers"] if name == b"traceparent"]
    found = _TRACE.fullmatch(given[0]) if len(given) == 1 else None
    if found is None or (found[1] == b"00" and found[4]):
        return {}
    return {"trace_id": found[2].decode(), "parent_id": found[3].decode()}


def _milliseconds_since(started: float) -> float:
    return round((perf_counter() - started) * 1000, 3)


class LoggedApp:
    """Adds the common headers to an application's answers, and logs its requests."""

    def __init__(self, app: ASGIApp, access_log: AccessLog, write_error: ErrorWriter) -> None:
        self._app = app
        self._access_log = access_log
        self._write_error = write_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = perf_counter()
        status, has_started = 500, False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, has_started
            if message["type"] == "http.response.start":
                status, has_started = message["status"], True
                message["headers"] = _add_common_headers(message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            # The server is stopping and no longer waits.
            if has_started:
                raise
            await self._answer_fate_unknown(send_with_headers)
        finally:
            self._access_log.log_page(scope, status, started)

    async def _answer_fate_unknown(self, send: Send) -> None:
        answer = self._write_error(FateUnknown())
        length = (b"content-length", b"%d" % len(answer.body))
        headers = [JSON, length, *answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


def _add_common_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Add the common headers that the application has not set: some static files may be cached."""
    names = {name for name, _ in headers}
    return [*headers, *(header for header in COMMON_HEADERS if header[0] not in names)]
