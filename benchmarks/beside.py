"""Two servers, driven at the same moment: whatever else the machine does, it does to both, and the system
divides the processors between them fairly. What a call of the one costs more, it then answers less.

So are compared: a server with administration pages, nobody on them, with one that has neither pages nor what
follows the events and does long work for them; and this Keywright with another one that is installed.
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
#: Far from being reached, yet compared with at every activation.
_LIMIT = 1_000_000

Say = Callable[[str], None]
_Loads = tuple[wrk.Load, wrk.Load]


class _Side(NamedTuple):
    """One of two servers: what it is called, the program, and its settings."""

    name: str
    program: Sequence[str]
    #: The installation of which it gets a copy.
    filled: Filled
    settings: Mapping[str, str] = servers.UNLIMITED


class Beside(msgspec.Struct, frozen=True):
    """Medians of both servers' rates; and of the ratios, first ÷ second, of what was measured at once,
    between the quarters of which half of them are.
    """

    case: str
    names: tuple[str, str]
    pairs: int
    rates: tuple[float, float]
    ratio: float
    quarters: tuple[float, float]
    processor_ratio: float | None


def compare_pages(filled: Filled, seconds: int, rounds: int, say: Say) -> list[Beside]:
    """A server with pages and one without, each on a copy of the installation."""
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
    """This Keywright and another, perhaps earlier one, each on a copy of an installation that it has made:
    the database of the other one may be too old to be upgraded.
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
    # Limits do not matter here: the vendor's calls are free of them.
    with servers.started(program, data_dir, {}) as server:
        programs.create(server, vendor, dict.fromkeys(map(key_of, range(licenses)), _LIMIT), _ACTIVATIONS)
    database.settle(data_dir)
    nothing = Path()
    return Filled(data_dir, database, licenses, *vendor, nothing, 0, key_of(0), nothing)


def _compare(sides: tuple[_Side, _Side], seconds: int, rounds: int, say: Say) -> list[Beside]:
    """Drive both at once, each on a copy of its installation, and let both come to rest, again and again; for
    one half of the pairs the one was started first, for the other half the other.
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
