"""Rows ↔ nouns. A row's columns stand in the order of the noun's fields."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import Row

from keywright.model import (
    Activation,
    ApiKey,
    Event,
    Generator,
    License,
    Permissions,
    Role,
    User,
)
from keywright.storage import schema
from keywright.storage.many import Values

# What is read for each noun, in the order of its fields (see the functions below).
LICENSE = [
    schema.licenses.c[name]
    for name in (
        "fingerprint id order_id product_id user_id expires_at valid_for_days source status "
        "times_activated times_activated_max created_at created_by updated_at updated_by deactivated_records"
    ).split()
]
ACTIVATION = [schema.activations.c[name] for name in Activation.__struct_fields__]
GENERATOR = [schema.generators.c[name] for name in Generator.__struct_fields__]
API_KEY = [schema.api_keys.c[name] for name in ApiKey.__struct_fields__]
EVENT = [schema.events.c[name] for name in Event.__struct_fields__]
USER = [schema.users.c[name] for name in User.__struct_fields__]


# Many rows share their moments (one batch, one import), and making a datetime is the dearest part
# of reading a row.
@lru_cache(maxsize=8192)
def moment(seconds: int) -> datetime:
    """The moment that many seconds after 1970-01-01 UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def seconds(moment: datetime) -> int:
    """Whole seconds since 1970-01-01 UTC."""
    return int(moment.timestamp())


def license_of(row: Sequence[Any], key: str) -> License:
    """The license of a row of ``LICENSE``, whose key is known already."""
    (_, id, order, product, user, expires_at, days, source, status, taken, limit, *rest) = row
    created_at, created_by, updated_at, updated_by, deactivated_records = rest
    return License(
        id,
        key,
        order,
        product,
        user,
        None if expires_at is None else moment(expires_at),
        days,
        source,
        status,
        taken,
        limit,
        moment(created_at),
        created_by,
        moment(updated_at),
        updated_by,
        deactivated_records,
    )


def license_values(license: License) -> Values:
    """The columns that a change of a license may touch, and what is in them now."""
    return {
        "order_id": license.order_id,
        "product_id": license.product_id,
        "user_id": license.user_id,
        "expires_at": optional_seconds(license.expires_at),
        "valid_for_days": license.valid_for_days,
        "source": license.source,
        "status": license.status,
        "times_activated": license.times_activated,
        "times_activated_max": license.times_activated_max,
        "created_at": seconds(license.created_at),
        "created_by": license.created_by,
        "updated_at": seconds(license.updated_at),
        "updated_by": license.updated_by,
        "deactivated_records": license.deactivated_records,
    }


def counter_values(license: License) -> Values:
    """What taking a place changes, and where."""
    return {
        "at_id": license.id,
        "times_activated": license.times_activated,
        "updated_at": seconds(license.updated_at),
    }


def history_values(license: License) -> Values:
    """The other columns that change when a place is given up or taken back."""
    return {"deactivated_records": license.deactivated_records}


def expiry_values(license: License) -> Values:
    """What taking the first place may change beside that."""
    return {"expires_at": optional_seconds(license.expires_at)}


def places(after: License, before: License | None) -> int | None:
    """The most that ``times_activated`` may be from now on; None without a limit.

    It is the limit, or what was taken already when the limit was lowered below it: no more than the
    license as it was ``before`` allowed.
    """
    limit = after.times_activated_max
    if limit is None or before is None:
        return limit
    taken = after.times_activated
    if before.times_activated_max is not None:
        taken = min(taken, max(before.times_activated, before.times_activated_max))
    return max(limit, taken)


def activation_of(row: Sequence[Any]) -> Activation:
    """The activation of a row of ``ACTIVATION``."""
    (id, token, license_id, label, source, address, agent, meta, created, updated, ended) = row
    return Activation(
        id,
        token,
        license_id,
        label,
        source,
        address,
        agent,
        None if meta is None else msgspec.json.decode(meta),
        moment(created),
        None if updated is None else moment(updated),
        None if ended is None else moment(ended),
    )


def activation_values(activation: Activation) -> Values:
    """Every column of the activation."""
    return {
        "license_id": activation.license_id,
        "token": activation.token,
        "id": activation.id,
        "label": activation.label,
        "source": activation.source,
        "ip_address": activation.ip_address,
        "user_agent": activation.user_agent,
        "meta_data": json_text(activation.meta_data),
        "created_at": seconds(activation.created_at),
        "updated_at": optional_seconds(activation.updated_at),
        "deactivated_at": optional_seconds(activation.deactivated_at),
    }


def activation_changes(activation: Activation) -> Values:
    """What reactivating and deactivating change, and where."""
    return {
        "at_license_id": activation.license_id,
        "at_token": activation.token,
        "updated_at": optional_seconds(activation.updated_at),
        "deactivated_at": optional_seconds(activation.deactivated_at),
    }


def event_of(row: Row[Any]) -> Event:
    """The event of a row of ``EVENT``."""
    values = with_moments(row) | {"at": moment(row.at)}
    details = values["details"]
    return Event(**values | {"details": None if details is None else msgspec.json.decode(details)})


def event_values(event: Event) -> Values:
    """Every column of the event but its number."""
    return {
        "at": seconds(event.at),
        "name": event.name,
        "license_id": event.license_id,
        "activation_id": event.activation_id,
        "actor": event.actor,
        "ip_address": event.ip_address,
        "details": json_text(event.details),
    }


def generator_of(row: Row[Any]) -> Generator:
    """The generator of a row of ``GENERATOR``."""
    return Generator(**with_moments(row))


def api_key_of(row: Row[Any]) -> ApiKey:
    """The API key of a row of ``API_KEY``."""
    values = with_moments(row)
    return ApiKey(**values | {"permissions": Permissions(values["permissions"])})


def user_of(row: Row[Any]) -> User:
    """The user of a row of ``USER``."""
    values = with_moments(row)
    return User(**values | {"role": Role(values["role"])})


def values_of(noun: Generator | ApiKey | User) -> Values:
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
