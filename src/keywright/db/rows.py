"""Rows ↔ nouns. A row's columns stand in the order of the noun's fields."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import Row

from keywright.db.bulk import Values


# Many rows share their moments (one batch, one import), and making a datetime is the dearest part
# of reading a row.
@lru_cache(maxsize=8192)
def moment(seconds: int) -> datetime:
    """The moment that many seconds after 1970-01-01 UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def seconds(moment: datetime) -> int:
    """Whole seconds since 1970-01-01 UTC."""
    return int(moment.timestamp())


def values_of(noun: msgspec.Struct) -> Values:
    """A noun's fields as its table's columns, without the number."""
    return {
        name: seconds(value) if isinstance(value, datetime) else value
        for name, value in msgspec.structs.asdict(noun).items()
        if name != "id"
    }


def json_text(value: Mapping[str, Any] | None) -> str | None:
    """JSON text, or None for nothing."""
    return None if value is None else msgspec.json.encode(value).decode()


def optional_seconds(moment: datetime | None) -> int | None:
    """Whole seconds since 1970-01-01 UTC, or None for no moment."""
    return None if moment is None else int(moment.timestamp())


def with_moments(row: Row[Any]) -> Values:
    """A row by column, with moments for the columns that end in ``_at``."""
    return {
        name: moment(value) if name.endswith("_at") and value is not None else value
        for name, value in row._mapping.items()
    }
