"""Simulate how evenly load is distributed over several clusters that share the licenses.

``python -m benchmarks.shards`` draws validations of a million licenses, of which few are used often and most
rarely (Zipf's law), assigns each license to a cluster by its blind index, and compares the busiest cluster
with the mean.
"""

import hashlib
import random
from bisect import bisect
from itertools import accumulate

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_LICENSES = 1_000_000
_CALLS = 1_000_000
_CLUSTERS = (2, 4, 8, 16)
#: With 0, all licenses are used equally; with 1, the tenth is used a tenth as often as the first.
_EXPONENTS = (0.0, 0.8, 1.0)


def cluster_of(blind_index: bytes, clusters: int) -> int:
    """The cluster of a license: the one with the highest hash (rendezvous hashing), so that a new cluster
    takes its share from all others, and nothing moves between the others.
    """
    return max(range(clusters), key=lambda n: hashlib.blake2s(blind_index, key=b"%d" % n).digest())


def busiest(shares: list[int]) -> float:
    """The largest share, divided by the mean."""
    return max(shares) * len(shares) / sum(shares)


def _drawn(exponent: float, chance: random.Random) -> dict[int, int]:
    """How often each license is used."""
    sums = list(accumulate(1 / rank**exponent for rank in range(1, _LICENSES + 1)))
    asked: dict[int, int] = {}
    for _ in range(_CALLS):
        index = bisect(sums, chance.random() * sums[-1])
        asked[index] = asked.get(index, 0) + 1
    return asked


def _shares(asked: dict[int, int], clusters: int) -> list[int]:
    shares = [0] * clusters
    for index, times in asked.items():
        shares[cluster_of(b"%d" % index, clusters)] += times
    return shares


def main() -> None:
    """Print the table."""
    table = Table(
        title="Load of the busiest cluster, relative to the mean", title_justify="left", box=SIMPLE_HEAD
    )
    table.add_column("exponent")
    table.add_column("most used license", justify="right")
    for clusters in _CLUSTERS:
        table.add_column(f"{clusters} clusters", justify="right")
    for exponent in _EXPONENTS:
        asked = _drawn(exponent, random.Random(1))
        cells = [f"{busiest(_shares(asked, clusters)):.2f}" for clusters in _CLUSTERS]
        table.add_row(str(exponent), f"{max(asked.values()) / _CALLS:.2%}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
