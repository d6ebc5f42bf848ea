"""Logs: one line for each entry, formatted by structlog; a console format for people, JSON for machines.

No entry may hold a full license key, token or secret: callers pass masks.
"""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock
from time import time_ns
from typing import Any, TextIO

import msgspec
import structlog

_encode = msgspec.json.Encoder(enc_hook=str).encode


def configure(*, level: str, is_json: bool, stream: TextIO = sys.stderr) -> None:
    """Send everything at ``level`` (a name such as ``info``) and above to ``stream``.

    Entries of the standard library's loggers, uvicorn's among them, get the same format.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    lossy: Any = _LossyStream(stream)
    _requests.write = _request_writer(lossy, is_json=is_json) if number <= logging.INFO else None
    handler = logging.StreamHandler(lossy)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.processors.add_log_level, _Clock()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _renderer(is_json=is_json),
            ],
        )
    )
    logging.basicConfig(level=number, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def log_request(**entry: Any) -> None:
    """Log a request at level ``info``. A logger would take three times as long: 5 % of a request's time."""
    if _requests.write is not None:
        _requests.write(entry)


class _Requests:
    """The function that logs requests; None before ``configure``, and below level ``info``."""

    write: Callable[[dict[str, Any]], None] | None = None


_requests = _Requests()


def _request_writer(stream: TextIO, *, is_json: bool) -> Callable[[dict[str, Any]], None]:
    render, add_time, lock = _renderer(is_json=is_json), _Clock(), Lock()

    def write(entry: dict[str, Any]) -> None:
        entry["event"], entry["level"] = "request", "info"
        line = str(render(None, "info", add_time(None, "info", entry)))
        with lock:
            stream.write(f"{line}\n")
            stream.flush()

    return write


class _LossyStream:
    """A stream that drops what it cannot write: a full disk, or a closed pipe, must not fail a request."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


class _Clock:
    """Adds the time in UTC, in the format of structlog's ``TimeStamper``, and formats each second once."""

    def __init__(self) -> None:
        self._second = (0, "")

    def __call__(
        self, _logger: Any, _method: str, entry: structlog.types.EventDict
    ) -> structlog.types.EventDict:
        now = time_ns() // 1000
        second, text = self._second
        if now // 1_000_000 != second:
            second = now // 1_000_000
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = (second, text)
        entry["timestamp"] = f"{text}.{now % 1_000_000:06d}Z"
        return entry


def _renderer(*, is_json: bool) -> structlog.types.Processor:
    if is_json:
        return structlog.processors.JSONRenderer(serializer=_to_json)
    # The plain formatter: the others show the values of variables.
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )


def _to_json(entry: Any, **_: Any) -> str:
    return _encode(entry).decode()
