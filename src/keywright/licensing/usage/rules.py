"""The rules of usage. Pure. Periods are those of the calendar in UTC, or are counted from the license's
creation. A meter's periods never overlap: each begins at the end of the one before, or later.
"""

from collections.abc import Iterable
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache

from msgspec.structs import replace

from keywright.core.errors import InvalidParameters, UsageExceeded
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import END_OF_TIME, add_months, require_activatable
from keywright.licensing.terms.model import Meter, Overage, Period, Terms
from keywright.licensing.usage.model import MeterUsage

#: The beginning, as stored, of a period that never ends.
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
#: A period is closed this long after its end; until then, late counts are added to it.
CLOSES_AFTER = timedelta(hours=1)
#: The months of the periods that are counted from a license's creation.
_MONTHS = {Period.LICENSE_MONTH: 1, Period.LICENSE_YEAR: 12}
#: Adding this many days to the first day of a calendar period leads into the next one.
_DAYS = {Period.DAY: 1, Period.MONTH: 31, Period.YEAR: 366}
_SECOND = timedelta(seconds=1)


def period_of(per: Period, created_at: datetime, now: datetime) -> tuple[datetime, datetime]:
    """Return the first second of the period that ``now`` is in, and of the next one, ``END_OF_TIME`` for
    never; ``created_at`` is when the license was made.
    """
    if per not in _MONTHS:
        return _calendar_period(per, now)
    step = _MONTHS[per]
    months = (now.year - created_at.year) * 12 + now.month - created_at.month
    number = months // step
    if add_months(created_at, number * step) > now:
        number -= 1
    end = END_OF_TIME if now.year == MAXYEAR else add_months(created_at, (number + 1) * step)
    return add_months(created_at, number * step), end


# Calls within the same second need the same periods, for each of their meters.
@lru_cache(maxsize=64)
def _calendar_period(per: Period, now: datetime) -> tuple[datetime, datetime]:
    if per is Period.LICENSE:
        return BEGINNING, END_OF_TIME
    start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if per is not Period.DAY:
        start = start.replace(day=1) if per is Period.MONTH else start.replace(month=1, day=1)
    if now.year == MAXYEAR:
        return start, END_OF_TIME
    end = start + timedelta(days=_DAYS[per])
    return start, end if per is Period.DAY else end.replace(day=1)


def begin(
    license: License, name: str, per: Period, now: datetime, ended_at: datetime | None = None
) -> MeterUsage:
    """Return the period that ``now`` is in, with nothing used; it begins no earlier than ``ended_at``, the
    end of the meter's last period.
    """
    start, end = period_of(per, license.created_at, now)
    return MeterUsage(license.id, name, start if ended_at is None else max(start, ended_at), 0, end)


def is_in(usage: MeterUsage, now: datetime) -> bool:
    """Whether a moment is in the period."""
    return usage.period_start <= now < usage.period_end


def complete(usage: MeterUsage, meter: Meter) -> MeterUsage:
    """Set the end of the period, which an older version does not write with a new beginning."""
    if usage.period_end > usage.period_start:
        return usage
    # Older versions know only calendar periods.
    return replace(usage, period_end=period_of(meter.per, usage.period_start, usage.period_start)[1])


def resets_at(usage: MeterUsage) -> datetime | None:
    """Return the first second of the next period; None for never."""
    return None if usage.period_end == END_OF_TIME else usage.period_end


def usage_by_meter(terms: Terms, usages: Iterable[MeterUsage], now: datetime) -> dict[str, int]:
    """Return the amount used now of each of the terms' meters."""
    used = dict.fromkeys(terms.meters, 0)
    for one in usages:
        if one.meter in used and is_in(complete(one, terms.meters[one.meter]), now):
            used[one.meter] = one.used
    return used


def is_exceeded(meter: Meter, used: int) -> bool:
    """Whether a meter that refuses overage has reached its limit."""
    return meter.overage is Overage.REFUSE and used >= meter.limit


def require_countable(
    license: License, terms: Terms, name: str, *, now: datetime, built_at: datetime | None
) -> Meter:
    """Return the meter with this name. Raises ``InvalidParameters`` if the license has none, and what
    ``require_activatable`` raises.
    """
    require_activatable(license, terms, now, built_at)
    meter = terms.meters.get(name)
    if meter is None:
        raise InvalidParameters({"meter": "must be a meter of the license"})
    return meter


def add_usage(usage: MeterUsage, meter: Meter, amount: int) -> MeterUsage:
    """Count an amount in a period. Raises ``UsageExceeded``, and counts nothing, if the whole amount does not
    fit.
    """
    if meter.overage is Overage.REFUSE and usage.used + amount > meter.limit:
        raise UsageExceeded(usage.meter, meter.limit, usage.used, resets_at(usage))
    return replace(usage, used=usage.used + amount)


def ended_meters(before: Terms, after: Terms) -> list[str]:
    """Return the meters that were removed or got another period."""
    return [
        name
        for name, one in before.meters.items()
        if name not in after.meters or after.meters[name].per is not one.per
    ]


def detach(usage: MeterUsage, license: License | None, meter: Meter | None) -> MeterUsage:
    """Copy to the usage what closing it requires once its license or meter is gone; both exist now."""
    if license is None:
        return usage
    start = license.created_at if usage.period_start == BEGINNING else usage.period_start
    return replace(
        usage,
        period_start=start,
        meter_limit=usage.meter_limit if meter is None else meter.limit,
        product_id=license.product_id,
        customer_id=license.customer_id,
    )


def close(usage: MeterUsage, period_end: datetime, now: datetime) -> MeterUsage:
    """Close the usage of a period now; the period lasts at least a second, so that no other begins at the
    same time.
    """
    return replace(usage, period_end=max(period_end, usage.period_start + _SECOND), closed_at=now)
