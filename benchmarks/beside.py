"""Compare two servers by loading them simultaneously: other work on the machine affects both equally, and the
system shares the processors fairly between them. A server whose calls cost more then has a lower rate.

The comparisons are: a server with unused administration pages, and one without pages, projector and jobs;
this Keywright, and another installed version.
"""

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import programs, servers, wrk
from benchmarks.databases import Database
from benchmarks.installations import Filled, copied, key_of

_WITHOUT_PAGES = Path(__file__).with_name("bare.py")
_CASES = ("validate", "activate")
_CONNECTIONS = 64
_LEAST_PAIRS = 10
_ACTIVATIONS = 3
#: Never reached, but compared with in each activation.
_LIMIT = 1_000_000

Say = Callable[[str], None]
_Loads = tuple[wrk.Load, wrk.Load]


class _Side(NamedTuple):
    """One of two servers: its name, program and settings."""

    name: str
    program: Sequence[str]
    #: The installation that it uses a copy of.
    filled: Filled
    settings: Mapping[str, str] = servers.UNLIMITED


class Beside(msgspec.Struct, frozen=True):
    """The medians of both servers' rates, and the median and quartiles of the ratios, first ÷ second, of
    simultaneous measurements.
    """

    case: str
    names: tuple[str, str]
    pairs: int
    rates: tuple[float, float]
    ratio: float
    quarters: tuple[float, float]
    processor_ratio: float | None


def compare_pages(filled: Filled, seconds: int, rounds: int, say: Say) -> list[Beside]:
    """Compare a server with pages and one without, each on a copy of the installation."""
    without = [sys.executable, "-P", str(_WITHOUT_PAGES)]
    sides = _Side("with pages", servers.keywright(), filled), _Side("without", without, filled)
    return _compare(sides, seconds, rounds, say)


def compare_programs(
    folder: Path,
    database: Database,
    licenses: int,
    other: Sequence[str],
    *,
    seconds: int,
    rounds: int,
    say: Say,
) -> list[Beside]:
    """Compare this Keywright with another, perhaps earlier version, each on a copy of an installation that it
    created itself: the other's database may be too old to be upgraded.
    """
    here = _fill(folder / "here", database, licenses, servers.keywright(), say)
    there = _fill(folder / "there", database, licenses, other, say)
    sides = (
        _Side("this", servers.keywright(), here),
        _Side("the other", other, there, servers.unlimited(programs.limits(other, there.data_dir))),
    )
    return _compare(sides, seconds, rounds, say)


def _fill(data_dir: Path, database: Database, licenses: int, program: Sequence[str], say: Say) -> Filled:
    say(f"making {licenses:,} licenses with {_ACTIVATIONS} activations each …")
    vendor = programs.make(data_dir, database, program)
    # No limits need to be lifted here: they do not apply to the vendor's calls.
    with servers.started(program, data_dir, {}) as server:
        programs.create(server, vendor, dict.fromkeys(map(key_of, range(licenses)), _LIMIT), _ACTIVATIONS)
    database.settle(data_dir)
    nothing = Path()
    return Filled(data_dir, database, licenses, *vendor, nothing, 0, key_of(0), nothing)


def _compare(sides: tuple[_Side, _Side], seconds: int, rounds: int, say: Say) -> list[Beside]:
    """Repeatedly load both simultaneously, each on a copy of its installation, and wait until both are idle.
    Half of the pairs run with one server started first, half with the other.
    """
    pairs = max(_LEAST_PAIRS, rounds)
    loads: dict[str, list[_Loads]] = {case: [] for case in _CASES}
    for places, share in ((sides, pairs - pairs // 2), (sides[::-1], pairs // 2)):
        with ExitStack() as stack:
            both = {}
            for side in places:
                copy = stack.enter_context(copied(side.filled, side.name.replace(" ", "-")))
                server = servers.started(side.program, copy.data_dir, side.settings)
                both[side.name] = (stack.enter_context(server), copy)
            for case in _CASES:
                loads[case] += [
                    _driven([both[one.name] for one in sides], case, seconds) for _ in range(share)
                ]
                found = _compared(case, sides, loads[case])
                say(f"{case}: {found.ratio:.3f} after {found.pairs} pairs")
    return [_compared(case, sides, found) for case, found in loads.items()]


def _driven(both: Sequence[tuple[servers.Server, Filled]], case: str, seconds: int) -> _Loads:
    with ThreadPoolExecutor(2) as pool:
        one, other = (
            pool.submit(wrk.drive, server, copy, case, _CONNECTIONS, seconds) for server, copy in both
        )
    for server, _ in both:
        server.wait_until_idle()
    return one.result(), other.result()


def _compared(case: str, sides: tuple[_Side, _Side], pairs: list[_Loads]) -> Beside:
    ratios = [one.per_second / other.per_second for one, other in pairs]
    quarters = statistics.quantiles(ratios, n=4)
    return Beside(
        case,
        (sides[0].name, sides[1].name),
        len(pairs),
        (
            statistics.median(one.per_second for one, _ in pairs),
            statistics.median(other.per_second for _, other in pairs),
        ),
        statistics.median(ratios),
        (quarters[0], quarters[-1]),
        wrk.processor_ratio([one for one, _ in pairs], [other for _, other in pairs]),
    )
