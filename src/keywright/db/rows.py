"""Values in rows: datetimes are whole seconds, structures are JSON text."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Row, bindparam, or_

from keywright.db.bulk import Values


# Many rows have the same times (one batch, one import), and converting them is the slowest part of reading or
# writing a row.
@lru_cache(maxsize=8192)
def to_datetime(seconds: int) -> datetime:
    """The time that many seconds after 1970-01-01 UTC."""
    return datetime.fromtimestamp(seconds, UTC)


@lru_cache(maxsize=8192)
def to_seconds(time: datetime) -> int:
    """Whole seconds since 1970-01-01 UTC."""
    return int(time.timestamp())


@lru_cache(maxsize=8192)
def to_optional_seconds(time: datetime | None) -> int | None:
    """Whole seconds since 1970-01-01 UTC, or None for None."""
    return None if time is None else int(time.timestamp())


#: Later than any moment, in seconds.
_NEVER = 2**63 - 1


def due_spans(now: datetime, longest: timedelta) -> tuple[tuple[int, int], ...]:
    """The spans, in seconds and without their beginnings, of moments that are due: those up to now, and those
    after the ``longest`` pause there is, which a clock that was ahead has written.
    """
    return (-1, to_seconds(now)), (to_seconds(now + longest), _NEVER)


#: The moment of a look, in seconds: a parameter of its statement.
NOW = bindparam("now", type_=BigInteger)


def is_due(at: ColumnElement[Any], longest: timedelta) -> ColumnElement[bool]:
    """Whether a moment lies in one of the ``due_spans`` at ``NOW``."""
    return or_(at <= NOW, at > NOW + int(longest.total_seconds()))


def to_json(value: Mapping[str, Any] | None) -> str | None:
    """JSON text, or None for None."""
    return None if value is None else msgspec.json.encode(value).decode()


def to_columns(struct: msgspec.Struct) -> Values:
    """The fields of a struct as columns of its table, without the ID."""
    return {
        name: to_seconds(value) if isinstance(value, datetime) else value
        for name, value in msgspec.structs.asdict(struct).items()
        if name != "id"
    }


def with_datetimes(row: Row[Any]) -> Values:
    """A row by column, with datetimes in the columns that end in ``_at`` or ``_until``."""
    return {
        name: to_datetime(value) if name.endswith(("_at", "_until")) and value is not None else value
        for name, value in row._mapping.items()
    }
