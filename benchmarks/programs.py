"""Use an installed keywright of any version, only through its commands and its API."""

import asyncio
import base64
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from benchmarks import servers
from benchmarks.databases import Database
from benchmarks.servers import Server
from tools.attacks.wire import Connection, get, post

_TIMEOUT = 120
_CONNECTIONS = 16
_HOST = "127.0.0.1"
_API_KEY = "apikey create --name=benchmark --permissions=read_write --json"


class Vendor(NamedTuple):
    """An API key with all permissions."""

    consumer_key: str
    consumer_secret: str

    @property
    def credentials(self) -> str:
        """The value of the ``Authorization`` header."""
        both = f"{self.consumer_key}:{self.consumer_secret}".encode()
        return f"Basic {base64.b64encode(both).decode()}"

    @property
    def header(self) -> str:
        """The header that calls send."""
        return f"Authorization: {self.credentials}"


def make(data_dir: Path, database: Database, program: Sequence[str]) -> Vendor:
    """Create an installation with only an API key."""
    database.prepare(data_dir)
    data_dir.mkdir(parents=True, exist_ok=True)
    return read_key(output(program, data_dir, _API_KEY))


def read_key(printed: str) -> Vendor:
    """Parse the API key that the program printed as JSON."""
    issued = msgspec.json.decode(printed)
    return Vendor(issued["consumer_key"], issued["consumer_secret"])


def create(server: Server, vendor: Vendor, licenses: Mapping[str, int | None], activations: int = 0) -> None:
    """Let the server create licenses with these keys and limits, and activate each this many times."""
    asyncio.run(_create(server, vendor, licenses, activations))


def limits(program: Sequence[str], data_dir: Path) -> dict[str, int]:
    """The limits among the program's settings for this installation."""
    settings = msgspec.json.decode(output(program, data_dir, "config --json"))
    return {name: one["value"] for name, one in settings.items() if name.endswith("_limit")}


def output(program: Sequence[str], data_dir: Path, command: str, given: str = "") -> str:
    """Run a command on this installation, and return its output."""
    done = subprocess.run(
        [*program, *command.split(), "--data-dir", str(data_dir)],
        cwd=data_dir,
        env=servers.environment(),
        input=given,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_TIMEOUT,
        check=True,
    )
    return done.stdout


async def _create(
    server: Server, vendor: Vendor, licenses: Mapping[str, int | None], activations: int
) -> None:
    port = urlsplit(server.url).port
    assert port is not None
    waiting = iter(licenses.items())

    async def over_one() -> None:
        async with Connection((_HOST, port), _HOST) as connection:
            for request in _requests(waiting, vendor, activations):
                answer = await connection.ask(request, _TIMEOUT)
                if answer.status != 200:
                    raise RuntimeError(f"a call was answered {answer.status}: {answer.body.decode()}")

    await asyncio.gather(*(over_one() for _ in range(_CONNECTIONS)))


def _requests(waiting: Iterator[tuple[str, int | None]], vendor: Vendor, activations: int) -> Iterator[bytes]:
    for key, limit in waiting:
        body = msgspec.json.encode({"license_key": key, "times_activated_max": limit, "valid_for": 365})
        yield post(servers.LICENSES, "application/json", body, vendor.header)
        for _ in range(activations):
            yield get(f"{servers.LICENSES}/activate/{key}?label=Office%20laptop", vendor.header)
