"""Generate load with wrk (https://github.com/wg/wrk): one thread, some connections, some seconds."""

import base64
import itertools
import os
import shutil
import statistics
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchmarks.installations import Filled
from benchmarks.servers import Server

_SCRIPT = Path(__file__).with_name("requests.lua")
_WARM_UP = 1
#: The number of places, per connection, to give up before the first is taken back.
_DISTANCE = 8
_seeds = itertools.count(1)


class Missing(Exception):
    """wrk is not installed."""


class Load(msgspec.Struct, frozen=True):
    """The result of a load; ``failed`` counts responses other than 2xx."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    #: The server's processor time per response.
    processor_us: float | None


def require() -> None:
    """Raise ``Missing`` if wrk is not installed."""
    if shutil.which("wrk") is None:
        raise Missing(
            "wrk, which generates the load, is not installed. On Debian and Ubuntu: apt install wrk; "
            "on macOS: brew install wrk; elsewhere: https://github.com/wg/wrk."
        )


def processor_ratio(some: Iterable[Load], others: Iterable[Load]) -> float | None:
    """The median processor time per response of some loads, divided by that of others; None if unknown."""
    both = [[one.processor_us for one in loads if one.processor_us is not None] for loads in (some, others)]
    return statistics.median(both[0]) / statistics.median(both[1]) if all(both) else None


def drive(
    server: Server, filled: Filled, case: str, connections: int, seconds: int, *, pause_ms: int = 0
) -> Load:
    """Warm up briefly, then measure the case. Connections pause for about ``pause_ms`` after a response."""
    _run(server, filled, case, connections, _WARM_UP, is_warm_up=True, pause_ms=pause_ms)
    return _run(server, filled, case, connections, seconds, is_warm_up=False, pause_ms=pause_ms)


def _run(
    server: Server,
    filled: Filled,
    case: str,
    connections: int,
    seconds: int,
    *,
    is_warm_up: bool,
    pause_ms: int = 0,
) -> Load:
    seed = next(_seeds)
    given = [case, filled.licenses, seed, *_arguments(filled, case, connections, seed, is_warm_up=is_warm_up)]
    command = ["wrk", "--threads=1", f"--connections={connections}", f"--duration={seconds}s"]
    command += ["--timeout=10s", f"--script={_SCRIPT}", server.url, "--", *map(str, given)]
    before = server.processor_seconds()
    environment = {**os.environ, "PAUSE_MS": str(pause_ms)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + 60, check=False, env=environment
    )
    after = server.processor_seconds()
    figures = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("figures ")]
    if done.returncode or not figures:
        raise RuntimeError(f"wrk failed: {done.stderr.strip() or done.stdout.strip()}")
    requests, microseconds, p50, p99, failed = map(int, figures[0])
    processor = None
    if before is not None and after is not None:
        processor = (after - before) * 1e6 / max(1, requests)
    return Load(requests, requests * 1e6 / microseconds, p50 / 1000, p99 / 1000, failed, processor)


def _arguments(
    filled: Filled, case: str, connections: int, seed: int, *, is_warm_up: bool
) -> tuple[object, ...]:
    """The script's further arguments for this case."""
    if case == "create":
        credentials = f"{filled.consumer_key}:{filled.consumer_secret}"
        return f"Basic {base64.b64encode(credentials.encode()).decode()}", f"{seed:04d}"
    if case == "reactivate":
        # Do not reuse the places of the warm-up: some are left deactivated.
        half = filled.places // 2
        first, last = (1, half) if is_warm_up else (half + 1, filled.places)
        return filled.places_file, first, last, _DISTANCE * connections
    return {
        "renew": (filled.places_file,),
        "v3_validate": (filled.places_file, filled.places),
        "v3_validate_signed": (filled.places_file, filled.places),
        "v3_activate": (f"{seed:04d}",),
        "v3_validate_some": (filled.constant_key, filled.places),
    }.get(case, ())
