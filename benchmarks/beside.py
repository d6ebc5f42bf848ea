"""What the administration pages cost those who do not use them: calls of a server with pages, nobody on them,
compared with calls of one that has neither pages nor what follows the events and does long work for them.

Both are driven at the same moment: whatever else the machine does, it does to both, and the system divides
the processors between them fairly. What a call of the one costs more, it then answers less.
"""

import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied

_WITHOUT_PAGES = Path(__file__).with_name("bare.py")
_CASES = ("validate", "activate")
_CONNECTIONS = 64
_LEAST_PAIRS = 10
#: A server that uses less than this part of the time is at rest; how long that is waited for, and how often
#: it is looked, in seconds.
_IDLE, _PATIENCE, _GLANCE = 0.05, 60.0, 1.0


class Beside(msgspec.Struct, frozen=True):
    """Medians of both servers' rates and processor times; and of the ratios of what was measured at once,
    between the quarters of which half of them are.
    """

    case: str
    pairs: int
    with_pages: float
    without_pages: float
    ratio: float
    quarters: tuple[float, float]
    processor_ratio: float | None


def compare(filled: Filled, seconds: int, rounds: int, say: Callable[[str], None]) -> list[Beside]:
    """Drive both at once, each on a copy of the installation, and let both come to rest, again and again."""
    starts = {"with": servers.keywright(), "without": [sys.executable, "-P", str(_WITHOUT_PAGES)]}
    with ExitStack() as stack:
        both = []
        for name, start in starts.items():
            copy = stack.enter_context(copied(filled, name))
            server = stack.enter_context(servers.started(start, copy.data_dir))
            both.append((server, copy))
        return [_compared(both, case, seconds, max(_LEAST_PAIRS, rounds), say) for case in _CASES]


def _compared(
    both: list[tuple[servers.Server, Filled]], case: str, seconds: int, pairs: int, say: Callable[[str], None]
) -> Beside:
    loads: tuple[list[wrk.Load], list[wrk.Load]] = ([], [])
    for pair in range(pairs):
        with ThreadPoolExecutor(2) as pool:
            # Now the one, now the other is first.
            order = (0, 1) if pair % 2 else (1, 0)
            driven = {
                which: pool.submit(wrk.drive, *both[which], case, _CONNECTIONS, seconds) for which in order
            }
        for which, load in driven.items():
            loads[which].append(load.result())
            _wait_until_idle(both[which][0])
        say(f"{case}: {loads[0][-1].per_second:,.0f}/s with, {loads[1][-1].per_second:,.0f}/s without pages")
    ratios = [one.per_second / other.per_second for one, other in zip(*loads, strict=True)]
    quarters = statistics.quantiles(ratios, n=4)
    with_pages, without_pages = (statistics.median(one.per_second for one in some) for some in loads)
    return Beside(
        case,
        pairs,
        with_pages,
        without_pages,
        statistics.median(ratios),
        (quarters[0], quarters[-1]),
        _processor_ratio(*loads),
    )


def _wait_until_idle(server: servers.Server) -> None:
    """What follows the events may have to catch up."""
    end = monotonic() + _PATIENCE
    used = server.processor_seconds()
    while used is not None and monotonic() < end:
        sleep(_GLANCE)
        before, used = used, server.processor_seconds()
        if used is not None and used - before < _GLANCE * _IDLE:
            return


def _processor_ratio(some: list[wrk.Load], others: list[wrk.Load]) -> float | None:
    both = [[one.processor_us for one in loads if one.processor_us is not None] for loads in (some, others)]
    return statistics.median(both[0]) / statistics.median(both[1]) if all(both) else None
