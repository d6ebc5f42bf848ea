"""Measure the cost of a call, in processor time and bytes written, and calculate that of many calls.

Costs, unlike rates, can be added and multiplied, and so apply to machines of other sizes or several machines.
"""

from collections.abc import Callable

import msgspec
import psycopg

from benchmarks import servers, wrk
from benchmarks.databases import Postgres
from benchmarks.installations import Filled, copied

_CONNECTIONS = 64
#: The calls per second to calculate for.
VALIDATIONS, ACTIVATIONS = 100_000, 5_000


class Cost(msgspec.Struct, frozen=True):
    """The cost of one call: processor time of Keywright and of PostgreSQL, and bytes of write-ahead log."""

    per_second: float
    keywright_us: float
    postgres_us: float
    log_bytes: float


class Capacity(msgspec.Struct, frozen=True):
    """The costs, and the growth of the database per activation."""

    validate: Cost
    activate: Cost
    growth_bytes: float

    def cores(self, which: str) -> float:
        """The processor cores that the calculated load needs, for ``keywright_us`` or ``postgres_us``."""
        one: float = getattr(self.validate, which)
        other: float = getattr(self.activate, which)
        return (VALIDATIONS * one + ACTIVATIONS * other) / 1e6

    @property
    def log_per_second(self) -> float:
        """The bytes of write-ahead log per second under the calculated load."""
        return ACTIVATIONS * self.activate.log_bytes


def measure(filled: Filled, database: Postgres, seconds: int, say: Callable[[str], None]) -> Capacity:
    """Load a copy of the installation, and measure what the processes used."""
    with copied(filled) as copy, servers.running(copy) as server:
        costs = []
        size = _ask(database, copy, "SELECT pg_database_size(current_database())")
        for case in ("validate", "activate"):
            wrk.drive(server, copy, case, _CONNECTIONS, 1)
            before = database.processor_seconds(), _log_position(database, copy)
            load = wrk.drive(server, copy, case, _CONNECTIONS, seconds)
            after = database.processor_seconds(), _log_position(database, copy)
            # These figures include the warm-up, a second of the same load.
            answers = load.requests + load.per_second
            costs.append(
                Cost(
                    load.per_second,
                    load.processor_us or 0.0,
                    (after[0] - before[0]) * 1e6 / answers,
                    (after[1] - before[1]) / answers,
                )
            )
            say(f"{case}: {load.per_second:,.0f}/s, PostgreSQL {costs[-1].postgres_us:.0f} µs each")
        activations = load.requests + 2 * load.per_second
        grown = _ask(database, copy, "SELECT pg_database_size(current_database())") - size
    return Capacity(costs[0], costs[1], grown / activations)


def _log_position(database: Postgres, filled: Filled) -> int:
    return _ask(database, filled, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")


def _ask(database: Postgres, filled: Filled, query: str) -> int:
    with psycopg.connect(str(database.settings(filled.data_dir).database_url)) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
