"""The reports: a projection of the events of each month, and a daily count of devices."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from keywright.core.command import Query
from keywright.core.errors import NotFound
from keywright.db import ReadTransaction, WriteTransaction
from keywright.db.rows import to_datetime
from keywright.events.model import Event
from keywright.events.store import event_of, find_deletion_moment
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.provisioning.store import is_product_taken
from keywright.search import reports_rules as rules
from keywright.search import reports_store as store
from keywright.search import terms_store
from keywright.search.reports_rules import LICENSE, MONTH, NORM, VERSION, Figure, History, Key
from keywright.search.statistics import CountDevices, ListVersions, VersionInUse, VersionOnDay, VersionsInUse
from keywright.search.store import list_products_of
from keywright.search.terms_store import Checkpoints

#: How many events can be read in the time of projecting one.
_PER_EVENT = 4
#: The number of events compared in a step.
_COMPARED = 5_000
#: The number of activations counted in a step.
_MAX_DEVICES = 1_000
#: The most versions of a product on a day, and the most unusual licenses.
MAX_VERSIONS, MAX_LICENSES = 100, 200
#: The name that stands for all other versions.
OTHERS = "*"
#: The number of days for which daily device counts are kept.
_KEPT_DAYS = 400


def count_months(tx: WriteTransaction, at: Checkpoints, limit: int) -> int:
    """Add the next events to the monthly figures; returns the cost in events, 0 if none are left."""
    if at.reports_listed != at.reports:
        # A server of an older release has counted.
        _begin_months(tx, at)
    until_id = min(at.events, at.reports + limit * _PER_EVENT)
    if until_id <= at.reports:
        return 0
    found = [one for one in _list_figures(tx, at.reports, until_id) if one.month >= at.reports_since]
    store.add_counts(tx, rules.count_figures(found))
    store.save_figures(tx, found)
    at.reports = at.reports_listed = until_id
    return 0 if until_id == at.events else limit


def _list_figures(tx: ReadTransaction, after_id: int, until_id: int) -> list[Figure]:
    """Return the figures that the events between these IDs add."""
    license_ids = store.list_reported(tx, after_id=after_id, until_id=until_id)
    histories = _list_histories(tx, license_ids) if license_ids else []
    return [
        figure
        for history in histories
        for id, figure in rules.list_figures(history)
        if after_id < id <= until_id
    ]


def _list_histories(tx: ReadTransaction, license_ids: set[int]) -> list[History]:
    trials, products = store.find_trials(tx, license_ids), list_products_of(tx, license_ids)
    found: dict[int, dict[int, Event]] = {one: {} for one in license_ids}
    for row in store.list_history(tx, license_ids):
        event = event_of(row[1:])
        found[event.license_id][row.id] = event
    return [History(one in trials, products.get(one), some) for one, some in found.items()]


def first_sure_month(tx: ReadTransaction) -> int:
    """Return the first month whose events are all still stored, as the number of its first day."""
    moment = find_deletion_moment(tx)
    if not moment:
        return 0
    # A renewal may precede its expiry by up to a window.
    first = to_datetime(moment) + rules.WINDOW
    return rules.month_of(rules.month_after(first))


def first_listed_month(tx: ReadTransaction, at: Checkpoints | None = None) -> int:
    """Return the first month whose figures are also stored as lists of events."""
    at = at or terms_store.find_checkpoints(tx) or Checkpoints()
    return max(first_sure_month(tx), at.reports_since)


def find_wrong(tx: ReadTransaction) -> dict[Key, tuple[int, int]]:
    """Return the monthly figures that differ from the sum of the stored events, as (stored, counted). Reads
    all events of licenses.
    """
    at, since = terms_store.find_checkpoints(tx) or Checkpoints(), first_sure_month(tx)
    counted = Counter[Key]()
    for after_id in range(0, at.reports, _COMPARED):
        counted += rules.count_figures(_list_figures(tx, after_id, min(at.reports, after_id + _COMPARED)))
    stored = store.list_counts(tx, MONTH, since=since, limit=1_000_000)
    keys = {key for key in (*counted, *stored) if key[2] >= since}
    pairs = {key: (stored.get(key, 0), counted.get(key, 0)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def rebuild_months(tx: WriteTransaction) -> None:
    """Let the projection recount the figures of the months whose events are stored."""
    terms_store.lock_projection(tx)
    at = terms_store.find_checkpoints(tx)
    if at is None:
        return
    before = msgspec.structs.replace(at)
    _begin_months(tx, at)
    terms_store.save_checkpoints(tx, before, at)


def _begin_months(tx: WriteTransaction, at: Checkpoints) -> None:
    since = first_sure_month(tx)
    store.delete_counts(tx, MONTH, since=since)
    store.delete_figures(tx)
    at.reports, at.reports_listed, at.reports_since = 0, 0, since


def count_some(tx: WriteTransaction) -> bool:
    """Add some of the projected events to the monthly figures; returns whether there may be more."""
    at = terms_store.lock_checkpoints(tx)
    if at is None:
        return True
    before = msgspec.structs.replace(at)
    has_more = bool(count_months(tx, at, _COMPARED))
    terms_store.save_checkpoints(tx, before, at)
    return has_more


def date_of(day: int) -> date:
    """Return the date of a figure's day."""
    return date(1970, 1, 1) + timedelta(days=day)


