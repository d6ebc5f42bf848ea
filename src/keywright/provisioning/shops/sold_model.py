"""The stored facts from shops: payments, subscriptions, and the licenses that were sold.

Times of the shop are in milliseconds since 1970.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.provisioning.shops.model import Does, QuantityRule, SaleLine, SaleState


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The lines of an order, or of a subscription, from a moment on, sorted by their numbers. ``is_asked``:
    they are an answer of the shop's API.
    """

    at: int
    lines: tuple[SaleLine, ...]
    is_asked: bool = False


#: A shop's reports of the same lines, oldest first.
Snapshots = tuple[Snapshot, ...]


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts of a payment: when it was made (None while only a state is known), and the newest state
    of each aspect. A sale has ``snapshots`` of its lines; ``is_proration``: it pays for no period.
    """

    order: str
    subscription: str | None = None
    paid_at: int | None = None
    until: datetime | None = None
    state: SaleState = SaleState.ACTIVE
    state_at: int = 0
    refund: SaleState = SaleState.ACTIVE
    refund_at: int = 0
    dispute: SaleState = SaleState.ACTIVE
    dispute_at: int = 0
    is_proration: bool = False
    snapshots: Snapshots = ()


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts of a subscription: its state, and since when; when it last ended; and the snapshots of
    its lines, by part (see ``Lines``).
    """

    ref: str
    state: SaleState = SaleState.ACTIVE
    state_at: int = 0
    ended_at: int = 0
    snapshots: Mapping[str, Snapshots] = {}


class SoldLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that makes licenses, and what it makes, which is fixed when it is sold and for as long as its
    price stays the same. ``listed_as`` is its number in the order ``listed_in``, or in the subscription, if
    that lists its lines; ``listed_in`` is "" then. ``is_known`` is false for a line about which an older
    version of Keywright stored nothing.
    """

    order: str
    line: str
    subscription: str | None = None
    listed_in: str
    listed_as: str
    refs: tuple[str, ...] = ()
    policy_ids: tuple[int, ...] = ()
    rule: QuantityRule = QuantityRule.KEYS
    is_known: bool = True


class SoldLicense(msgspec.Struct, frozen=True, kw_only=True):
    """A license that a line made, with the shop's last report of it, and the expiry by its terms, which
    counts until a report states one. ``item`` is the index of the policy in a bundle. ``is_over``: the line
    now has fewer licenses, or others. ``event_id`` is the event that last made, restored or changed it.
    """

    order: str
    line: str
    number: int
    item: int = 0
    license_id: int
    subscription: str | None
    status: int
    expires_at: datetime | None
    terms_expire_at: datetime | None = None
    policy_id: int | None = None
    quantity: int = 1
    has_grace: bool = True
    is_over: bool = False
    event_id: int | None = None


class LicenseBefore(msgspec.Struct, frozen=True, kw_only=True):
    """A license as it was before its first later purchase."""

    expires_at: datetime | None
    policy_id: int | None
    terms: Mapping[str, Any]


class LaterPurchase(msgspec.Struct, frozen=True, kw_only=True):
    """A line of an order that renews a license by so many days for each unit, or upgrades it to a policy;
    both are fixed when it is sold.
    """

    connection_id: int
    order: str
    line: str
    subscription: str | None
    license_id: int
    does: Does
    policy_id: int
    days: int | None
    quantity: int
    before: LicenseBefore

    @property
    def key(self) -> tuple[int, str, str]:
        """The unique key."""
        return self.connection_id, self.order, self.line


#: The largest number of snapshots, and how long one that equals its neighbors is kept: events may be late.
_MAX_SNAPSHOTS, _REPEATED = 200, timedelta(days=30) // timedelta(milliseconds=1)


def a_snapshot(at: int, lines: Iterable[SaleLine], *, is_asked: bool = False) -> Snapshot:
    """Build a snapshot: the lines sorted by their numbers, without their titles."""
    return Snapshot(at, tuple(replace(one, title="") for one in sorted(lines, key=_number)), is_asked)


def is_contradicted(snapshots: Snapshots, new: Snapshot) -> bool:
    """Whether another report is of the same moment, and the shop's API was not asked which is true."""
    same = (one for one in snapshots if one.at == new.at)
    return any(one.lines != new.lines and not (one.is_asked or new.is_asked) for one in same)


def add_snapshot(snapshots: Snapshots, new: Snapshot) -> Snapshots:
    """Add a snapshot, in the order of the shop's clock. Of two at the same moment, the answer of the shop's
    API counts, otherwise the larger quantity of each line.
    """
    for one in snapshots:
        if one.at == new.at:
            new = _merge_snapshots(one, new)
    return _shorten(sorted([*(one for one in snapshots if one.at != new.at), new], key=lambda one: one.at))


def _merge_snapshots(one: Snapshot, other: Snapshot) -> Snapshot:
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
    """Remove old snapshots that equal the ones before and after them."""
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
