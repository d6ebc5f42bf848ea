"""Decide the commands about usage; see ``activations.handlers``. Usage is no event, for it
comes too often; that it reaches a threshold is one.
"""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.licensing.activations.device_handlers import get_license
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.moments.rules import passed_threshold
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.usage import rules
from keywright.licensing.usage.commands import RecordUsage
from keywright.licensing.usage.model import RecordedUsage


def record_usage(work: LicenseWork, command: RecordUsage) -> RecordedUsage:
    """Count an amount."""
    license, now = get_license(work, command), work.now(command)
    terms = terms_of(license)
    named = terms.meters.get(command.meter)
    period = now if named is None else rules.period_start(named.per, now)
    before = work.usage.find_usage(license.id, command.meter, period)
    usage = rules.add_usage(
        license,
        terms,
        command.meter,
        before,
        amount=command.amount,
        now=now,
        built_at=command.built_at,
    )
    work.usage.set_usage(usage, now)
    meter = terms.meters[command.meter]
    percent = passed_threshold(meter.limit, rules.used_now(meter, before, now), usage.used)
    if percent is not None:
        details = {"meter": command.meter, "percent": percent, "used": usage.used, "limit": meter.limit}
        work.record_license_event("usage.threshold", license, command, details=details)
    return RecordedUsage(usage, meter.limit, rules.resets_at(meter.per, now))


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {RecordUsage: record_usage}
