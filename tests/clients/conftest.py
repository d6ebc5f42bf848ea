"""A program with its license, for tests of the Python client."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clients.vectors.pieces import NOW
from keywright_client import Keywright, _http
from tests.clients.signing_server import KEY, SigningServer, closed_address, signing_server


@dataclass
class Time:
    """The server's time, and the clock of the program's computer, which may be wrong."""

    now: float = NOW
    is_off_by: float = 0

    def local(self) -> float:
        return self.now + self.is_off_by


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def server(time: Time) -> Iterator[SigningServer]:
    with signing_server(lambda: time.now) as running:
        yield running


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYWRIGHT_FINGERPRINT", "the-first-device")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client waits before it asks again; it does not in fact."""
    waited: list[float] = []
    monkeypatch.setattr(_http, "sleep", waited.append)
    return waited


@dataclass
class Program:
    """A program that is started again for each call, as one with this folder."""

    server: SigningServer
    time: Time
    folder: Path

    def start(self, *, is_online: bool = True, **options: Any) -> Keywright:
        url = options.pop("url", self.server.url if is_online else closed_address())
        given = {
            "product": "editor",
            "public_keys": [KEY.x],
            "folder": self.folder,
            "clock": self.time.local,
            "named_by": "environment",
        }
        return Keywright(url, **{**given, **options})


@pytest.fixture
def program(server: SigningServer, time: Time, tmp_path: Path) -> Program:
    return Program(server, time, tmp_path / "kept")
