"""Measure the throughput, latency and memory of calls."""

import statistics
from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied

CONSTANT = "constant"
#: Each is measured between two runs with constant responses; "hot" activates a single license repeatedly.
#: Activating comes last, because it makes responses longer.
CASES = ("validate", "reactivate", "create", "hot", "activate")
CONNECTIONS = (1, 16, 64)


class Row(msgspec.Struct, frozen=True):
    """A case with a number of connections, see ``wrk.Load``.

    ``ratio`` is the rate, divided by that of the constant response, measured right before and right after.
    """

    case: str
    connections: int
    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    processor_us: float | None
    ratio: float


class Throughput(msgspec.Struct, frozen=True):
    """The rows, and the maximum memory of a server at rest and under load."""

    rows: list[Row]
    at_rest_mib: float | None
    peak_mib: float | None


def measure(
    filled: Filled, cases: Sequence[str], seconds: int, rounds: int, say: Callable[[str], None]
) -> Throughput:
    """Measure the cases; use a fresh copy of the installation for each number of connections.

    With several rounds, the medians are reported.
    """
    ordered = [CONSTANT]
    for case in CASES:
        if case in cases:
            ordered += [case, CONSTANT]
    rows: list[Row] = []
    at_rest: list[float | None] = []
    peaks: list[float | None] = []
    for connections in CONNECTIONS * rounds:
        loads = []
        with copied(filled) as copy, servers.running(copy) as server:
            at_rest.append(server.memory("VmRSS"))
            for case in ordered:
                loads.append((case, wrk.drive(server, copy, case, connections, seconds)))
                say(f"{connections} × {case}: {loads[-1][1].per_second:,.0f}/s")
            peaks.append(server.memory("VmHWM"))
        rows += _rows(connections, loads)
    return Throughput(_medians(rows), _most(at_rest), _most(peaks))


def _rows(connections: int, loads: list[tuple[str, wrk.Load]]) -> list[Row]:
    rows = []
    for number, (case, one) in enumerate(loads):
        constant = one.per_second
        if case != CONSTANT:
            constant = (loads[number - 1][1].per_second + loads[number + 1][1].per_second) / 2
        ratio = one.per_second / constant
        rows.append(
            Row(
                case, connections, one.per_second, one.p50_ms, one.p99_ms, one.failed, one.processor_us, ratio
            )
        )
    return rows


def _medians(rows: list[Row]) -> list[Row]:
    """One row per case and number of connections; failures are summed."""
    order = (CONSTANT, "validate", "activate", "hot", "reactivate", "create")

    def place(row: Row) -> tuple[int, int]:
        return order.index(row.case), row.connections

    return [_median(list(same)) for _, same in groupby(sorted(rows, key=place), key=place)]


def _median(rows: list[Row]) -> Row:
    return Row(
        rows[0].case,
        rows[0].connections,
        statistics.median(row.per_second for row in rows),
        statistics.median(row.p50_ms for row in rows),
        statistics.median(row.p99_ms for row in rows),
        sum(row.failed for row in rows),
        None if rows[0].processor_us is None else statistics.median(row.processor_us or 0 for row in rows),
        statistics.median(row.ratio for row in rows),
    )


def _most(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return max(known) if known else None
