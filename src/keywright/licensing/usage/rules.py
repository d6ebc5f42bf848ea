"""The rules of usage. Pure. Periods are those of the calendar in UTC."""

from collections.abc import Iterable
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache

from keywright.core.errors import InvalidParameters, UsageExceeded
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import require_activatable
from keywright.licensing.terms.model import Meter, Overage, Period, Terms
from keywright.licensing.usage.model import MeterUsage

#: The beginning of the period that never ends.
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
#: From the first day of a period, so many days lead into the next one.
_DAYS = {Period.DAY: 1, Period.MONTH: 31, Period.YEAR: 366}


# Calls of the same second ask for the same ones, for each of their meters.
@lru_cache(maxsize=64)
def period_start(per: Period, now: datetime) -> datetime:
    """The first second of the period that ``now`` is in."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if per is Period.DAY:
        return midnight
    if per is Period.MONTH:
        return midnight.replace(day=1)
    return midnight.replace(month=1, day=1) if per is Period.YEAR else _BEGINNING


def list_starts(now: datetime) -> list[datetime]:
    """The first seconds of the periods of every kind that ``now`` is in."""
    return [period_start(per, now) for per in Period]


def resets_at(per: Period, now: datetime) -> datetime | None:
    """The first second of the next period; None for never, as in the last year of all."""
    if per is Period.LICENSE or now.year == MAXYEAR:
        return None
    return period_start(per, period_start(per, now) + timedelta(days=_DAYS[per]))


def used_now(meter: Meter, usage: MeterUsage | None, now: datetime) -> int:
    """The amount used in the period that ``now`` is in."""
    is_current = usage is not None and usage.period_start == period_start(meter.per, now)
    return usage.used if usage is not None and is_current else 0


def usage_by_meter(terms: Terms, usages: Iterable[MeterUsage], now: datetime) -> dict[str, int]:
    """The amount used now of each of the terms' meters."""
    used = {(one.meter, one.period_start): one.used for one in usages}
    return {name: used.get((name, period_start(one.per, now)), 0) for name, one in terms.meters.items()}


def is_exceeded(meter: Meter, used: int) -> bool:
    """Whether a meter that refuses more than its limit is there."""
    return meter.overage is Overage.REFUSE and used >= meter.limit


def get_meter(terms: Terms, name: str) -> Meter:
    """The meter of this name. Raises ``InvalidParameters`` when the license has none."""
    meter = terms.meters.get(name)
    if meter is None:
        raise InvalidParameters({"meter": "must be a meter of the license"})
    return meter


def add_usage(
    license: License,
    terms: Terms,
    name: str,
    usage: MeterUsage | None,
    *,
    amount: int,
    now: datetime,
    built_at: datetime | None,
) -> MeterUsage:
    """Count an amount of the meter of this name; ``usage`` is its row. Nothing is counted when it raises
    ``InvalidParameters``, what ``require_activatable`` does, or ``UsageExceeded``: the amount does not fit as
    a whole.
    """
    require_activatable(license, terms, now, built_at)
    meter = get_meter(terms, name)
    used = used_now(meter, usage, now)
    if meter.overage is Overage.REFUSE and used + amount > meter.limit:
        raise UsageExceeded(name, meter.limit, used, resets_at(meter.per, now))
    return MeterUsage(license.id, name, period_start(meter.per, now), used + amount)
