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
from typing import NamedTuple

import msgspec

from benchmarks import servers, wrk
from benchmarks.installations import Filled, copied

_WITHOUT_PAGES = Path(__file__).with_name("bare.py")
_WITH, _WITHOUT = "with", "without"
_CASES = ("validate", "activate")
_CONNECTIONS = 64
_LEAST_PAIRS = 10
#: A server that uses less than this part of the time is at rest; how long that is waited for, and how often
#: it is looked, in seconds.
_IDLE, _PATIENCE, _GLANCE = 0.05, 60.0, 1.0


class _Pair(NamedTuple):
    """What was measured at once."""

    with_pages: wrk.Load
    without_pages: wrk.Load


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
    """Drive both at once, each on a copy of the installation, and let both come to rest, again and again; for
    one half of the pairs the one was started first, for the other half the other.
    """
    starts = {_WITH: servers.keywright(), _WITHOUT: [sys.executable, "-P", str(_WITHOUT_PAGES)]}
    pairs = max(_LEAST_PAIRS, rounds)
    loads: dict[str, list[_Pair]] = {case: [] for case in _CASES}
    for names, share in (([_WITH, _WITHOUT], pairs - pairs // 2), ([_WITHOUT, _WITH], pairs // 2)):
        with ExitStack() as stack:
            both = {}
            for name in names:
                copy = stack.enter_context(copied(filled, name))
                both[name] = (stack.enter_context(servers.started(starts[name], copy.data_dir)), copy)
            for case in _CASES:
                loads[case] += [_driven(both, case, seconds, say) for _ in range(share)]
    return [_compared(case, found) for case, found in loads.items()]


def _driven(
    both: dict[str, tuple[servers.Server, Filled]], case: str, seconds: int, say: Callable[[str], None]
) -> _Pair:
    with ThreadPoolExecutor(2) as pool:
        driven = {
            name: pool.submit(wrk.drive, server, copy, case, _CONNECTIONS, seconds)
            for name, (server, copy) in both.items()
        }
    for server, _ in both.values():
        _wait_until_idle(server)
    pair = _Pair(driven[_WITH].result(), driven[_WITHOUT].result())
    rates = f"{pair.with_pages.per_second:,.0f}/s with, {pair.without_pages.per_second:,.0f}/s without pages"
    say(f"{case}: {rates}")
    return pair


def _compared(case: str, pairs: list[_Pair]) -> Beside:
    ratios = [one.with_pages.per_second / one.without_pages.per_second for one in pairs]
    quarters = statistics.quantiles(ratios, n=4)
    return Beside(
        case,
        len(pairs),
        statistics.median(one.with_pages.per_second for one in pairs),
        statistics.median(one.without_pages.per_second for one in pairs),
        statistics.median(ratios),
        (quarters[0], quarters[-1]),
        _processor_ratio([one.with_pages for one in pairs], [one.without_pages for one in pairs]),
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
