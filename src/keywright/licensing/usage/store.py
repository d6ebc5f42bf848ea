"""Usage of meters in the database: functions over a transaction that has locked the licenses."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import select

from keywright.db.bulk import Lookup, bulk_insert, bulk_update
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import meter_usage
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.usage.model import MeterUsage

#: A license and the name of a meter.
MeterName = tuple[int, str]


def find_usage(tx: ReadTransaction, meters: Iterable[MeterName]) -> dict[MeterName, MeterUsage]:
    """The usage of these meters, by meter; of those that were ever used."""
    found = map(_usage_of, _OF_METER.find_rows(tx.connection, meters))
    return {(one.license_id, one.meter): one for one in found}


def list_usage(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[MeterUsage]]:
    """The usage of all meters of these licenses, by license."""
    found: dict[int, list[MeterUsage]] = {}
    for one in map(_usage_of, _OF_LICENSE.find_rows(tx.connection, license_ids)):
        found.setdefault(one.license_id, []).append(one)
    return found


def save_new_usage(tx: WriteTransaction, new: Iterable[MeterUsage]) -> None:
    """Insert."""
    rows = [
        {
            "license_id": one.license_id,
            "meter": one.meter,
            "period_start": to_seconds(one.period_start),
            "used": one.used,
        }
        for one in new
    ]
    _INSERT.execute(tx.connection, rows)


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


def _usage_of(row: Sequence[Any]) -> MeterUsage:
    license_id, meter, period_start, used = row
    return MeterUsage(license_id, meter, to_datetime(period_start), used)


_USAGE = select(*(meter_usage.c[name] for name in MeterUsage.__struct_fields__))
_OF_METER = Lookup(_USAGE, meter_usage.c.license_id, meter_usage.c.meter)
_OF_LICENSE = Lookup(_USAGE, meter_usage.c.license_id)
_INSERT = bulk_insert(meter_usage)
_UPDATE = bulk_update(meter_usage, ["license_id", "meter"], ["period_start", "used"])