# --- the devices of a day ----------------------------------------------------------------------------------


def count_devices(work: UnitOfWork, command: CountDevices) -> bool:
    """Count some devices. Returns whether there are more to count today."""
    tx, now = work.tx, command.context.now
    at, today = terms_store.lock_checkpoints(tx), rules.day_of(now)
    if at is None:
        return True
    before = msgspec.structs.replace(at)
    if at.devices_day != today:
        _begin(tx, at, today)
    elif at.devices_done == today:
        return False
    is_last = _count_next(tx, at, now)
    if is_last:
        _end(tx, at, today)
    terms_store.save_checkpoints(tx, before, at)
    return not is_last


def _begin(tx: WriteTransaction, at: Checkpoints, today: int) -> None:
    for day in {today, at.devices_day} - {at.devices_done}:
        for kind in (VERSION, NORM, LICENSE):
            store.delete_counts(tx, kind, since=day, until=day + 1)
    store.delete_counts(tx, VERSION, until=today - _KEPT_DAYS)
    store.delete_figures(tx, until=first_listed_month(tx, at))
    at.devices_day, at.devices_license, at.devices_token = today, 0, 0


def _count_next(tx: WriteTransaction, at: Checkpoints, now: datetime) -> bool:
    """Count the next devices. Returns whether they were the last ones."""
    place = (at.devices_license, f"{at.devices_token:015x}" if at.devices_token else "")
    found = store.list_devices(tx, place, limit=_MAX_DEVICES)
    is_last = len(found) < _MAX_DEVICES
    if not is_last:
        last = found[-1]
        # All devices of a license are counted together, unless there are too many.
        whole = [one for one in found if one.license_id != last.license_id]
        at.devices_license = last.license_id
        at.devices_token = 0 if whole else terms_store.token_position(last.token) + 1
        found = whole or found
    refusals = store.find_refusals(
        tx, {one.license_id for one in found}, int((now - rules.WINDOW).timestamp())
    )
    norms = store.list_counts(tx, NORM, days=(at.devices_done, at.devices_day))

    def average(policy_id: int, name: str) -> float | None:
        for day in (at.devices_done, at.devices_day):
            number = norms.get((NORM, policy_id, day, "licenses"), 0)
            if number:
                return norms.get((NORM, policy_id, day, name), 0) / number
        return None

    store.add_counts(tx, rules.count_devices(found, refusals, average, now))
    return is_last


def _end(tx: WriteTransaction, at: Checkpoints, today: int) -> None:
    """Keep the highest scores, and delete the figures of the previous count."""
    for kind in (NORM, LICENSE):
        store.delete_counts(tx, kind, until=today)
        store.delete_counts(tx, kind, since=today + 1)
    found = store.list_counts(tx, LICENSE, days=(today,))
    scores = {key[1]: amount for key, amount in found.items() if key[3] == "score"}
    kept = sorted(scores, key=lambda one: (-scores[one], one))[:MAX_LICENSES]
    store.delete_keys(tx, [key for key in found if key[1] not in kept])
    _fold_versions(tx, today)
    at.devices_done = today


def _fold_versions(tx: WriteTransaction, today: int) -> None:
    """If a product has very many versions, merge those with the fewest devices into one."""
    of_products: dict[int, list[tuple[int, Key]]] = defaultdict(list)
    for key, amount in store.list_counts(tx, VERSION, days=(today,)).items():
        of_products[key[1]].append((amount, key))
    for product_id, some in of_products.items():
        few = sorted(some, reverse=True)[MAX_VERSIONS:]
        store.delete_keys(tx, [key for _, key in few])
        folded: dict[Key, int] = defaultdict(int)
        for amount, key in few:
            days = key[3].rpartition("\t")[2]
            folded[VERSION, product_id, today, f"{OTHERS}\t\t{days}"] += amount
        store.add_counts(tx, folded)


# --- queries of pages and programs ------------------------------------------------------------------------


def list_versions(read: Any, query: ListVersions) -> VersionsInUse:
    """Return which versions of a product are in use. Raises ``NotFound``."""
    number = query.product_id
    if query.only_product_id not in (None, number) or not is_product_taken(read.tx, number):
        raise NotFound(f"product {number}")
    return read_versions(read.tx, query)


def read_versions(tx: ReadTransaction, query: ListVersions) -> VersionsInUse:
    """Return which versions of an existing product are in use."""
    at = terms_store.find_checkpoints(tx) or Checkpoints()
    since = min(rules.day_of(query.now), at.devices_done) - query.days
    found = store.list_counts(tx, VERSION, subjects=(query.product_id,), since=since)
    done = {key: amount for key, amount in found.items() if key[2] <= at.devices_done}
    return VersionsInUse(
        date_of(at.devices_done) if at.devices_done else None,
        sum(amount for key, amount in done.items() if key[2] == at.devices_done),
        tuple(_versions_of(done, at.devices_done)),
        tuple(_days_of(done)),
    )


