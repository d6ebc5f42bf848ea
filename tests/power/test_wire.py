"""R4: nobody is told of an activation before it is durable, as ``strace`` sees it.

On SQLite, a sync of the log that began after the activation was written there has returned before the first
byte of the answer goes out; on PostgreSQL, its word that the transaction is committed was read before.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.concurrency.callers import calling
from tests.concurrency.selling import acknowledgements_in, activate_path
from tests.http.asking import Client
from tests.power.wire import (
    SystemCall,
    find_answers,
    find_commits,
    find_syncs,
    has_ended,
    read_trace,
    too_early,
    tracing_command,
)
from tests.proving import record, size
from tests.server import KEYWRIGHT, NO_LIMITS, running, wait_until

ALONE = size(20, 1_000)
IN_A_CROWD = size(64, 1_000)

#: A Keywright whose commits are not synced.
_LAX = """
from keywright.cli import main
from keywright.db import sqlite

connect = sqlite.connect

def lax(path, mode):
    connection = connect(path, mode)
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection

sqlite.connect = lax
main()
"""


class Trace(NamedTuple):
    """What a server did, and the tokens that its callers were told."""

    path: Path
    data_dir: Path
    tokens: set[str]

    def calls(self) -> Iterator[SystemCall]:
        with self.path.open(encoding="latin-1") as lines:
            yield from read_trace(lines)


def trace_of(folder: Path, database: str, *, alone: int, crowd: int, program: Iterable[str]) -> Trace:
    """Activate, one after the other and then many at once."""
    trace, data_dir = folder / "trace", folder / "data"
    with running(data_dir, database, program=tracing_command(trace, *program), **NO_LIMITS) as server:
        with Client(server, server.api_key()) as client:
            key = client.license()
            tokens = {client.activated(key) for _ in range(alone)}
        with calling([server], [[activate_path(key)] * crowd], connections=32) as callers:
            tokens |= acknowledgements_in(callers.journal())
    wait_until(lambda: has_ended(trace, server.pid), "the end of the trace")
    assert len(tokens) == alone + crowd
    return Trace(trace, data_dir, tokens)


@pytest.fixture(scope="module")
def trace(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    folder = tmp_path_factory.mktemp("wire")
    trace = trace_of(folder, database, alone=ALONE, crowd=IN_A_CROWD, program=[KEYWRIGHT])
    yield trace
    trace.path.unlink()


PROOFS = {"sqlite": find_syncs, "postgresql": find_commits}


def test_nobody_is_told_of_an_activation_before_it_is_durable(trace: Trace, database: str) -> None:
    answers = find_answers(trace.calls())
    early = too_early(answers, PROOFS[database](trace.calls()))
    counted = {"answers on the wire": len(answers), "answers before their activation is durable": len(early)}
    record("R4", database, counted=counted)
    assert answers.keys() == trace.tokens
    assert early == []


def test_with_no_sync_in_the_trace_every_answer_is_too_early(trace: Trace, database: str) -> None:
    proofs = ("fdatasync", "fsync", "recvfrom", "recvmsg")
    durable = PROOFS[database](call for call in trace.calls() if call.name not in proofs)
    assert set(too_early(find_answers(trace.calls()), durable)) == trace.tokens


def test_a_server_that_does_not_sync_is_found(tmp_path: Path) -> None:
    program = (sys.executable, "-c", _LAX)
    trace = trace_of(tmp_path, "sqlite", alone=10, crowd=10, program=program)
    early = too_early(find_answers(trace.calls()), find_syncs(trace.calls()))
    counted = {"answers before their activation is durable": len(early)}
    record("R4", "control: synchronous=NORMAL", counted=counted)
    assert set(early) == trace.tokens
