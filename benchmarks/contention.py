"""Check that when many clients compete for the last places, each place is given out exactly once."""

import json
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psycopg

from benchmarks import servers
from benchmarks.attempts import Result
from benchmarks.databases import Database
from benchmarks.installations import insert_limited, opened
from keywright.config import Settings
from keywright.db import database_path

_PROCESSES = 4
_CONNECTIONS = 64
_KEYS = 200
_LIMIT = 5
_ATTEMPTS = 20_000

#: Invariants of licenses and activations, each with a query that finds violations.
_CONTRADICTIONS = {
    "the counter is the number of active records": (
        "SELECT id FROM licenses WHERE times_activated != (SELECT COUNT(*) FROM activations "
        "WHERE license_id = licenses.id AND deactivated_at IS NULL)"
    ),
    "the counter is within the limit": (
        "SELECT id FROM licenses WHERE times_activated > times_activated_max OR times_activated < 0"
    ),
    "each activation has its event": (
        "SELECT id FROM activations WHERE 1 != (SELECT COUNT(*) FROM events WHERE name = "
        "'license.activated' AND activation_id = activations.id AND license_id = activations.license_id)"
    ),
    "each event has its activation": (
        "SELECT id FROM events WHERE name = 'license.activated' "
        "AND activation_id NOT IN (SELECT id FROM activations)"
    ),
    "no two activations share their number": "SELECT id FROM activations GROUP BY id HAVING COUNT(*) > 1",
    "no two activations share their token": (
        "SELECT token FROM activations GROUP BY token HAVING COUNT(*) > 1"
    ),
    "each activation has its license": (
        "SELECT id FROM activations WHERE license_id NOT IN (SELECT id FROM licenses)"
    ),
}


class Contention(msgspec.Struct, frozen=True):
    """The result; ``contradictions`` describes inconsistencies in the database."""

    attempts: int
    places: int
    successes: int
    #: The keys whose responses did not contain each count from 1 to the limit exactly once.
    odd_keys: list[str]
    answers_by_status: dict[int, int]
    contradictions: list[str]

    @property
    def is_right(self) -> bool:
        """Whether the result is correct."""
        return (
            self.successes == self.places
            and not self.odd_keys
            and not self.contradictions
            and self.server_errors == 0
        )

    @property
    def server_errors(self) -> int:
        """The number of 5xx responses."""
        return sum(number for status, number in self.answers_by_status.items() if status >= 500)


def measure(folder: Path, database: Database, say: Callable[[str], None]) -> Contention:
    """Let the clients compete on a fresh installation, and check the responses and the database."""
    say(f"{_ATTEMPTS:,} attempts on {_KEYS} licenses with {_LIMIT} places each …")
    keys = [f"LAST-PLACES-{i:03d}" for i in range(_KEYS)]
    data_dir = folder / "contention"
    database.prepare(data_dir)
    with opened(data_dir, database) as storage:
        insert_limited(storage, keys, _LIMIT)
    with servers.started(servers.keywright(), data_dir) as server:
        results = _let_loose(server.url, keys)
    return _judged(results, keys, database.settings(data_dir))


def _let_loose(url: str, keys: list[str]) -> list[Result]:
    attempts = keys * (_ATTEMPTS // _KEYS)
    random.Random(1).shuffle(attempts)
    with ExitStack() as stack:
        clients = [stack.enter_context(_client(url)) for _ in range(_PROCESSES)]
        for number, client in enumerate(clients):
            client.tell(json.dumps(attempts[number::_PROCESSES]))
        for client in clients:
            client.hear()
        for client in clients:
            client.tell("start")
        answers = [json.loads(client.hear()) for client in clients]
    return [(key, status, taken) for answer in answers for key, status, taken in answer]


class _Client:
    """A client process, which communicates in lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Read the next line. Raises ``RuntimeError`` at the end."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a client process ended prematurely")
        return line


@contextmanager
def _client(url: str) -> Iterator[_Client]:
    host, _, port = urlsplit(url).netloc.partition(":")
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.attempts", host, port, str(_CONNECTIONS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    ) as process:
        try:
            yield _Client(process)
        finally:
            process.kill()


def _judged(results: list[Result], keys: list[str], settings: Settings) -> Contention:
    told: dict[str, list[int]] = {key: [] for key in keys}
    for key, _, taken in results:
        if taken is not None:
            told[key].append(taken)
    expected = list(range(1, _LIMIT + 1))
    return Contention(
        attempts=len(results),
        places=_KEYS * _LIMIT,
        successes=sum(status == 200 for _, status, _ in results),
        odd_keys=[key for key in keys if sorted(told[key]) != expected],
        answers_by_status=dict(sorted(Counter(status for _, status, _ in results).items())),
        contradictions=contradictions(settings),
    )


def contradictions(settings: Settings) -> list[str]:
    """Describe the inconsistencies in the database."""
    found = []
    with _connected(settings) as execute:
        for rule, query in _CONTRADICTIONS.items():
            rows = execute(query).fetchmany(10)
            if rows:
                found.append(f"violated: {rule} ({', '.join(str(row[0]) for row in rows)})")
    return found


@contextmanager
def _connected(settings: Settings) -> Iterator[Callable[[str], Any]]:
    """Yield a function that runs a query directly on the database."""
    if settings.database_url is not None:
        with psycopg.connect(settings.database_url) as server:
            yield lambda query: server.execute(query.encode())
        return
    file = database_path(settings.database_url_in_force)
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        yield connection.execute
