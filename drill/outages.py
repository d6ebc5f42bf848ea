"""How long nothing was acknowledged.

An outage is the longest time after a fault in which an instance of Keywright acknowledged nothing: from
the fault or from an answer after it, to the next answer. The instance that was longest without counts.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from drill.journal import Journal, Lane


def outage(journal: Journal, lane: Lane, fault_at: float, until: float, instances: Iterable[int]) -> float:
    """The outage after this fault, in seconds, of the instance that fared worst."""
    return max(
        longest_gap(
            [
                answer.at
                for answer in journal.answers
                if answer.what == "ok" and answer.lane == lane and answer.instance == instance
            ],
            fault_at,
            until,
        )
        for instance in instances
    )


def longest_gap(moments: Iterable[float], start: float, end: float) -> float:
    """The longest time without a moment between start and end."""
    within = sorted(moment for moment in moments if start < moment < end)
    edges = [start, *within, end]
    return max(after - before for before, after in pairwise(edges))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
