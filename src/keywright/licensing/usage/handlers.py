"""Decide the commands about usage; see ``activations.handlers``. Usage is no event, for it comes too often;
that it reaches a threshold is one, and so is a period that is closed.
"""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.licensing.activations.device_handlers import get_license
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.moments import passed_threshold
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.usage import rules
from keywright.licensing.usage.commands import ClosePeriods, RecordUsage
from keywright.licensing.usage.model import RecordedUsage


def record_usage(work: LicenseWork, command: RecordUsage) -> RecordedUsage:
    """Count an amount."""
    license, now, name = get_license(work, command), work.now(command), command.meter
    meter = rules.require_countable(license, terms_of(license), name, now=now, built_at=command.built_at)
    before = work.usage.find_period(license, name, meter, now)
    usage = rules.add_usage(before, meter, command.amount)
    work.usage.set_usage(usage)
    percent = passed_threshold(meter.limit, before.used, usage.used)
    if percent is not None:
        details = {"meter": name, "percent": percent, "used": usage.used, "limit": meter.limit}
        work.record_license_event("usage.threshold", license, command, details=details)
    return RecordedUsage(usage, meter.limit, rules.resets_at(usage))


def close_periods(work: LicenseWork, command: ClosePeriods) -> None:
    """Close periods, each once, whichever server is first."""
    for id in command.license_ids:
        closed = work.usage.close_over(id, work.find_license(id), work.now(command))
        work.record_closed(closed, command.context.now)


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    RecordUsage: record_usage,
    ClosePeriods: close_periods,
}
