"""Plan the next step of a job, outside the desk; preview what an order would change."""

from collections import Counter, deque
from collections.abc import Collection, Set
from datetime import datetime
from typing import Any, NamedTuple

from keywright.core.command import Context
from keywright.core.errors import NothingActive, NothingToChange, Refusal
from keywright.db.rows import to_seconds
from keywright.db.transaction import ReadTransaction
from keywright.events.store import list_events
from keywright.jobs import files, mailings, orders
from keywright.jobs.model import ChangeStep, ExportStep, GenerateStep, Job, JobStep
from keywright.jobs.orders import (
    Apply,
    Change,
    Export,
    Generate,
    Import,
    MakeFiles,
    Notify,
    TakeBack,
    What,
    reason_of,
)
from keywright.jobs.store import list_job_licenses
from keywright.licensing.activations.model import DeactivateAll
from keywright.licensing.licenses.model import (
    ApplyTerms,
    DeleteLicense,
    ExtendLicense,
    License,
    LicenseCommand,
    RaiseLimit,
    Status,
    UpdateLicense,
    order_of,
)
from keywright.licensing.licenses.rules import expiry_after, extended, raised_limit, require_later
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.undo.rules import UNUSABLE, EnableLicense, RevertChanges, status_before
from keywright.provisioning.policies.model import GenerateLicenses
from keywright.search.filters import Search, sources_of
from keywright.search.license_pages import find_matching_ids
from keywright.search.scan_store import find_among
from keywright.search.terms_store import list_states

#: The fields of a search that must equal a field of the license.
_FIELDS = {
    "license_id": "id",
    "status": "status",
    "product_id": "product_id",
    "order_id": "order_id",
    "customer_id": "customer_id",
    "policy_id": "policy_id",
    "made_by": "created_by",
    "external_id": "external_id",
}
#: The fields of a search that are not conditions, or are ignored (see ``find_unmatched``).
NOT_COMPARED = frozenset({"order", "term", "is_prefix"})


def find_unmatched(
    tx: ReadTransaction, search: Search, licenses: Collection[License], now: datetime
) -> set[int]:
    """The IDs of those licenses, found earlier, that no longer match the search. Expiries are relative to
    ``now``.

    This compares the fields of the given licenses, and whether any activation is recorded. Data in other
    tables (tags, when a license was seen, what a job changed, which user created it) is read again. Search
    terms (a token, a label, an address) are ignored: a license has them as long as it has its activations,
    and an activation deleted in the last seconds is no reason to omit the license.
    """
    used = _find_used(tx, licenses) if search.is_unused else frozenset[int]()
    recorded = _find_recorded(tx, search, licenses, now)
    return {
        one.id
        for one in licenses
        if one.id in used or one.id not in recorded or not _matches(search, one, now)
    }


def _find_recorded(
    tx: ReadTransaction, search: Search, licenses: Collection[License], now: datetime
) -> Set[int]:
    """The IDs of those that match the search in other tables, which are never buffered in memory before they
    are written.
    """
    numbers = {one.id for one in licenses}
    asked = Search(
        tag=search.tag,
        unseen_for_days=search.unseen_for_days,
        job_id=search.job_id,
        made_by_user=search.made_by_user,
    )
    return numbers if asked == Search() else find_among(tx, numbers, sources_of(asked, now))


def _find_used(tx: ReadTransaction, licenses: Collection[License]) -> Set[int]:
    """The IDs of those ever activated; the counter includes activations that are not written yet."""
    states = list_states(tx, [one.id for one in licenses])
    recorded = {number for number, state in states.items() if state.is_used}
    return recorded | {one.id for one in licenses if one.active_count}


def _matches(search: Search, license: License, now: datetime) -> bool:
    for asked, name in _FIELDS.items():
        value = getattr(search, asked)
        if value is not None and getattr(license, name) != value:
            return False
    limit = license.times_activated_max
    if search.is_full and (limit is None or license.times_activated < limit):
        return False
    return _has_order_ref(search, license) and _matches_times(search, license, now)


def _has_order_ref(search: Search, license: License) -> bool:
    order = order_of(license)
    return search.order_ref is None or (order.number is None and order.id == search.order_ref)


def _matches_times(search: Search, license: License, now: datetime) -> bool:
    expires_at, days = license.expires_at, search.expiring_within_days
    if days is not None and (expires_at is None or not now < expires_at <= expiry_after(now, days)):
        return False
    if search.is_expired and (expires_at is None or expires_at > now):
        return False
    spans = (expires_at, search.expires), (license.created_at, search.created)
    return all(_is_between(*one) for one in (*spans, (license.updated_at, search.updated)))


