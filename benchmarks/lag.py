"""How far the search terms are behind the events of a busy server, and what the projector costs the calls
beside it: the same load on a server with a projector, and on one without.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied, opened
from keywright.db import Storage, run_read
from keywright.search import projector

_WITHOUT = Path(__file__).with_name("bare.py")
#: The activations in a second, which are as many events, and the load of the server's process.
_EVENTS, _LOAD = 300, 0.5
_CONNECTIONS = 30
#: The mean pauses of a connection that activates and, at first, of one that validates.
_ACTIVATION_PAUSE_MS, _FIRST_PAUSE_MS = 1000 * _CONNECTIONS // _EVENTS, 20
_TRIALS, _TRIAL_SECONDS = 3, 4
_CATCH_UP_TIMEOUT = 300.0


class Side(msgspec.Struct, frozen=True):
    """A server under the load: activations and validations a second, its load, the times of validations."""

    events_per_second: float
    validations_per_second: float
    load: float
    p50_ms: float
    p99_ms: float
    activation_p99_ms: float


class ProjectorLag(msgspec.Struct, frozen=True):
    """The events that were not projected when the load ended, and how long it took to project them."""

    seconds: int
    behind: int
    catch_up_seconds: float
    with_projector: Side
    without: Side


def measure(filled: Filled, seconds: int, say: Callable[[str], None]) -> ProjectorLag:
    """Drive both servers, one after the other, each on a copy of the installation."""
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
        say("waiting until the projector has caught up …")
        wait_for_projector(storage)
        with_projector = _drive(server, copy, pause_ms, seconds)
        behind = run_read(storage, projector.lag).behind
        say(f"with a projector: {with_projector}, {behind:,} events behind")
        return ProjectorLag(seconds, behind, wait_for_projector(storage), with_projector, without)


def _find_pause(server: servers.Server, filled: Filled, say: Callable[[str], None]) -> int:
    """The pause of the connections that validate with which the server has the wanted load."""
    pause_ms = _FIRST_PAUSE_MS
    for _ in range(_TRIALS):
        side = _drive(server, filled, pause_ms, _TRIAL_SECONDS)
        say(f"a pause of {pause_ms} ms: a load of {side.load:.2f}")
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
    """Return when all events are projected; returns the seconds that it took."""
    start = monotonic()
    while not run_read(storage, projector.lag).is_complete:
        if monotonic() - start > _CATCH_UP_TIMEOUT:
            raise RuntimeError("the projector does not catch up")
        sleep(0.05)
    return monotonic() - start
