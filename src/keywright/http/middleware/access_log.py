"""Write one line to the log for each request.

A logger would take three times as long, a twentieth of a request. No line has a full license key, token or
secret.
"""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock
from time import perf_counter, time_ns
from typing import Any

import msgspec
from starlette.routing import Route
from starlette.types import Scope

from keywright.config.logs import build_renderer
from keywright.core import crypto
from keywright.http.answer import Answer
from keywright.http.middleware.call import Call

log = logging.getLogger(__name__)


class AccessLog:
    """Writes to standard error, when requests are to be logged: at level ``info`` and below. What cannot be
    written is dropped.
    """

    def __init__(self, *, is_json: bool) -> None:
        """Configure logging first."""
        # Bytes: writing text would take half as long again.
        self._stream = sys.stderr.buffer
        self._render = _build_renderer(is_json=is_json)
        self._lock = Lock()
        self._is_on = log.isEnabledFor(logging.INFO)
        #: The second that was written last, and its text: it is made once.
        self._second = (0, "")

    def log_call(self, call: Call, answer: Answer, started: float) -> None:
        """Log a call of an interface that came at ``started``, by ``perf_counter``."""
        if self._is_on:
            self._write(
                method=call.method,
                route=call.operation or "none",
                status=answer.status,
                duration_ms=_milliseconds_since(started),
                address=call.client_address,
                caller=call.actor,
                license_id=answer.license_id,
                key=crypto.mask(call.key) if call.key else None,
            )

    def log_page(self, scope: Scope, status: int, started: float) -> None:
        """Log another request. Its path is not written unless it is a page's: it may have a license key."""
        if self._is_on:
            route = scope.get("route")
            self._write(
                method=scope["method"],
                route=f"{scope.get('root_path', '')}{route.path}" if isinstance(route, Route) else "none",
                status=status,
                duration_ms=_milliseconds_since(started),
            )

    def _write(self, **entry: Any) -> None:
        entry["event"], entry["level"], entry["timestamp"] = "request", "info", self._read_clock()
        line = self._render(entry) + b"\n"
        with self._lock, suppress(OSError):
            self._stream.write(line)
            self._stream.flush()

    def _read_clock(self) -> str:
        """The time in UTC, as ``structlog.processors.TimeStamper`` writes it."""
        seconds, microseconds = divmod(time_ns() // 1000, 1_000_000)
        if seconds != self._second[0]:
            text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = (seconds, text)
        return f"{self._second[1]}.{microseconds:06d}Z"


def _build_renderer(*, is_json: bool) -> Callable[[dict[str, Any]], bytes]:
    if is_json:
        return msgspec.json.Encoder().encode
    render = build_renderer(is_json=False)
    return lambda entry: str(render(None, "info", entry)).encode()


def _milliseconds_since(started: float) -> float:
    return round((perf_counter() - started) * 1000, 3)