def _is_between(time: datetime | None, span: tuple[datetime | None, datetime | None] | None) -> bool:
    """Whether a time, in whole seconds, is between two moments. None is, if there is no bound."""
    first, last = (None if one is None else to_seconds(one) for one in span or (None, None))
    if time is None:
        return first is None and last is None
    seconds = to_seconds(time)
    return (first is None or seconds > first) and (last is None or seconds < last)


#: The sizes of steps: a few milliseconds of work, because other calls wait for it (see decision 019).
KEYS_PER_STEP = 25
LICENSES_PER_STEP = 25
FILES_PER_STEP = 10
ROWS_PER_STEP = 100
#: A part of a table has up to 25 lines.
PARTS_PER_STEP = 4
#: The number of matching licenses to read ahead, and the time budget for that, in seconds.
_LOOK_AHEAD, _BUDGET = 1_000, 0.25

_NEW_STATUS = {What.DISABLE: Status.DISABLED}
#: The changes without parameters.
_PLAIN: dict[What, type[LicenseCommand]] = {
    What.DEACTIVATE_ALL: DeactivateAll,
    What.DELETE: DeleteLicense,
    What.ENABLE: EnableLicense,
}


class Plan:
    """Plans the steps of a job, one after another, for the worker that claimed it."""

    def __init__(self, job: Job, claimed_by: str, *, halvings: int = 0) -> None:
        """``halvings`` is how often the size of a step is halved, down to a single license."""
        self._halvings = halvings
        self._order = orders.order_of(job)
        self._last_license_id = orders.parameters_of(job).last_license_id
        self._origin = orders.origin_of(job)
        self._by = job.created_by or orders.api_key_of(job)
        self._ordered_at = job.created_at
        self._claimed_by = claimed_by
        self._ahead: deque[int] = deque()
        #: The ID after which to search for more licenses; None if there are no more.
        self._after: int | None = job.position

    def next_step(self, tx: ReadTransaction, job: Job, now: datetime) -> JobStep:
        """The next step of the job at its position."""
        fields = {
            "context": Context(now, self._origin, self._by),
            "job_id": job.id,
            "claimed_by": self._claimed_by,
            "position": job.position,
        }
        match self._order:
            case Generate():
                return _generate_step(self._order, job, fields, self._size(KEYS_PER_STEP))
            case Change() | Apply():
                return self._change_step(tx, self._order, fields)
            case TakeBack():
                return _take_back_step(tx, self._order, fields, self._size(LICENSES_PER_STEP))
            case Export():
                return self._export_step(tx, self._order, fields)
            case Notify() | MakeFiles():
                return mailings.next_step(tx, self._order, job, fields, self._size(FILES_PER_STEP))
            case Import():
                return files.build_step(tx, self._order, job, fields, self._size(PARTS_PER_STEP))

    def _size(self, usual: int) -> int:
        return max(1, usual >> self._halvings)

    def _change_step(self, tx: ReadTransaction, order: Change | Apply, fields: dict[str, Any]) -> ChangeStep:
        numbers = self._next_ids(tx, order, fields, self._size(LICENSES_PER_STEP))
        common_fields = {"context": fields["context"]}
        return ChangeStep(
            **fields,
            changes=tuple(_license_command(order, common_fields | {"license": id}) for id in numbers),
        )

    def _export_step(self, tx: ReadTransaction, order: Export, fields: dict[str, Any]) -> ExportStep:
        found = find_licenses_by_id(tx, self._next_ids(tx, order, fields, self._size(ROWS_PER_STEP)))
        if order.search is not None:
            lost = find_unmatched(tx, order.search, found.values(), self._ordered_at)
            found = {number: one for number, one in found.items() if number not in lost}
        licenses = sorted(found.values(), key=lambda one: one.id)
        return ExportStep(**fields, chunk=files.rows_of(tx, licenses), amount=len(licenses))

    def _next_ids(
        self, tx: ReadTransaction, order: Change | Export | Apply, fields: dict[str, Any], limit: int
    ) -> list[int]:
        """The next license IDs, ascending; sets ``last_id`` and ``is_last`` in the fields."""
        if not self._ahead and self._after is not None:
            self._look_ahead(tx, order, self._after)
        numbers = [self._ahead.popleft() for _ in range(min(limit, len(self._ahead)))]
        fields["last_id"] = numbers[-1] if numbers else fields["position"]
        if not self._ahead:
            fields["last_id"] = max(fields["last_id"], self._after or 0)
        fields["is_last"] = not self._ahead and self._after is None
        return numbers

    def _look_ahead(self, tx: ReadTransaction, order: Change | Export | Apply, after: int) -> None:
        if order.search is None:
            self._ahead += sorted({number for number in order.license_ids or () if number > after})
            self._after = None
            return
        found = find_matching_ids(
            tx, order.search, after_id=after, limit=_LOOK_AHEAD, now=self._ordered_at, budget=_BUDGET
        )
        # Licenses created after the order are omitted; otherwise, some jobs would never end.
        meant = [number for number in found.ids if number <= self._last_license_id]
        self._ahead += meant
        is_end = len(meant) < len(found.ids) or (found.after_id or 0) >= self._last_license_id
        self._after = None if is_end else found.after_id


