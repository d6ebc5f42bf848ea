"""What shops report of the lines of an order, or of a subscription, from a moment on. Pure."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec.structs import replace

from keywright.provisioning.shops.model import SaleLine
from keywright.provisioning.shops.sold_model import Snapshot, Snapshots

#: The most snapshots that are kept, and how long one is that repeats its neighbors: shops send events late.
_MAX_SNAPSHOTS, _REPEATED = 200, timedelta(days=30) // timedelta(milliseconds=1)


def a_snapshot(at: int, lines: Iterable[SaleLine], *, is_asked: bool = False) -> Snapshot:
    """The lines by their numbers, without their titles."""
    return Snapshot(at, tuple(replace(one, title="") for one in sorted(lines, key=_number)), is_asked)


def is_contradicted(snapshots: Snapshots, new: Snapshot) -> bool:
    """Whether another statement is of the same moment, and the shop's API was not asked which is true."""
    same = (one for one in snapshots if one.at == new.at)
    return any(one.lines != new.lines and not (one.is_asked or new.is_asked) for one in same)


def add_snapshot(snapshots: Snapshots, new: Snapshot) -> Snapshots:
    """With this one, in the order of the shop's clock. Of two at the same moment, what the shop's API said
    counts, else the larger quantity of each line.
    """
    for one in snapshots:
        if one.at == new.at:
            new = _merge(one, new)
    return _shorten(sorted([*(one for one in snapshots if one.at != new.at), new], key=lambda one: one.at))


def _merge(one: Snapshot, other: Snapshot) -> Snapshot:
    if one.is_asked is not other.is_asked:
        return one if one.is_asked else other
    if one.is_asked:
        return other
    lines: dict[str, SaleLine] = {}
    for line in (*one.lines, *other.lines):
        known = lines.get(line.number, line)
        lines[line.number] = max(known, line, key=lambda each: (each.quantity, each.refs))
    return a_snapshot(one.at, lines.values())


def _shorten(snapshots: Sequence[Snapshot]) -> Snapshots:
    """Without old ones that repeat what was stated before and after them."""
    recent = snapshots[-1].at - _REPEATED
    inner = [
        here
        for before, here, after in zip(snapshots, snapshots[1:], snapshots[2:], strict=False)
        if here.at >= recent or not before.lines == here.lines == after.lines
    ]
    ends = (snapshots[0],) if len(snapshots) == 1 else (snapshots[0], *inner, snapshots[-1])
    return tuple(ends[-_MAX_SNAPSHOTS:])


def _number(line: SaleLine) -> str:
    return line.number
