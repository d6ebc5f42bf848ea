"""Could a license that does one thing after the other have given these answers? Pure: a history in.

A history is linearizable when its operations can be put into one order in which each happens at a moment
between its start and its end, and in which every answer is the one that a license gives which is asked in
that order (Herlihy and Wing, "Linearizability", 1990).
"""

import math
from bisect import bisect_right
from collections.abc import Sequence

from tests.histories.license import Done, License, Operation, Refused, carry_out

#: Which operations have happened, a bit for each; and what the license is like then.
_Point = tuple[int, License]


def find_order(history: Sequence[Operation], start: License) -> list[Operation] | None:
    """An order that explains every answer, None when there is none.

    It is Wing's and Gong's search ("Testing and verifying concurrent objects", 1993), which never looks twice
    at a point that can be reached in several orders (Lowe, "Testing for linearizability", 2017). Operations
    without an answer may stand anywhere after their start, or nowhere.
    """
    operations = sorted(history, key=lambda one: one.started_at)
    wanted = sum(1 << number for number, one in enumerate(operations) if one.answer is not None)
    #: How each point was reached: from where, by which operation.
    ways: dict[_Point, tuple[_Point, int] | None] = {(0, start): None}
    points = [(0, start)]
    while points:
        point = points.pop()
        if point[0] & wanted == wanted:
            return _order(operations, ways, point)
        for number, after in _next(operations, point):
            if after not in ways:
                ways[after] = (point, number)
                points.append(after)
    return None


def _next(operations: list[Operation], point: _Point) -> list[tuple[int, _Point]]:
    """What can happen next: operations that began before any other that is still to happen ended."""
    happened, license = point
    left = [number for number in range(len(operations)) if not happened >> number & 1]
    horizon = min(operations[number].ended_at for number in left)
    found = []
    for number in left:
        operation = operations[number]
        if operation.started_at > horizon:
            break
        after, answer = carry_out(license, operation)
        # What had no answer and no effect need not have happened.
        if operation.answer == answer or (operation.answer is None and after != license):
            found.append((number, (happened | 1 << number, after)))
    return found


def _order(
    operations: list[Operation], ways: dict[_Point, tuple[_Point, int] | None], point: _Point
) -> list[Operation]:
    order = []
    while way := ways[point]:
        point, number = way
        order.append(operations[number])
    return order[::-1]


def is_in_order(history: Sequence[Operation], limit: int) -> bool:
    """Whether there is such an order, where all that was asked is activations of a new license: in n log n.

    The counters are the witness. They read 1, 2, 3 … each once; nobody who was answered before another one
    asked reads a higher one; what is missing was taken by somebody who got no answer; and whoever was refused
    came when all places were taken.
    """
    taken: dict[int, Operation] = {}
    for one in history:
        if isinstance(one.answer, Done):
            if one.answer.times_activated in taken:
                return False
            taken[one.answer.times_activated] = one
    refusals = [one.ended_at for one in history if isinstance(one.answer, Refused)]
    top = limit if refusals else max(taken, default=0)
    if not all(1 <= value <= min(top, limit) for value in taken):
        return False
    gaps = _gaps(taken, top, min(refusals, default=math.inf))
    return gaps is not None and _can_fill(gaps, history)


def _gaps(taken: dict[int, Operation], top: int, deadline: float) -> list[float] | None:
    """For each counter that nobody read, until when it was taken at the latest; None when somebody read a
    counter that was taken before the question.
    """
    gaps = []
    for value in range(top, 0, -1):
        if value not in taken:
            gaps.append(deadline)
        elif taken[value].started_at > deadline:
            return None
        else:
            deadline = min(deadline, taken[value].ended_at)
    return gaps


def _can_fill(gaps: list[float], history: Sequence[Operation]) -> bool:
    """Whether those who got no answer can have taken these places."""
    starts = sorted(one.started_at for one in history if one.answer is None)
    return all(number < bisect_right(starts, gap) for number, gap in enumerate(sorted(gaps)))


def in_words(history: Sequence[Operation]) -> str:
    """A line for each operation, for those who look for what went wrong; moments in milliseconds."""
    first = min((one.started_at for one in history), default=0.0)
    return "\n".join(
        f"{(one.started_at - first) * 1000:9.2f} … {(one.ended_at - first) * 1000:9.2f}  {one.what} "
        f"{one.about if one.about is not None else ''}: {one.answer if one.answer else 'not known'}"
        for one in sorted(history, key=lambda one: one.started_at)
    )
