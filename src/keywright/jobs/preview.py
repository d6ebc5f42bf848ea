"""What an order would change, before it does: the first licenses before and after, and how many of each."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from keywright.core.errors import NothingActive, NothingToChange, Refusal
from keywright.db import ReadTransaction
from keywright.events.store import list_events
from keywright.jobs.orders import Change, What
from keywright.jobs.reasons import reason_of
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import extended, raised_limit, require_later
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.undo.rules import UNUSABLE, status_before
from keywright.search.license_pages import find_matching_ids

#: The most licenses that are looked at, and that are shown.
MAX_LOOKED_AT, MAX_SHOWN = 1_000, 8
#: The number of latest events of a license in which its former status is looked for.
_MAX_EVENTS = 50
#: The time budget for finding them, in seconds.
_BUDGET = 0.08

#: A field of a license in its event, and its value before and after; None is none.
Value = datetime | int | None


class Line(NamedTuple):
    """A license that would change: the field by its name in events, before and after. ``field`` is "" for one
    that would be deleted.
    """

    license: License
    field: str
    before: Value
    after: Value


class Preview(NamedTuple):
    """Of the first ``looked_at`` licenses, how many would change, the first of them, and how many would not,
    by the reason; ``stay_expired`` of those that would be extended would still be expired.
    """

    lines: list[Line]
    changed: int
    unchanged: dict[str, int]
    looked_at: int
    stay_expired: int = 0


def preview(tx: ReadTransaction, order: Change, now: datetime) -> Preview:
    """What the order would change now."""
    lines: list[Line] = []
    changed, stay_expired, reasons = 0, 0, Counter[str]()
    licenses = find_licenses_by_id(tx, _first_ids(tx, order, now))
    for license in licenses.values():
        try:
            line = _predict(order, license, now)
        except Refusal as refusal:
            reasons[reason_of(refusal)] += 1
            continue
        changed += 1
        stay_expired += isinstance(line.after, datetime) and line.after <= now
        if len(lines) < MAX_SHOWN:
            lines.append(_with_former_status(tx, line) if order.what is What.ENABLE else line)
    return Preview(lines, changed, dict(reasons), len(licenses), stay_expired)


def _first_ids(tx: ReadTransaction, order: Change, now: datetime) -> list[int]:
    if order.search is None:
        return sorted(set(order.license_ids or ()))[:MAX_LOOKED_AT]
    found = find_matching_ids(tx, order.search, after_id=0, limit=MAX_LOOKED_AT, now=now, budget=_BUDGET)
    return list(found.ids)


def _predict(order: Change, license: License, now: datetime) -> Line:
    """The change of one license. Raises what the change would raise."""
    amount = order.amount or 0
    match order.what:
        case What.EXTEND:
            later = require_later(license, extended(license, now, **order.extension()))
            return Line(license, "expires_at", license.expires_at, later)
        case What.RAISE_LIMIT:
            return _limit_line(license, raised_limit(license, amount))
        case What.SET_LIMIT:
            return _limit_line(license, order.amount)
        case What.DEACTIVATE_ALL:
            if not license.times_activated:
                raise NothingActive(license.key)
            return Line(license, "times_activated", license.times_activated, 0)
        case What.DELETE:
            return Line(license, "", None, None)
        case What.SET_STATUS | What.DISABLE | What.ENABLE:
            return _status_line(order, license)


def _limit_line(license: License, limit: int | None) -> Line:
    if license.times_activated_max == limit:
        raise NothingToChange
    return Line(license, "times_activated_max", license.times_activated_max, limit)


def _status_line(order: Change, license: License) -> Line:
    status = Status.DISABLED if order.what is What.DISABLE else Status(order.amount or Status.ACTIVE)
    is_like_that = license.status not in UNUSABLE if order.what is What.ENABLE else license.status == status
    if is_like_that:
        raise NothingToChange
    return Line(license, "status", license.status, status)


def _with_former_status(tx: ReadTransaction, line: Line) -> Line:
    return line._replace(after=status_before(list_events(tx, line.license.id, limit=_MAX_EVENTS)))
