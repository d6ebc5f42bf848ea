"""Which requests are logged, and the limit of log lines."""

import json
import logging
import sys
from collections.abc import Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from keywright.http.answer import Answer
from keywright.http.middleware import access_log
from keywright.http.middleware.access_log import AccessLog
from tests.tables import each_row


class Clock:
    """A clock that only a test advances."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Written:
    """An access log, and its lines."""

    def __init__(self, calls: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self._stream = Clock(), BytesIO()
        monkeypatch.setattr(access_log, "perf_counter", self.clock)
        monkeypatch.setattr(sys, "stderr", SimpleNamespace(buffer=self._stream))
        self.log = AccessLog(is_json=True, calls=calls)

    def call(self, status: int, seconds: float, *, has_secret_key: bool = False, query: bytes = b"") -> bool:
        """Log a call; return whether a line was written."""
        before = len(self.lines)
        call: Any = SimpleNamespace(
            scope={"query_string": query, "headers": []},
            method="POST",
            operation="validate",
            client_address="192.0.2.1",
            actor="program",
            key="",
            has_secret_key=has_secret_key,
        )
        self.log.log_call(call, Answer(status, b""), self.clock.now - seconds)
        return len(self.lines) > before

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def at_level_info() -> Iterator[None]:
    logger = logging.getLogger(access_log.__name__)
    before = logger.level
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(before)


def test_calls_that_fail_are_slow_or_are_the_vendors_mistakes_have_a_line_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = Written("errors and slow", monkeypatch)
    wanted = {
        (200, 0.5, False, b""): False,
        (200, 1.5, False, b""): True,
        # The caller asked to wait for an event.
        (200, 30.0, True, b"wait_seconds=30"): False,
        (404, 0.5, False, b""): False,
        (429, 0.5, False, b""): False,
        (404, 0.5, True, b""): True,
        (422, 0.5, True, b""): True,
        (500, 0.5, False, b""): True,
        (503, 0.5, False, b""): True,
    }
    found = {case: written.call(case[0], case[1], has_secret_key=case[2], query=case[3]) for case in wanted}
    assert found == wanted
    assert {line["level"] for line in written.lines if line["status"] >= 500} == {"warning"}


@each_row(
    ("calls", "level", "statuses"),
    [
        ("off", logging.INFO, []),
        ("all", logging.INFO, [200, 404, 503]),
        # With a higher level, faults are still logged.
        *((calls, logging.WARNING, [503]) for calls in ("errors and slow", "all")),
        *((calls, logging.ERROR, []) for calls in ("errors and slow", "all")),
    ],
)
def test_the_setting_and_the_level_say_which_calls_have_a_line(
    calls: str, level: int, statuses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    logging.getLogger(access_log.__name__).setLevel(level)
    written = Written(calls, monkeypatch)
    for status in (200, 404, 503):
        written.call(status, 0.5 if status == 503 else 2.0, has_secret_key=True)
    assert [line["status"] for line in written.lines] == statuses


def test_an_outage_has_a_line_a_second_and_says_how_many_it_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = Written("errors and slow", monkeypatch)
    for _ in range(1_000):
        written.call(503, 0.0)
    assert len(written.lines) == access_log._BURST
    written.clock.now += 1
    written.call(503, 0.0)
    assert written.lines[-1]["omitted"] == 1_000 - access_log._BURST
    written.clock.now += 1
    written.call(503, 0.0)
    assert "omitted" not in written.lines[-1]
    # Nothing is omitted if all calls are to be logged.
    all_of_them = Written("all", monkeypatch)
    for _ in range(1_000):
        all_of_them.call(503, 0.0)
    assert len(all_of_them.lines) == 1_000
