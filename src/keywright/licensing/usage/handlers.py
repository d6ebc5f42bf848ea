"""Handlers of the commands about usage, and of queries; see ``activations.handlers``."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command, Query
from keywright.core.nouns import ItemPage
from keywright.licensing.activations.device_handlers import get_license
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.moments import passed_threshold
from keywright.licensing.queries import require_license
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.usage import model, rules, store


def record_usage(work: LicenseWork, command: model.RecordUsage) -> model.RecordedUsage:
    """Count an amount on a meter, and record an event if it passes a threshold."""
    license, now, name = get_license(work, command), work.now(command), command.meter
    meter = rules.require_countable(license, terms_of(license), name, now=now, built_at=command.built_at)
    before = work.usage.find_period(license, name, meter, now)
    usage = rules.add_usage(before, meter, command.amount)
    work.usage.set_usage(usage)
    percent = passed_threshold(meter.limit, before.used, usage.used)
    if percent is not None:
        details = {"meter": name, "percent": percent, "used": usage.used, "limit": meter.limit}
        work.record_license_event("usage.threshold", license, command, details=details)
    return model.RecordedUsage(usage, meter.limit, rules.resets_at(usage))


def close_periods(work: LicenseWork, command: model.ClosePeriods) -> None:
    """Close periods, each exactly once even with several servers."""
    for id in command.license_ids:
        closed = work.usage.close_over(id, work.find_license(id), work.now(command))
        work.record_closed(closed, command.context.now)


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    model.RecordUsage: record_usage,
    model.ClosePeriods: close_periods,
}


def find_due_periods(read: Any, query: model.FindDuePeriods) -> tuple[int, ...]:
    """Return some licenses with periods to close."""
    now = read.tx.read_clock() or query.now
    return store.find_due(read.tx, now - rules.CLOSES_AFTER)


def list_periods(read: Any, query: model.ListPeriods) -> ItemPage[model.MeterUsage]:
    """Return a page of periods. Raises ``UnknownLicenseId`` for a license that does not exist and has no
    periods.
    """
    page, where = store.list_periods(read.tx, query), query.where
    if not page.items and query.after is None and where.license_id is not None:
        require_license(read.tx, where.license_id, where.only_product_id)
    return page


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    model.FindDuePeriods: find_due_periods,
    model.ListPeriods: list_periods,
}
