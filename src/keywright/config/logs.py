"""Configure logging: one line per event, console format for people, JSON for machines.

No log entry may contain a whole license key, token or secret: callers pass masked ones.
"""

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from keywright.config.settings import Settings

_encode = msgspec.json.Encoder(enc_hook=str).encode
#: The attributes of every record; all others are fields that the caller added.
_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
#: The widths of columns in the console format: they fit the longest level and most events.
_LEVEL_WIDTH, _EVENT_WIDTH = 9, 30
#: Escape sequences that set the style of the following text (SGR, ECMA-48, 8.3.117).
_PLAIN, _BOLD, _DIM, _CYAN, _MAGENTA, _GREEN, _YELLOW, _RED = (
    f"\x1b[{code}m" for code in (0, 1, 2, 36, 35, "1;32", "1;33", "1;31")
)
_LEVELS = {"debug": _GREEN, "info": _GREEN, "warning": _YELLOW}


def uses_json(settings: Settings, *, is_terminal: bool) -> bool:
    """Return whether the log is JSON; by default, it is unless it goes to a terminal."""
    return settings.log_format == "json" or (settings.log_format == "auto" and not is_terminal)


def configure(*, level: str, is_json: bool, stream: TextIO = sys.stderr) -> None:
    """Write everything at ``level`` (a name such as ``info``) and above to ``stream``.

    The standard library's loggers, uvicorn's among them, use the same format.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    lossy: Any = LossyStream(stream)
    handler = logging.StreamHandler(lossy)
    handler.setFormatter(_LineFormatter(is_json=is_json))
    logging.basicConfig(level=number, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    # The HTTP client would log request URLs, which can contain data of customers.
    for name in ("alembic", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


class LossyStream:
    """A stream that drops what it cannot write: a full disk or a closed pipe must not stop the server."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write the text, or drop it if that fails."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream; ignore errors."""
        with suppress(OSError):
            self._stream.flush()


class _LineFormatter(logging.Formatter):
    def __init__(self, *, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        entry = {"event": record.getMessage()}
        entry |= {name: value for name, value in vars(record).items() if name not in _ATTRIBUTES}
        entry["level"] = record.levelname.lower()
        entry["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return _encode(entry).decode() if self._is_json else render_for_people(entry)


def render_for_people(entry: Mapping[str, Any]) -> str:
    """Format a line for the console, in color if standard error is a terminal."""
    others = dict(entry)
    event, level, time = (str(others.pop(name)) for name in ("event", "level", "timestamp"))
    exception = others.pop("exception", None)
    parts = [
        _paint(time, _DIM),
        f"[{_paint(level.ljust(_LEVEL_WIDTH), _LEVELS.get(level, _RED))}]",
        _paint(event.ljust(_EVENT_WIDTH), _BOLD),
        *(f"{_paint(name, _CYAN)}={_paint(_quote(others[name]), _MAGENTA)}" for name in sorted(others)),
    ]
    line = " ".join(parts).rstrip()
    return line if exception is None else f"{line}\n{exception}"


def _paint(text: str, style: str) -> str:
    return f"{style}{text}{_PLAIN}" if sys.stderr.isatty() else text


def _quote(value: object) -> str:
    """Format a value: a word as it is, anything else in quotes."""
    is_word = isinstance(value, str) and value.isprintable() and not set(value) & set(" =\"'")
    return str(value) if is_word else repr(value)
