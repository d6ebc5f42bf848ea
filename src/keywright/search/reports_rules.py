"""The figures of the reports. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

from keywright.db.rows import to_datetime
from keywright.events.model import Event
from keywright.licensing.licenses.model import Status

#: A renewal counts for an expiry at most this far away, before or after; a device seen within this time is
#: active.
WINDOW = timedelta(days=30)
#: The kinds of figures (see the table ``report_counts``), and the key of a figure: kind, subject, day and
#: name.
MONTH, VERSION, NORM, LICENSE = "month", "version", "norm", "license"
Key = tuple[str, int, int, str]
#: The list of expiries that were not renewed; their number is the difference of two figures.
LAPSED = "lapsed"
#: Devices are counted by whether they were seen within this many days.
SEEN_WITHIN = (1, 7, 30)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TEXT = 64
#: The lengths of network prefixes, in bits.
_IPV4_BITS, _IPV6_BITS = 24, 48
#: A license has unusually many of something if it has at least this many times the average for its policy,
#: and at least this number.
_TIMES, _LEAST = 3, 5
#: A license is listed if this many of its numbers are unusual: a single one has many innocent reasons.
_REASONS = 2


class Device(NamedTuple):
    """What the reports use of an activation; ``seen_at`` is None for never."""

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


class History(NamedTuple):
    """A license whose events are counted: whether it began as a trial, its present product, and its events
    that change a figure, by ID.
    """

    is_trial: bool
    product_id: int | None
    events: Mapping[int, Event]


class Figure(NamedTuple):
    """What an event adds to a monthly figure: the number of the month's first day, the name, the event in the
    list of the figure, and the product. With ``amount`` -1, that event is removed from the list.
    """

    month: int
    name: str
    event_id: int
    product_id: int | None
    amount: int = 1


class Counted(NamedTuple):
    """A figure as a list of events: its name, its months, and the product, 0 for all licenses."""

    name: str
    months: tuple[int, ...]
    subject_id: int = 0


_MONTHS = r"((?:19|20)\d\d-(?:0[1-9]|1[0-2]))"
_COUNTED = re.compile(
    rf"(made|trials|bought|expiries|renewed|{LAPSED}|refunded):{_MONTHS}\.\.{_MONTHS}:(\d{{1,18}})"
)


#: The most months of a list.
_MAX_MONTHS = 36


def parse_counted(text: str) -> Counted | None:
    """Parse a figure in a URL: ``renewed:2026-01..2026-03:7``; None for any other text."""
    if (found := _COUNTED.fullmatch(text)) is None:
        return None
    first, last = (datetime.fromisoformat(f"{one}-01").replace(tzinfo=UTC) for one in found.group(2, 3))
    months = list[int]()
    while first <= last and len(months) < _MAX_MONTHS:
        months.append(month_of(first))
        first = month_after(first).replace(day=1)
    return Counted(found[1], (*months,), int(found[4])) if months else None


def day_of(moment: datetime) -> int:
    """Return the number of the moment's day (UTC), as in ``report_counts``."""
    return (moment - _EPOCH).days


def month_of(moment: datetime) -> int:
    """Return the number of the first day of the moment's month."""
    return day_of(moment.replace(day=1))


def month_after(moment: datetime) -> datetime:
    """Return a moment in the next month."""
    return moment.replace(day=1) + timedelta(days=31)


def list_figures(history: History) -> Iterator[tuple[int, Figure]]:
    """Yield the figures of a license, each with the ID of the event that adds to it. They depend on this
    event and on earlier ones; the product is the license's product at that time.
    """
    products, dues, is_trial = _list_products(history), _Dues(), history.is_trial
    for id, event in sorted(history.events.items()):
        details, product_id = event.details or {}, products[id]
        if event.name in ("license.created", "license.imported"):
            for at, name in _count_creation(event, is_trial=is_trial):
                yield id, Figure(month_of(at), name, id, product_id)
            continue
        if is_bought(details):
            is_trial = False
            yield id, Figure(month_of(event.occurred_at), "bought", id, product_id)
        elif not is_trial:
            for at, name, of_id, amount in dues.count(id, event):
                yield id, Figure(month_of(at), name, of_id if amount < 0 else id, products[of_id], amount)
        if event.actor.startswith("connection:") and _pair(details, "status")[1] == Status.DISABLED:
            yield id, Figure(month_of(event.occurred_at), "refunded", id, product_id)


