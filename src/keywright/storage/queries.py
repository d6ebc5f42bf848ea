"""The statements, built once: SQLAlchemy keeps what it compiled as long as the statement is the same.

A query for many values at once exists in a few sizes (1, 2, 4 … 128); shorter lists are filled up by
repeating a value, so that the database sees a handful of statements instead of one per length.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from keywright.model import LicenseFilter
from keywright.storage import rows
from keywright.storage.schema import activations, api_keys, events, kept_answers, licenses

#: No query names more things than this at once.
MOST_AT_ONCE = 128

Item = TypeVar("Item")
SizedQuery = Callable[[int], Select[Any]]


def in_sizes(values: Sequence[Item]) -> Iterator[list[Item]]:
    """The values in runs of 1, 2, 4 … 128, the last run filled up by repeating its first value."""
    for start in range(0, len(values), MOST_AT_ONCE):
        some = list(values[start : start + MOST_AT_ONCE])
        size = 1 << (len(some) - 1).bit_length()
        yield some + some[:1] * (size - len(some))


@lru_cache
def names(letter: str, size: int) -> tuple[str, ...]:
    """The names of the bound parameters of a query of that size: v0, v1 …"""
    return tuple(f"{letter}{i}" for i in range(size))


def _one_of(column: Column[Any], size: int) -> ColumnElement[bool]:
    return column.in_([bindparam(name, type_=column.type) for name in names("v", size)])


@lru_cache
def licenses_with(size: int) -> Select[Any]:
    """Licenses by fingerprint."""
    return select(*rows.LICENSE).where(_one_of(licenses.c.fingerprint, size))


@lru_cache
def licenses_locked(size: int) -> Select[Any]:
    """Licenses by fingerprint, for change; in id order, so that two batches cannot lock crosswise."""
    return licenses_with(size).order_by(licenses.c.id).with_for_update()


@lru_cache
def activations_of(size: int) -> Select[Any]:
    """Every record of licenses."""
    return select(*rows.ACTIVATION).where(_one_of(activations.c.license_id, size))


@lru_cache
def active_of(size: int) -> Select[Any]:
    """The active records of licenses."""
    return activations_of(size).where(activations.c.deactivated_at.is_(None))


@lru_cache
def activations_with(size: int) -> Select[Any]:
    """Records by license and token."""
    pairs = (
        and_(activations.c.license_id == bindparam(license), activations.c.token == bindparam(token))
        for license, token in zip(names("v", size), names("t", size), strict=True)
    )
    return select(*rows.ACTIVATION).where(or_(*pairs))


@lru_cache
def answers_kept(size: int) -> Select[Any]:
    """Kept answers by scope."""
    return select(kept_answers).where(_one_of(kept_answers.c.scope, size))


def listed(where: LicenseFilter) -> Select[Any]:
    """The matching licenses with their sealed keys, oldest first."""
    query = select(*rows.LICENSE, licenses.c.sealed_key).order_by(licenses.c.id)
    return query.where(*_conditions(where))


def counted(where: LicenseFilter) -> Select[Any]:
    """How many licenses match."""
    return select(func.count()).select_from(licenses).where(*_conditions(where))


def _conditions(where: LicenseFilter) -> list[ColumnElement[bool]]:
    return [
        licenses.c[name] == value
        for name in where.__struct_fields__
        if (value := getattr(where, name)) is not None
    ]


def latest_events(license_id: int, limit: int) -> Select[Any]:
    """The latest events of a license, latest first."""
    query = select(*rows.EVENT).where(events.c.license_id == license_id)
    return query.order_by(events.c.id.desc()).limit(limit)


API_KEY_IN_FORCE = select(*rows.API_KEY).where(
    api_keys.c.key_hash == bindparam("key_hash"), api_keys.c.revoked_at.is_(None)
)

INSERT_LICENSE = insert(licenses)
UPDATE_LICENSE = (
    update(licenses)
    .where(licenses.c.id == bindparam("at_id"))
    .values({column.name: bindparam(column.name) for column in licenses.c if column.name != "id"})
)
UPDATE_COUNTER = (
    update(licenses)
    .where(licenses.c.id == bindparam("at_id"))
    .values({name: bindparam(name) for name in ("times_activated", "expires_at", "updated_at")})
)
UPDATE_COUNTER_AND_PLACES = UPDATE_COUNTER.values(places=bindparam("places"))
DELETE_LICENSE = delete(licenses).where(licenses.c.id == bindparam("at_id"))
DELETE_ACTIVATIONS = delete(activations).where(activations.c.license_id == bindparam("at_id"))
INSERT_ACTIVATION = insert(activations)
UPDATE_ACTIVATION = (
    update(activations)
    .where(activations.c.license_id == bindparam("at_license_id"))
    .where(activations.c.token == bindparam("at_token"))
    .values(updated_at=bindparam("updated_at"), deactivated_at=bindparam("deactivated_at"))
)
INSERT_EVENT = insert(events)
INSERT_KEPT_ANSWER = insert(kept_answers)
