"""Measure the lag of the projector on a busy server, and its cost for calls: compare the same load on a
server with a projector and one without, and on servers with and without a backlog of events.
"""

import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied, key_of, opened
from keywright.core.command import Context, Origin
from keywright.db import Storage, run_read
from keywright.licensing.activations.model import Activate
from keywright.registry import open_executor
from keywright.search import projector

_WITHOUT = Path(__file__).with_name("bare.py")
#: The activations (and so events) per second, and the processor load of the server.
_EVENTS, _LOAD = 300, 0.5
_CONNECTIONS = 30
#: The mean pause of connections that activate, and the initial one of connections that validate, in ms.
_ACTIVATION_PAUSE_MS, _FIRST_PAUSE_MS = 1000 * _CONNECTIONS // _EVENTS, 20
_TRIALS, _TRIAL_SECONDS = 3, 4
_CATCH_UP_TIMEOUT = 300.0
#: The events of a backlog, and how many are created at a time.
BACKLOG, _AT_ONCE = 20_000, 100
#: The calls to measure with a backlog, their connections, and the minimum number of pairs.
_CASES, _BACKLOG_CONNECTIONS, _LEAST_PAIRS = ("validate", "activate"), 64, 4


class Side(msgspec.Struct, frozen=True):
    """A server under load: activations and validations per second, its processor load, and latencies."""

    events_per_second: float
    validations_per_second: float
    load: float
    p50_ms: float
    p99_ms: float
    activation_p99_ms: float


class ProjectorLag(msgspec.Struct, frozen=True):
    """The events not projected when the load ended, and the time to project them."""

    seconds: int
    behind: int
    catch_up_seconds: float
    with_projector: Side
    without: Side


class Backlog(msgspec.Struct, frozen=True):
    """Calls to fresh servers with and without a backlog, alternately: medians of rates and p99, and of the
    ratios of pairs. Then the maximum of events left of the backlog after the load, of the age of the oldest,
    and of the time to project them.
    """

    case: str
    pairs: int
    rates: tuple[float, float]
    p99_ms: tuple[float, float]
    ratio: float
    p99_ratio: float
    #: The server's processor time per response, with a backlog divided by without.
    processor_ratio: float | None
    behind: int
    age_seconds: float
    catch_up_seconds: float


def measure(filled: Filled, seconds: int, say: Callable[[str], None]) -> ProjectorLag:
    """Load both servers, one after the other, each on a copy of the installation."""
    bare = [sys.executable, "-P", str(_WITHOUT)]
    with copied(filled) as copy, servers.started(bare, copy.data_dir) as server:
        pause_ms = _find_pause(server, copy, say)
        without = _drive(server, copy, pause_ms, seconds)
        say(f"without a projector: {without}")
    with (
        copied(filled) as copy,
        servers.started(servers.keywright(), copy.data_dir) as server,
        opened(copy.data_dir, copy.database) as storage,
    ):
        say("waiting for the projector …")
        wait_for_projector(storage)
        with_projector = _drive(server, copy, pause_ms, seconds)
        behind = run_read(storage, projector.lag).behind
        say(f"with a projector: {with_projector}, {behind:,} events behind")
        return ProjectorLag(seconds, behind, wait_for_projector(storage), with_projector, without)


def _find_pause(server: servers.Server, filled: Filled, say: Callable[[str], None]) -> int:
    """Find the pause of the connections that validate that gives the server the target load."""
    pause_ms = _FIRST_PAUSE_MS
    for _ in range(_TRIALS):
        side = _drive(server, filled, pause_ms, _TRIAL_SECONDS)
        say(f"pause {pause_ms} ms: load {side.load:.2f}")
        pause_ms = max(1, round(pause_ms * side.load / _LOAD))
    return pause_ms


