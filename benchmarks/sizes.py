"""Compare the throughput of a large installation with that of a small one."""

import statistics
from collections.abc import Callable

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, read_through

_CONNECTIONS = 64
_ROUNDS = 9


class Sizes(msgspec.Struct, frozen=True):
    """Validations per second of a large and a small installation: medians of several rounds."""

    large: int
    small: int
    large_per_second: float
    small_per_second: float
    ratio: float
    failed: int


def compare(large: Filled, small: Filled, seconds: int, say: Callable[[str], None]) -> Sizes:
    """Run both servers, and load them one at a time, in alternating order."""
    pairs = []
    for filled in (large, small):
        read_through(filled)
    with servers.running(large) as server_of_large, servers.running(small) as server_of_small:
        both = [(server_of_large, large), (server_of_small, small)]
        for number in range(_ROUNDS):
            ordered = both if number % 2 else both[::-1]
            loads = {
                filled: wrk.drive(server, filled, "validate", _CONNECTIONS, seconds)
                for server, filled in ordered
            }
            pairs.append((loads[large], loads[small]))
            say(", ".join(f"{one.licenses:,}: {load.per_second:,.0f}/s" for one, load in loads.items()))
    return Sizes(
        large.licenses,
        small.licenses,
        statistics.median(one.per_second for one, _ in pairs),
        statistics.median(one.per_second for _, one in pairs),
        statistics.median(one.per_second / other.per_second for one, other in pairs),
        sum(one.failed + other.failed for one, other in pairs),
    )
