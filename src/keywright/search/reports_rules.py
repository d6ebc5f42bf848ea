"""The figures of the reports. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

import msgspec

from keywright.db.rows import to_datetime
from keywright.events.model import Event
from keywright.licensing.licenses.model import Status

#: A license counts as renewed for an expiry that is at most so far away, before or after; a device is active
#: that was seen within so long.
WINDOW = timedelta(days=30)
#: The kinds of figures, see the table ``report_counts``, and a figure: its kind, subject, day and name.
MONTH, VERSION, NORM, LICENSE = "month", "version", "norm", "license"
Key = tuple[str, int, int, str]
#: A device is counted as seen within so many days.
SEEN_WITHIN = (1, 7, 30)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TEXT = 64
#: The networks of addresses: their lengths in bits.
_IPV4_BITS, _IPV6_BITS = 24, 48
#: A license has more of something than its like that has so many times their average, and at least so much.
_TIMES, _LEAST = 3, 5
#: It is listed for more of so many things: one alone has many innocent reasons.
_REASONS = 2


class Device(NamedTuple):
    """What the reports count of an activation; ``seen_at`` is None for never."""

    license_id: int
    token: str
    product_id: int | None
    policy_id: int | None
    app_version: str | None
    platform: str | None
    ip_address: str
    created_at: int
    deactivated_at: int | None
    seen_at: int | None


class History(msgspec.Struct):
    """What is known of a license beside an event: whether it began as a trial, and its updates and expiries,
    each by the id of its event, in order.
    """

    is_trial: bool = False
    product_id: int | None = None
    updates: dict[int, Mapping[str, Any]] = {}
    expired: dict[int, str] = {}

    def was_trial(self, id: int) -> bool:
        """Whether it was a trial still at this event."""
        return self.is_trial and not any(is_bought(one) for other, one in self.updates.items() if other < id)

    def product_at(self, id: int) -> int | None:
        """Its product at this event: what a later move states, even none, or the present one."""
        moves = (
            _pair(one, "product_id")[0]
            for other, one in self.updates.items()
            if other > id and "product_id" in one
        )
        return next(moves, self.product_id)


def day_of(moment: datetime) -> int:
    """The number of its day (UTC), as ``report_counts`` has it."""
    return (moment - _EPOCH).days


def month_of(moment: datetime) -> int:
    """The number of the first day of its month."""
    return day_of(moment.replace(day=1))


def month_after(moment: datetime) -> datetime:
    """A moment in the next month."""
    return moment.replace(day=1) + timedelta(days=31)


def figures_of(id: int, event: Event, history: History) -> Iterable[tuple[datetime, str]]:
    """The figures that an event adds one to, each with a moment of its month."""
    details, at = event.details or {}, event.occurred_at
    if event.name == "license.created":
        yield at, "trials" if history.is_trial else "made"
    elif event.name == "license.imported" and "created_at" in details:
        # New on the day on which it was made; without that day, the import has changed a license.
        yield min(at, to_datetime(details["created_at"])), "made"
    elif event.name == "license.expired" and not history.was_trial(id):
        yield datetime.fromisoformat(details["expires_at"]), "expiries"
    elif event.name == "license.updated":
        if is_bought(details):
            yield at, "bought"
        elif not history.was_trial(id):
            yield from _renewals_of(id, event, history)
        if event.actor.startswith("connection:") and _pair(details, "status")[1] == Status.DISABLED:
            yield at, "refunded"


def is_bought(details: Mapping[str, Any]) -> bool:
    """Whether an update made a paid license of a trial."""
    return _pair(details, "trial") == (True, False)


def _renewals_of(id: int, event: Event, history: History) -> Iterable[tuple[datetime, str]]:
    before, after = _pair(event.details or {}, "expires_at")
    if before is None:
        return
    due = datetime.fromisoformat(before)
    is_later = after is None or datetime.fromisoformat(after) > due
    if is_later and abs(event.occurred_at - due) <= WINDOW:
        yield due, "renewed"
        if not any(at == before for other, at in history.expired.items() if other < id):
            # It did not expire, and never will at that moment.
            yield due, "expiries"


def _pair(details: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """A field before and after; both None where it has not changed."""
    found = details.get(name)
    return (found[0], found[1]) if isinstance(found, list | tuple) else (None, None)


def count_months(happened: Mapping[int, Event], histories: Mapping[int, History]) -> Counter[Key]:
    """The figures of months that these events, by id, add to."""
    found: Counter[Key] = Counter()
    for id, event in happened.items():
        history = histories.get(event.license_id) or History()
        for moment, name in figures_of(id, event, history):
            for subject in {0, history.product_at(id) or 0}:
                found[MONTH, subject, month_of(moment), name] += 1
    return found


def count_devices(
    devices: Sequence[Device],
    refusals: Mapping[int, int],
    average: Callable[[int, str], float | None],
    now: datetime,
) -> Counter[Key]:
    """The figures of a day that these devices, all that their licenses have, add to. ``average`` tells what a
    license of a policy has, as of the count before.
    """
    since, day, found = int((now - WINDOW).timestamp()), day_of(now), Counter[Key]()
    of_licenses: dict[int, list[Device]] = defaultdict(list)
    for one in devices:
        if one.deactivated_at is None and (one.seen_at or 0) >= since:
            found[VERSION, one.product_id or 0, day, version_name(one, now)] += 1
        if max(one.created_at, one.seen_at or 0) >= since:
            of_licenses[one.license_id].append(one)
    for license_id, some in of_licenses.items():
        policy_id = some[0].policy_id or 0
        has = {
            "devices": len(some),
            "networks": len({network_of(one.ip_address) for one in some} - {""}),
            "refusals": refusals.get(license_id, 0),
        }
        for name, amount in {"licenses": 1, **has}.items():
            found[NORM, policy_id, day, name] += amount
        more = {name: _times(amount, average(policy_id, name)) for name, amount in has.items()}
        if sum(map(bool, more.values())) >= _REASONS:
            for name, amount in {**has, "score": sum(more.values())}.items():
                found[LICENSE, license_id, day, name] = amount
    return found


def version_name(device: Device, now: datetime) -> str:
    """The version, the platform, and within how many days the device was seen, separated by tabs."""
    texts = ((text or "")[:_MAX_TEXT].replace("\t", " ") for text in (device.app_version, device.platform))
    age = (int(now.timestamp()) - (device.seen_at or 0)) / 86_400
    days = next((one for one in SEEN_WITHIN if age <= one), SEEN_WITHIN[-1])
    return "\t".join((*texts, str(days)))


def _times(amount: int, average: float | None) -> int:
    """How many times the average it is, in hundredths; 0 where it is not more than its like have."""
    if average is None or amount < _LEAST or amount < _TIMES * average:
        return 0
    return round(100 * amount / max(average, 0.01))


def network_of(address: str) -> str:
    """The network of an address, its first 24 bits or, of IPv6, 48; "" for none."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    bits = _IPV4_BITS if parsed.version == 4 else _IPV6_BITS
    return str(ip_network((parsed, bits), strict=False))