def _list_products(history: History) -> dict[int, int | None]:
    """Return the product after each event: the former product in the next change of product, even if None, or
    else the present one.
    """
    found, product_id = dict[int, int | None](), history.product_id
    for id, event in sorted(history.events.items(), reverse=True):
        found[id] = product_id
        if "product_id" in (event.details or {}) and event.name == "license.updated":
            product_id = _pair(event.details or {}, "product_id")[0]
    return found


def _count_creation(event: Event, *, is_trial: bool) -> Iterator[tuple[datetime, str]]:
    details, at = event.details or {}, event.occurred_at
    if event.name == "license.created":
        yield at, "trials" if is_trial else "made"
    elif "created_at" in details:
        # New on the day it was made; without ``created_at``, the import changed an existing license.
        yield min(at, to_datetime(details["created_at"])), "made"


def is_bought(details: Mapping[str, Any]) -> bool:
    """Whether an update turned a trial into a paid license."""
    return _pair(details, "trial") == (True, False)


class _Dues:
    """The expiries of a license, each counted once."""

    def __init__(self) -> None:
        #: The event with which each was counted.
        self.counted: dict[datetime, int] = {}
        self.renewed: set[datetime] = set()

    def count(self, id: int, event: Event) -> Iterator[tuple[datetime, str, int, int]]:
        """Yield what an event adds, each with the event that states the product. A renewal counts for the
        product that the license had when it expired.
        """
        details = event.details or {}
        if event.name == "license.expired":
            due = datetime.fromisoformat(details["expires_at"])
            if due not in self.counted:
                self.counted[due] = id
                yield from ((due, name, id, 1) for name in ("expiries", LAPSED))
            return
        before, after = _pair(details, "expires_at")
        if before is None:
            return
        due = datetime.fromisoformat(before)
        is_later = after is None or datetime.fromisoformat(after) > due
        if not is_later or abs(event.occurred_at - due) > WINDOW or due in self.renewed:
            return
        self.renewed.add(due)
        if due in self.counted:
            yield due, LAPSED, self.counted[due], -1
        else:
            # It was renewed in time, so it will not expire at that moment.
            self.counted[due] = id
            yield due, "expiries", id, 1
        yield due, "renewed", self.counted[due], 1


def _pair(details: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """Return a field before and after; both None if it has not changed."""
    found = details.get(name)
    return (found[0], found[1]) if isinstance(found, list | tuple) else (None, None)


def count_figures(figures: Iterable[Figure]) -> Counter[Key]:
    """Sum figures by product and for all licenses."""
    found: Counter[Key] = Counter()
    for one in figures:
        if one.name != LAPSED:
            found.update((MONTH, subject, one.month, one.name) for subject in subjects_of(one))
    return found


def subjects_of(figure: Figure) -> set[int]:
    """Return the subjects of a figure: 0 for all licenses, and the product."""
    return {0, figure.product_id or 0}


def count_devices(
    devices: Sequence[Device],
    refusals: Mapping[int, int],
    average: Callable[[int, str], float | None],
    now: datetime,
) -> Counter[Key]:
    """Return what these devices, all devices of their licenses, add to the figures of a day. ``average``
    returns the average for licenses of a policy in the previous count.
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
    """Return the version, the platform, and within how many days the device was seen, separated by tabs."""
    texts = ((text or "")[:_MAX_TEXT].replace("\t", " ") for text in (device.app_version, device.platform))
    age = (int(now.timestamp()) - (device.seen_at or 0)) / 86_400
    days = next((one for one in SEEN_WITHIN if age <= one), SEEN_WITHIN[-1])
    return "\t".join((*texts, str(days)))


def _times(amount: int, average: float | None) -> int:
    """Return the multiple of the average, in hundredths; 0 if the amount is not unusual."""
    if average is None or amount < _LEAST or amount < _TIMES * average:
        return 0
    return round(100 * amount / max(average, 0.01))


def network_of(address: str) -> str:
    """Return the network of an address: its first 24 bits, or 48 for IPv6; "" if it is not an address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    bits = _IPV4_BITS if parsed.version == 4 else _IPV6_BITS
    return str(ip_network((parsed, bits), strict=False))