def _drive(server: servers.Server, filled: Filled, pause_ms: int, seconds: int) -> Side:
    with ThreadPoolExecutor(2) as pool:
        activating, validating = (
            pool.submit(wrk.drive, server, filled, case, _CONNECTIONS, seconds, pause_ms=pause)
            for case, pause in (("activate", _ACTIVATION_PAUSE_MS), ("validate", pause_ms))
        )
        activations, validations = activating.result(), validating.result()
    if activations.failed or validations.failed or validations.processor_us is None:
        raise RuntimeError(f"the load failed: {activations}, {validations}")
    load = validations.processor_us * validations.per_second / 1e6
    return Side(
        activations.per_second,
        validations.per_second,
        load,
        validations.p50_ms,
        validations.p99_ms,
        activations.p99_ms,
    )


def wait_for_projector(storage: Storage) -> float:
    """Wait until all events are projected; return the time in seconds."""
    start = monotonic()
    while not run_read(storage, projector.lag).is_complete:
        if monotonic() - start > _CATCH_UP_TIMEOUT:
            raise RuntimeError("the projector does not catch up")
        sleep(0.05)
    return monotonic() - start


def make_backlog(storage: Storage, filled: Filled) -> None:
    """Activate 20,000 times while no server runs."""
    keys = [key_of(number) for number in range(filled.licenses)]
    with closing(open_executor(storage)) as executor:
        for start in range(0, BACKLOG, _AT_ONCE):
            context = Context(datetime.now(UTC).replace(microsecond=0), Origin("benchmark", "", ""))
            some = range(start, start + _AT_ONCE)
            executor.execute([Activate(context=context, license=keys[one % len(keys)]) for one in some])


def measure_backlog(filled: Filled, seconds: int, rounds: int, say: Callable[[str], None]) -> list[Backlog]:
    """Load fresh servers on one copy of the installation, alternately with and without a backlog."""
    found = []
    with copied(filled) as copy, opened(copy.data_dir, copy.database) as storage:
        for case in _CASES:
            pairs = []
            for turn in range(max(_LEAST_PAIRS, rounds)):
                order = (True, False) if turn % 2 else (False, True)
                pairs.append(
                    {one: _drive_fresh(copy, storage, case, seconds, is_beside=one) for one in order}
                )
                say(f"{case}: {pairs[-1]}")
            found.append(_compare(case, pairs))
            say(f"{case} with a backlog: {found[-1].ratio:.3f}, p99 {found[-1].p99_ratio:.2f}")
    return found


class _Fresh(msgspec.Struct, frozen=True):
    """A load, and the events not projected when it ended."""

    load: wrk.Load
    behind: int
    age_seconds: float
    catch_up_seconds: float


def _drive_fresh(filled: Filled, storage: Storage, case: str, seconds: int, *, is_beside: bool) -> _Fresh:
    make_backlog(storage, filled)
    with servers.started(servers.keywright(), filled.data_dir) as server:
        if not is_beside:
            wait_for_projector(storage)
        load = wrk.drive(server, filled, case, _BACKLOG_CONNECTIONS, seconds)
        left, now = run_read(storage, projector.lag), datetime.now(UTC)
        age = (now - (left.oldest_at or now)).total_seconds()
        return _Fresh(load, left.behind, age, wait_for_projector(storage))


def _compare(case: str, pairs: list[dict[bool, _Fresh]]) -> Backlog:
    both = [(one[True].load, one[False].load) for one in pairs]
    with_it = [one[True] for one in pairs]
    return Backlog(
        case,
        len(pairs),
        (
            statistics.median(one.per_second for one, _ in both),
            statistics.median(o.per_second for _, o in both),
        ),
        (statistics.median(one.p99_ms for one, _ in both), statistics.median(o.p99_ms for _, o in both)),
        statistics.median(one.per_second / other.per_second for one, other in both),
        statistics.median(one.p99_ms / other.p99_ms for one, other in both),
        wrk.processor_ratio([one for one, _ in both], [other for _, other in both]),
        max(one.behind for one in with_it),
        max(one.age_seconds for one in with_it),
        max(one.catch_up_seconds for one in with_it),
    )
