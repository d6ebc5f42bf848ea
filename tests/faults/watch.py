"""Somebody who looks all the time whether a server is alive and ready."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import NamedTuple

from tests.http.asking import Client
from tests.server import RunningServer

#: How long it rests between two looks, in seconds.
_INTERVAL = 0.02


class Look(NamedTuple):
    """What a page answered, 0 for nothing; moments are those of ``time.monotonic``."""

    status: int
    started_at: float
    ended_at: float


class Watch:
    """Looks at ``/healthz`` and ``/readyz``, each from a thread of its own."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._is_over = threading.Event()
        self.looks: dict[str, list[Look]] = {"/healthz": [], "/readyz": []}
        self._threads = [threading.Thread(target=self._watch, args=[page]) for page in self.looks]
        for thread in self._threads:
            thread.start()

    def statuses(self, page: str, *, since: float = 0.0) -> list[int]:
        """What the page answered, asked after that moment, in order."""
        return [look.status for look in list(self.looks[page]) if look.started_at > since]

    def longest(self, page: str) -> float:
        """How long the slowest answer took, in seconds."""
        return max(look.ended_at - look.started_at for look in list(self.looks[page]))

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _watch(self, page: str) -> None:
        with Client(self._server) as client:
            while not self._is_over.wait(_INTERVAL):
                started_at = time.monotonic()
                try:
                    status = client.get(page).status
                except (OSError, HTTPException):
                    status = 0
                self.looks[page].append(Look(status, started_at, time.monotonic()))


@contextmanager
def watch_server(server: RunningServer) -> Iterator[Watch]:
    """Somebody watches until the block ends."""
    watch = Watch(server)
    try:
        yield watch
    finally:
        watch.end()