def _versions_of(found: Mapping[Key, int], day: int) -> list[VersionInUse]:
    seen: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for key, amount in found.items():
        if key[2] == day:
            version, platform, days = key[3].split("\t")
            for within in rules.SEEN_WITHIN:
                seen[version, platform][within] += amount * (int(days) <= within)
    every = [VersionInUse(*name, one[30], one[1], one[7]) for name, one in seen.items()]
    return sorted(every, key=lambda one: (-one.devices, one.app_version, one.platform))


def _days_of(found: Mapping[Key, int]) -> list[VersionOnDay]:
    days: dict[tuple[int, str], int] = defaultdict(int)
    for key, amount in found.items():
        days[key[2], key[3].partition("\t")[0]] += amount
    return [VersionOnDay(date_of(day), version, days[day, version]) for day, version in sorted(days)]


class Month(NamedTuple):
    """The figures of a month. ``is_open`` means that some of its expiries may still be renewed."""

    first: date
    is_open: bool
    made: int
    expiries: int
    renewed: int
    refunded: int
    trials: int
    bought: int

    @property
    def last(self) -> date:
        """Its last day."""
        return _next_month(self.first) - timedelta(days=1)

    @property
    def lapsed(self) -> int:
        """The expiries that were not renewed."""
        return max(0, self.expiries - self.renewed)

    @property
    def rate(self) -> float | None:
        """The renewal rate, from 0.0 to 1.0; None without expiries."""
        return self.renewed / self.expiries if self.expiries else None


_NAMES = ("made", "expiries", "renewed", "refunded", "trials", "bought")


def _next_month(first: date) -> date:
    """Return the first day of the next month."""
    return (first + timedelta(days=31)).replace(day=1)


def _first_days(now: datetime, months: int) -> dict[date, int]:
    """Return the first days of the last months, newest first, each with its number."""
    firsts = [now.date().replace(day=1)]
    while len(firsts) < months:
        firsts.append((firsts[-1] - timedelta(days=1)).replace(day=1))
    return {one: (one - date_of(0)).days for one in firsts}


def list_months(tx: ReadTransaction, now: datetime, months: int, product_id: int = 0) -> list[Month]:
    """Return the figures of the last months, newest first, of a product; 0 means all licenses."""
    days, opens = _first_days(now, months), now.date() - rules.WINDOW
    found = store.list_counts(tx, MONTH, subjects=(product_id,), days=[*days.values()])
    return [
        Month(
            first,
            _next_month(first) > opens,
            *(found.get((MONTH, product_id, day, name), 0) for name in _NAMES),
        )
        for first, day in days.items()
    ]


def sum_months(
    tx: ReadTransaction, now: datetime, months: int, products: Collection[int]
) -> dict[int, Month]:
    """Return the sums of the last months by product; products without figures are left out."""
    days = _first_days(now, months)
    sums = store.sum_months(tx, products, [*days.values()])
    return {
        number: Month(min(days), True, *(one.get(name, 0) for name in _NAMES)) for number, one in sums.items()
    }


def list_newest_versions(tx: ReadTransaction, subjects: Collection[int]) -> dict[int, list[VersionInUse]]:
    """Return the versions of these products that are in use, from the last count."""
    at = terms_store.find_checkpoints(tx) or Checkpoints()
    found = store.list_counts(tx, VERSION, subjects=subjects, days=(at.devices_done,))
    of_products: dict[int, dict[Key, int]] = defaultdict(dict)
    for key, amount in found.items():
        of_products[key[1]][key] = amount
    return {number: _versions_of(some, at.devices_done) for number, some in of_products.items()}


def find_counted_day(tx: ReadTransaction) -> date | None:
    """Return the last day on which devices were counted; None if there is none."""
    at = terms_store.find_checkpoints(tx) or Checkpoints()
    return date_of(at.devices_done) if at.devices_done else None


class Unusual(NamedTuple):
    """A license with more than similar licenses: devices and networks within 30 days, and refusals."""

    license: License
    devices: int
    networks: int
    refusals: int


def list_unusual(tx: ReadTransaction) -> list[Unusual]:
    """The licenses with more than similar ones at the last count of devices, most unusual first."""
    at = terms_store.find_checkpoints(tx) or Checkpoints()
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for key, amount in store.list_counts(tx, LICENSE, days=(at.devices_done,)).items():
        found[key[1]][key[3]] = amount
    order = sorted(found, key=lambda one: (-found[one].get("score", 0), one))[:MAX_LICENSES]
    return [
        Unusual(license, *(found[license.id].get(name, 0) for name in ("devices", "networks", "refusals")))
        for license in find_licenses_by_id(tx, order).values()
    ]


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {ListVersions: list_versions}
