"""Usage of meters in the database: functions over a transaction that has locked the licenses."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, select, tuple_

from keywright.db.bulk import Lookup, bulk_insert, bulk_update, bulk_upsert
from keywright.db.rows import to_columns, to_datetime, to_seconds
from keywright.db.schema import meter_usage, past_usage
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.terms.model import Terms
from keywright.licensing.usage.model import MeterUsage
from keywright.licensing.usage.rules import list_starts, usage_by_meter

#: A license and the name of a meter; with the first second of a period.
MeterName = tuple[int, str]
PeriodName = tuple[int, str, datetime]

#: The most rows that are deleted at once because of their age.
_MAX_OLD = 1_000


def find_usage(tx: ReadTransaction, meters: Iterable[MeterName]) -> dict[MeterName, MeterUsage]:
    """The usage of these meters in their newest periods, by meter; of those that were ever used."""
    found = map(_usage_of, _OF_METER.find_rows(tx.connection, meters))
    return {(one.license_id, one.meter): one for one in found}


def find_past(
    tx: ReadTransaction, newest: Iterable[MeterUsage], moments: Collection[datetime]
) -> dict[PeriodName, MeterUsage]:
    """The usage in the periods of these moments, of those of these meters whose newest period begins after
    one of them: a clock was ahead.
    """
    ahead = [one for one in newest if one.period_start > min(moments)]
    starts = {to_seconds(start) for now in moments for start in list_starts(now)} if ahead else ()
    names = [(one.license_id, one.meter, start) for one in ahead for start in starts]
    found = map(_usage_of, _OF_PERIOD.find_rows(tx.connection, names) if names else ())
    return {(one.license_id, one.meter, one.period_start): one for one in found}


def list_usage(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[MeterUsage]]:
    """The usage of all meters of these licenses in their newest periods, by license."""
    found: dict[int, list[MeterUsage]] = {}
    for one in map(_usage_of, _OF_LICENSE.find_rows(tx.connection, license_ids)):
        found.setdefault(one.license_id, []).append(one)
    return found


def show_usage(
    tx: ReadTransaction, terms: Terms, newest: Sequence[MeterUsage], now: datetime
) -> dict[str, int]:
    """The amount used now of each of the terms' meters; ``newest`` is what ``list_usage`` has found."""
    return usage_by_meter(terms, [*newest, *find_past(tx, newest, [now]).values()], now)


def save_new_usage(tx: WriteTransaction, new: Iterable[MeterUsage]) -> None:
    """Insert."""
    _INSERT.execute(tx.connection, list(map(to_columns, new)))


def save_usage(tx: WriteTransaction, changed: Iterable[MeterUsage]) -> None:
    """Update."""
    rows = [
        {
            "where_license_id": one.license_id,
            "where_meter": one.meter,
            "period_start": to_seconds(one.period_start),
            "used": one.used,
        }
        for one in changed
    ]
    _UPDATE.execute(tx.connection, rows)


def save_past(tx: WriteTransaction, past: Iterable[MeterUsage]) -> None:
    """Insert or update the usage of periods that are not the newest of their meters."""
    _SAVE_PAST.execute(tx.connection, list(map(to_columns, past)))


def delete_old(tx: WriteTransaction, before: datetime) -> int:
    """Delete some usage of periods that began before this moment; returns of how many. A period that never
    ends stays.
    """
    return tx.connection.execute(_DELETE_OLD, {"before": to_seconds(before)}).rowcount


def _usage_of(row: Sequence[Any]) -> MeterUsage:
    license_id, meter, period_start, used = row
    return MeterUsage(license_id, meter, to_datetime(period_start), used)


_FIELDS = MeterUsage.__struct_fields__
_USAGE = select(*(meter_usage.c[name] for name in _FIELDS))
_OF_METER = Lookup(_USAGE, meter_usage.c.license_id, meter_usage.c.meter)
_OF_LICENSE = Lookup(_USAGE, meter_usage.c.license_id)
_INSERT = bulk_insert(meter_usage)
_UPDATE = bulk_update(meter_usage, ["license_id", "meter"], ["period_start", "used"])
_PERIOD = [past_usage.c[name] for name in _FIELDS[:3]]
_OF_PERIOD = Lookup(select(*(past_usage.c[name] for name in _FIELDS)), *_PERIOD)
_SAVE_PAST = bulk_upsert(past_usage, list(_FIELDS[:3]), largest=["used"])
_OLD = select(*_PERIOD).where(past_usage.c.period_start.between(1, bindparam("before") - 1)).limit(_MAX_OLD)
_DELETE_OLD = delete(past_usage).where(tuple_(*_PERIOD).in_(_OLD))
