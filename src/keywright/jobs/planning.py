"""Plan the next step of a job, outside the desk: reads take time, and the desk has only to decide."""

from collections import deque
from datetime import datetime
from typing import Any

from keywright.core.command import Context
from keywright.db import ReadTransaction
from keywright.jobs import files, matching, orders, tables
from keywright.jobs.commands import ChangeStep, ExportStep, GenerateStep, JobStep
from keywright.jobs.model import Job
from keywright.jobs.orders import Apply, Change, Export, Generate, Import, TakeBack, What
from keywright.jobs.store import list_job_licenses
from keywright.licensing.activations.model import DeactivateAll
from keywright.licensing.licenses.model import (
    ApplyTerms,
    DeleteLicense,
    ExtendLicense,
    LicenseCommand,
    RaiseLimit,
    Status,
    UpdateLicense,
)
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.undo.rules import EnableLicense, RevertChanges
from keywright.provisioning.policies.model import GenerateLicenses
from keywright.search.license_pages import find_matching_ids

#: The sizes of steps: some milliseconds of work, because other calls wait that long (see decision 019).
KEYS_PER_STEP = 25
LICENSES_PER_STEP = 25
ROWS_PER_STEP = 100
#: A part of a table has up to 25 lines.
PARTS_PER_STEP = 4
#: The number of matching licenses that are read ahead, and the time budget for that, in seconds.
_LOOK_AHEAD, _BUDGET = 1_000, 0.25

_NEW_STATUS = {What.DISABLE: Status.DISABLED}
#: The changes that have nothing to say but which license.
_PLAIN: dict[What, type[LicenseCommand]] = {
    What.DEACTIVATE_ALL: DeactivateAll,
    What.DELETE: DeleteLicense,
    What.ENABLE: EnableLicense,
}


class Plan:
    """The steps of a job, one after the other, for the worker that has claimed it."""

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
        #: The id after which to search for the next ones; None when there are no more.
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
            case Import():
                return tables.build_step(tx, self._order, job, fields, self._size(PARTS_PER_STEP))

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
            lost = matching.find_unmatched(tx, order.search, found.values(), self._ordered_at)
            found = {number: one for number, one in found.items() if number not in lost}
        licenses = sorted(found.values(), key=lambda one: one.id)
        return ExportStep(**fields, chunk=files.rows_of(tx, licenses), amount=len(licenses))

    def _next_ids(
        self, tx: ReadTransaction, order: Change | Export | Apply, fields: dict[str, Any], limit: int
    ) -> list[int]:
        """The next licenses, by ascending id; the last id is added to the fields."""
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
        # Licenses that were made after the order are left out; some jobs would never end otherwise.
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
