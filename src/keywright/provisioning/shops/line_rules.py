"""Derive the lines of orders and subscriptions from all reports of the shop. Pure.

The lines that a subscription reports count; until it does, the lines of its orders do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from keywright.provisioning.policies.model import Policy
from keywright.provisioning.shops.model import QuantityRule, SaleLine
from keywright.provisioning.shops.rules import Known, place_of
from keywright.provisioning.shops.sold_model import Payment, Snapshots

#: The order that lists the line, "" for the subscription itself, and the line's number.
Key = tuple[str, str]
#: The maximum time between the removal of a line and the addition of its replacement, in milliseconds.
_SWITCHED_WITHIN = 300_000


class Made(NamedTuple):
    """What a line makes: for each unit a license of each policy, or one license of each for all units."""

    policies: tuple[Policy, ...]
    rule: QuantityRule

    @property
    def products(self) -> frozenset[int | None]:
        """The products of the licenses."""
        return frozenset(one.product_id for one in self.policies)

    def copies(self, quantity: int) -> tuple[int, int]:
        """Return the number of licenses of each policy, and the quantity of each license."""
        return (quantity, 1) if self.rule is QuantityRule.KEYS else (1, quantity)


#: Returns what a line makes; None if that is not known.
Resolve = Callable[[SaleLine], Made | None]


class Line(NamedTuple):
    """A line, and what it makes. ``is_once``: the order pays for it, not the subscription; ``gone_at`` is
    when it was removed; ``sold_as`` is its key in its order.
    """

    key: Key
    line: SaleLine
    made: Made
    is_once: bool = False
    gone_at: int | None = None
    sold_as: Key | None = None


class _Step(NamedTuple):
    at: int
    lines: Mapping[Key, SaleLine]


def list_lines(known: Known, resolve: Resolve) -> list[Line]:
    """List the present lines, and those that were removed."""
    ordered = sorted(known.payments.values(), key=place_of)
    sales = [one for one in ordered if one.snapshots and one.paid_at is not None]
    own = [line for sale in sales for line in _list(_steps_of(sale.snapshots, sale.order), resolve)]
    parts = {} if known.subscription is None else known.subscription.snapshots
    if not parts:
        return own
    taken = _align(sales, parts, resolve)
    found = [one._replace(is_once=True) for one in own if one.key not in taken]
    sold_as = {key: own_key for own_key, (_, key, _) in taken.items()}
    began = max((one.paid_at or 0 for one in sales), default=0)
    first: dict[str, Mapping[Key, SaleLine]] = {part: {} for part in parts}
    for part, key, line in taken.values():
        first[part] = {**first[part], key: line}
    listed = _list(_merge(began, first, parts), resolve)
    return found + [one._replace(sold_as=sold_as.get(one.key)) for one in listed]


def _merge(
    began: int, first: Mapping[str, Mapping[Key, SaleLine]], parts: Mapping[str, Snapshots]
) -> list[_Step]:
    """Merge the steps of all parts of a subscription."""
    now = dict(first)
    steps = [_Step(began, _join(now))]
    changes = [(step, part) for part, some in parts.items() for step in _steps_of(some)]
    for step, part in sorted(changes, key=lambda one: (one[0].at, one[1])):
        now[part] = step.lines
        # Changes at the same moment are one step.
        is_same = len(steps) > 1 and steps[-1].at == step.at
        steps[len(steps) - is_same :] = [_Step(step.at, _join(now))]
    return steps


def _join(parts: Mapping[str, Mapping[Key, SaleLine]]) -> Mapping[Key, SaleLine]:
    return {key: line for lines in parts.values() for key, line in lines.items()}


def _steps_of(snapshots: Snapshots, order: str = "") -> list[_Step]:
    return [_Step(one.at, {(order, line.number): line for line in one.lines}) for one in snapshots]


def _align(
    sales: Sequence[Payment], parts: Mapping[str, Snapshots], resolve: Resolve
) -> dict[Key, tuple[str, Key, SaleLine]]:
    """Find the lines of orders that the subscription continues, by their keys: the part, the key in it, and
    the line. A line that the subscription never listed has its own key.
    """
    taken: dict[Key, tuple[str, Key, SaleLine]] = {}
    for sale in sales:
        lines = [one for one in sale.snapshots[-1].lines if one.recurs is not False]
        for line in lines:
            used = {number for _, (_, number), _ in taken.values()}
            found = _find_listed(line, parts, used)
            if found is not None:
                taken[sale.order, line.number] = (found[0], ("", found[1]), line)
        is_listed = any((sale.order, one.number) in taken for one in lines)
        for line in lines:
            key, part = (sale.order, line.number), min(parts)
            if key not in taken and (line.recurs or (not is_listed and _is_like(line, parts, resolve))):
                taken[key] = (part, key, line)
    return taken


def _find_listed(line: SaleLine, parts: Mapping[str, Snapshots], used: set[str]) -> tuple[str, str] | None:
    """Find the part and number under which a line was first listed: by number, price, or another ref."""
    listed = [
        (part, one)
        for part, snapshots in sorted(parts.items())
        for snapshot in snapshots
        for one in snapshot.lines
        if one.number not in used
    ]
    by_number = [(part, one.number) for part, one in listed if one.number == line.number]
    by_price = [(part, one.number) for part, one in listed if is_same_price(one, line)]
    by_ref = [(part, one.number) for part, one in listed if {*one.refs} & {*line.refs}]
    return next(iter([*by_number, *by_price, *by_ref]), None)


def is_same_price(one: SaleLine, other: SaleLine) -> bool:
    """Whether both lines are for the same price or variation."""
    return one.refs[:1] == other.refs[:1]


def _is_like(line: SaleLine, parts: Mapping[str, Snapshots], resolve: Resolve) -> bool:
    """Whether the subscription began with a line of the same product."""
    firsts = [resolve(one) for snapshots in parts.values() for one in snapshots[0].lines]
    made = resolve(line)
    return made is not None and any(one is not None and one.products & made.products for one in firsts)


def _list(steps: Sequence[_Step], resolve: Resolve) -> list[Line]:
    steps = list(_usable(steps, resolve))
    newest = steps[-1].lines
    found, seen = [Line(key, line, _made(line, resolve)) for key, line in newest.items()], {*newest}
    new = [
        (after.at, key, line)
        for before, after in pairwise(steps)
        for key, line in after.lines.items()
        if key not in before.lines
    ]
    for before, after in reversed(list(pairwise(steps))):
        for key in [one for one in before.lines if one not in after.lines and one not in seen]:
            seen.add(key)
            line, gone_at = before.lines[key], max(before.at, after.at)
            made = _made(line, resolve)
            other = _find_other(key, made, gone_at, new, resolve)
            if other is not None:
                new.remove(other)
            else:
                found.append(Line(key, line, made, gone_at=gone_at))
    return found


def _made(line: SaleLine, resolve: Resolve) -> Made:
    made = resolve(line)
    assert made is not None  # noqa: S101
    return made


def _usable(steps: Iterable[_Step], resolve: Resolve) -> Iterator[_Step]:
    """Yield the steps with only the lines of which it is known what they make. If such a line becomes
    unknown, it stays as it was; a new unknown line preserves a removed one, which it may replace.
    """
    before: Mapping[Key, SaleLine] = {}
    stands_for: dict[Key, Key] = {}
    for step in steps:
        now = {key: one for key, one in step.lines.items() if resolve(one) is not None}
        unknown = [key for key in step.lines if key not in now]
        now |= {key: before[key] for key in unknown if key in before}
        free = [key for key in before if key not in now]
        for key in unknown:
            if key not in before and free:
                kept = stands_for.get(key)
                stands_for[key] = kept if kept in free else free[0]
                free.remove(stands_for[key])
                now[stands_for[key]] = before[stands_for[key]]
        before = now
        yield _Step(step.at, now)


def _find_other(
    key: Key, made: Made, gone_at: int, new: Iterable[tuple[int, Key, SaleLine]], resolve: Resolve
) -> tuple[int, Key, SaleLine] | None:
    """Find the line that replaced a removed one: of the same product, and added at about the same time. A
    switch removes a line from one subscription and adds it to another.
    """
    near = (one for one in new if abs(one[0] - gone_at) <= _SWITCHED_WITHIN and one[1] != key)
    return next((one for one in near if _made(one[2], resolve).products & made.products), None)
