"""Keywright with a fault: it keeps something of each of many requests for ever."""

import sys

from starlette.types import Receive, Scope, Send

from keywright.cli import main
from keywright.http.middleware.pipeline import Pipeline

# Little of each, so that the most is not reached before the first look on a fast machine either.
_KEPT_BYTES, _MOST_KEPT = 256 << 10, 4_000


def add_leak() -> None:
    """Have every request leave something behind."""
    hoard: list[bytes] = []
    answer = Pipeline.__call__

    async def answer_and_keep(pipeline: Pipeline, scope: Scope, receive: Receive, send: Send) -> None:
        if len(hoard) < _MOST_KEPT:
            hoard.append(b"x" * _KEPT_BYTES)
        await answer(pipeline, scope, receive, send)

    Pipeline.__call__ = answer_and_keep  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    add_leak()
    main(sys.argv[1:])
