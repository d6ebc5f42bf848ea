"""Decide the commands about usage; see ``activations.handlers``. Usage is no event: it comes too often."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.licensing.activations.device_handlers import get_license
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.usage import rules
from keywright.licensing.usage.commands import RecordUsage
from keywright.licensing.usage.model import RecordedUsage


def record_usage(work: LicenseWork, command: RecordUsage) -> RecordedUsage:
    """Count an amount."""
    license, now = get_license(work, command), command.context.now
    terms = terms_of(license)
    usage = rules.add_usage(
        license,
        terms,
        command.meter,
        work.usage.find_usage(license.id, command.meter),
        amount=command.amount,
        now=now,
        built_at=command.built_at,
    )
    work.usage.set_usage(usage)
    meter = terms.meters[command.meter]
    return RecordedUsage(usage, meter.limit, rules.resets_at(meter.per, now))


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {RecordUsage: record_usage}