def _generate_step(order: Generate, job: Job, fields: dict[str, Any], size: int) -> GenerateStep:
    amount = min(size, order.amount - job.done)
    generate = GenerateLicenses(
        context=fields["context"],
        policy_id=order.policy_id,
        amount=amount,
        status=order.status,
        order_id=order.order_id,
        product_id=order.product_id,
        customer_id=order.customer_id,
        claimable=order.claimable,
    )
    return GenerateStep(**fields, generate=generate, is_last=job.done + amount >= order.amount)


def _take_back_step(tx: ReadTransaction, order: TakeBack, fields: dict[str, Any], size: int) -> ChangeStep:
    found = list_job_licenses(tx, order.job_id, after_id=fields["position"], limit=size + 1)
    common_fields = {"context": fields["context"]}
    return ChangeStep(
        **fields,
        changes=tuple(
            RevertChanges(**common_fields, license=id, changes=changes) for id, changes in found[:size]
        ),
        last_id=found[:size][-1][0] if found else fields["position"],
        is_last=len(found) <= size,
    )


def _license_command(order: Change | Apply, fields: dict[str, Any]) -> LicenseCommand:
    if isinstance(order, Apply):
        return ApplyTerms(**fields, terms=order.terms, overwrite=order.overwrite)
    return _change_command(order, fields)


def _change_command(order: Change, fields: dict[str, Any]) -> LicenseCommand:
    amount = order.amount or 0
    match order.what:
        case What.EXTEND:
            return ExtendLicense(**fields, **order.extension())
        case What.RAISE_LIMIT:
            return RaiseLimit(**fields, places=amount)
        case What.SET_LIMIT:
            return UpdateLicense(**fields, changes={"times_activated_max": order.amount})
        case What.SET_STATUS | What.DISABLE:
            return UpdateLicense(**fields, changes={"status": _NEW_STATUS.get(order.what, amount)})
        case _:
            return _PLAIN[order.what](**fields)


#: The maximum number of licenses that a preview examines, and that it shows.
MAX_LOOKED_AT, MAX_SHOWN = 1_000, 8
#: The number of latest events of a license to search for its former status.
_MAX_EVENTS = 50
#: The time budget for finding the licenses, in seconds.
_PREVIEW_BUDGET = 0.08

#: The value of a license's field before or after a change.
Value = datetime | int | None


class Line(NamedTuple):
    """A license that would change, and the values before and after. ``field`` is the name in events, "" for a
    deletion.
    """

    license: License
    field: str
    before: Value
    after: Value


class Preview(NamedTuple):
    """Of the first ``looked_at`` licenses: how many would be ``changed``, the first of these as ``lines``,
    and how many would stay ``unchanged`` per reason. ``stay_expired`` counts extended licenses that would
    still be expired.
    """

    lines: list[Line]
    changed: int
    unchanged: dict[str, int]
    looked_at: int
    stay_expired: int = 0


def preview(tx: ReadTransaction, order: Change, now: datetime) -> Preview:
    """Preview what the order would change now."""
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
    found = find_matching_ids(
        tx, order.search, after_id=0, limit=MAX_LOOKED_AT, now=now, budget=_PREVIEW_BUDGET
    )
    return list(found.ids)


def _predict(order: Change, license: License, now: datetime) -> Line:
    """Predict the change of one license. Raises what the change would raise."""
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
            if not license.active_count:
                raise NothingActive(license.key)
            return Line(license, "times_activated", license.active_count, 0)
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
