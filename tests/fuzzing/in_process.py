"""The whole application in this process, on a database that is as new for every input."""

import asyncio
import base64
import logging
import sqlite3
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from starlette.types import Message, Receive, Scope, Send

from keywright.config import Settings
from keywright.config.installation import open_installation
from keywright.http.app import create_app
from keywright.identity.model import Permissions
from keywright.licensing.updates.model import Updates
from keywright.registry import open_executor
from tests.fuzzing.folders import a_folder
from tests.fuzzing.of_requests import close_loop, loop
from tests.makers import (
    NOW,
    IssuedApiKey,
    activate,
    create,
    create_policy,
    create_product,
    deactivate,
    issue_api_key,
)

T = TypeVar("T")
_SETTINGS: dict[str, Any] = {
    "secret": "a secret of tests with 32 letters",
    "unknown_key_limit": 0,
    "bad_credentials_limit": 0,
    "bad_request_limit": 0,
    "license_change_limit": 0,
    "address_change_limit": 0,
    "trial_limit": 0,
    "body_limit": 2000,
    "trusted_proxies": "10.0.0.0/8",
    "allowed_origins": "https://shop.example",
}


class InProcess:
    """The application, and some licenses: KEY-1 has two places, one of them taken, and one record that was
    given up; KEY-2 has no limit and has expired; KEY-3 is disabled. There is generator 1.
    """

    def __init__(self) -> None:
        self._folder = a_folder()
        settings = Settings(data_dir=Path(self._folder.name), **_SETTINGS)
        self._storage = open_installation(settings)
        #: What stands in an input for what nobody can guess.
        self.words = self._fill()
        self._raw = sqlite3.connect(Path(self._folder.name) / "keywright.db", isolation_level=None)
        self._as_new = sqlite3.connect(":memory:")
        self._raw.backup(self._as_new)
        self._version = self._changes()
        self._faults = _Faults()
        self._app = create_app(settings, self._storage)
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._heard: asyncio.Queue[Message] = asyncio.Queue()
        self._state: dict[str, Any] = {}
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": self._state}
        lifespan = self._app(scope, self._said.get, self._heard.put)
        self._lifespan = asyncio.ensure_future(lifespan, loop=loop())
        self._tell("startup")

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._app({**scope, "state": self._state}, receive, send)

    def run(self, call: Coroutine[Any, Any, T], data: bytes) -> T:
        """What the call returns; the log has no fault then, and the database is as new for the next one."""
        try:
            result = loop().run_until_complete(call)
        finally:
            faults = self._faults.taken()
            if self._changes() != self._version:
                self._as_new.backup(self._raw)
                self._version = self._changes()
        assert faults == [], data
        return result

    def filled(self, data: bytes) -> bytes:
        """The input with those words in it."""
        for word, meaning in self.words.items():
            data = data.replace(word, meaning)
        return data

    def close(self) -> None:
        self._tell("shutdown")
        loop().run_until_complete(self._lifespan)
        self._faults.close()
        for connection in (self._raw, self._as_new, self._storage):
            connection.close()
        self._folder.cleanup()

    def _tell(self, what: str) -> None:
        self._said.put_nowait({"type": f"lifespan.{what}"})
        answer = loop().run_until_complete(self._heard.get())
        assert answer["type"] == f"lifespan.{what}.complete", answer

    def _changes(self) -> int:
        """Another number after another connection has changed something."""
        return int(self._raw.execute("PRAGMA data_version").fetchone()[0])

    def _fill(self) -> dict[bytes, bytes]:
        issued = issue_api_key(self._storage, "a test", Permissions.READ_WRITE, NOW)
        client = issue_api_key(self._storage, "a program", Permissions.CLIENT, NOW)
        decide = open_executor(self._storage).execute
        taken, gone, *_ = decide(
            [
                create("KEY-1", 2),
                create("KEY-2", expires_at=NOW),
                create("KEY-3", status=5),
                activate("KEY-1"),
                activate("KEY-1"),
                create_policy(),
            ]
        )[3:]
        token, gone_token = taken.activations[0].token, gone.activations[0].token
        paint = create_product(1, name="Paint", code="paint", updates=Updates.OPEN)
        decide([deactivate(gone_token, "KEY-1"), paint])
        return {
            b"{taken}": token.encode(),
            b"{gone}": gone_token.encode(),
            b"{shop}": _basic(issued),
            b"{client}": _basic(client),
        }


class _Faults(logging.Handler):
    """Hears what Keywright logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._records: list[str] = []
        logging.getLogger("keywright").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(self.format(record))

    def taken(self) -> list[str]:
        records, self._records = self._records, []
        return records

    def close(self) -> None:
        logging.getLogger("keywright").removeHandler(self)
        super().close()


def _basic(issued: IssuedApiKey) -> bytes:
    return b"Basic " + base64.b64encode(f"{issued.consumer_key}:{issued.consumer_secret}".encode())


@cache
def in_process() -> InProcess:
    """The one of this process; ``close_in_process`` ends it."""
    return InProcess()


def close_in_process() -> None:
    """End it, if it was ever needed, and the event loop."""
    if in_process.cache_info().currsize:
        in_process().close()
        in_process.cache_clear()
    if loop.cache_info().currsize:
        close_loop()
