"""A program that holds a moment of the database open for as long as it is told to: ``python -m
tests.soak.reader URL``.

It says ``held`` when it is told to ``hold``, and ``released`` when it is told to ``release``.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from keywright.db import database_path

ROOT = Path(__file__).parents[2]
_BEGIN = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}


class Reader:
    """The running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def hold(self) -> None:
        """Return when it sees one moment, and goes on seeing it."""
        self._tell("hold", "held")

    def release(self) -> None:
        """Return when it has let go."""
        self._tell("release", "released")

    def _tell(self, word: str, expected: str) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{expected}\n"


@contextmanager
def a_reader(database_url: str) -> Iterator[Reader]:
    """A reader for as long as the block runs."""
    command = [sys.executable, "-m", "tests.soak.reader", database_url]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Reader(process)
        finally:
            process.kill()


def _connect(url: str) -> tuple[Any, str]:
    path = database_path(url)
    if path is None:
        return psycopg.connect(url, autocommit=True), _BEGIN["postgresql"]
    uri = f"file:{path}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30), _BEGIN["sqlite"]


def main(url: str) -> None:
    """Do as told until the input ends."""
    connection, begin = _connect(url)
    with closing(connection):
        for line in sys.stdin:
            if line == "hold\n":
                connection.execute(begin)
                # The moment begins with the first look.
                connection.execute("SELECT id FROM licenses LIMIT 1").fetchall()
                print("held", flush=True)
            else:
                connection.execute("ROLLBACK")
                print("released", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
