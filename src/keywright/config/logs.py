"""Configure logging: structlog's formats, one line for each event; console format for people, JSON for
machines.

Nothing that is logged may have a full license key, token or secret: callers pass masked ones.
"""

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO

import msgspec
import structlog

from keywright.config.settings import Settings

_encode = msgspec.json.Encoder(enc_hook=str).encode


def uses_json(settings: Settings, *, is_terminal: bool) -> bool:
    """Tell whether the log is in JSON; by default, when it does not go to a terminal."""
    return settings.log_format == "json" or (settings.log_format == "auto" and not is_terminal)


def configure(*, level: str, is_json: bool, stream: TextIO = sys.stderr) -> None:
    """Write everything at ``level`` (a name such as ``info``) and above to ``stream``.

    The standard library's loggers, uvicorn's among them, use the same format.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    lossy: Any = LossyStream(stream)
    handler = logging.StreamHandler(lossy)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.ExtraAdder(),
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                build_renderer(is_json=is_json),
            ],
        )
    )
    logging.basicConfig(level=number, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    # Those of calls to others would have the addresses that were asked, with what these say of customers.
    for name in ("alembic", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


class LossyStream:
    """A stream that drops what it cannot write: a full disk, or a reader that is gone, must not stop the
    server.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write the text, if that is possible."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream, if that is possible."""
        with suppress(OSError):
            self._stream.flush()


def build_renderer(*, is_json: bool) -> structlog.types.Processor:
    """The last processor: it makes the line."""
    if is_json:
        return structlog.processors.JSONRenderer(serializer=_to_json)
    # The plain formatter: the others show the values of variables.
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )


def _to_json(entry: Any, **_: Any) -> str:
    return _encode(entry).decode()
