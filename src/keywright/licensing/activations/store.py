"""Activations in the database: functions over a transaction."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import and_, bindparam, func, literal_column, select, true, union_all, update

from keywright.db.bulk import Lookup, Values, array_table, bulk_delete, bulk_insert, bulk_update
from keywright.db.rows import to_datetime, to_json, to_optional_seconds, to_seconds
from keywright.db.schema import activations, licenses
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.activations import rules
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.store import DELETE_LICENSES, LICENSE


def list_activations(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
    """Every record of these licenses, by license, oldest first."""
    return _by_license(tx, ACTIVATIONS_OF, license_ids)


def list_active(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
    """Every active record of these licenses, by license, oldest first."""
    return _by_license(tx, ACTIVE_OF, license_ids)


def find_activations(tx: ReadTransaction, tokens: Iterable[tuple[int, str]]) -> list[Activation]:
    """The records with these tokens, each only within its license."""
    # No database needs to be asked for a text that none can hold.
    possible = [pair for pair in tokens if "\0" not in pair[1]]
    found = {
        (row.license_id, row.token): activation_of(row)
        for row in ACTIVATIONS_WITH.find_rows(tx.connection, possible)
    }
    return list(found.values())


def _by_license(
    tx: ReadTransaction, query: Lookup, license_ids: Iterable[int]
) -> dict[int, list[Activation]]:
    found: dict[int, list[Activation]] = {}
    for row in query.find_rows(tx.connection, license_ids):
        found.setdefault(row[2], []).append(activation_of(row))
    for records in found.values():
        records.sort(key=rules.by_age)
    return found


def recount(tx: WriteTransaction, license_id: int) -> dict[str, list[int]] | None:
    """Set a license's counters to the numbers of its active activations and of those that were given up;
    returns what the wrong ones were and are, by name, None when there is no such license any more.
    """
    row = tx.connection.execute(COUNTERS_LOCKED, {"where_id": license_id}).first()
    if row is None:
        return None
    active, ended = tx.connection.execute(RECORDS_COUNTED, {"where_id": license_id}).one()
    limit = row.times_activated_max
    room = None if limit is None else max(limit, active)
    values = {"where_id": license_id, "taken": active, "ended": ended, "room": room}
    tx.connection.execute(RECOUNT, values)
    pairs = {
        "times_activated": [row.times_activated, active],
        "deactivated_count": [row.deactivated_count, ended],
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def delete_licenses(tx: WriteTransaction, license_ids: Collection[int]) -> None:
    """Delete these licenses and their activations; their events stay."""
    DELETE_ACTIVATIONS.execute(tx.connection, [{"where_license_id": number} for number in license_ids])
    DELETE_LICENSES.execute(tx.connection, [{"where_id": number} for number in license_ids])


def save_new_activations(tx: WriteTransaction, new: Sequence[Activation]) -> None:
    """Insert."""
    INSERT_ACTIVATIONS.execute(tx.connection, list(map(activation_values, new)))


def save_activations(tx: WriteTransaction, changed: Iterable[tuple[Activation, Activation]]) -> None:
    """Update activations, each given before and after; two columns if only the place changed."""
    ended: list[Values] = []
    rewritten: list[Values] = []
    for before, after in changed:
        key = {"where_license_id": after.license_id, "where_token": after.token}
        same = replace(after, updated_at=before.updated_at, deactivated_at=before.deactivated_at)
        if same == before:
            times = {
                name: to_optional_seconds(getattr(after, name)) for name in ("updated_at", "deactivated_at")
            }
            ended.append(key | times)
        else:
            rewritten.append(activation_values(after) | key)
    UPDATE_ACTIVATIONS.execute(tx.connection, ended)
    REWRITE_ACTIVATIONS.execute(tx.connection, rewritten)


def deactivate_all(tx: WriteTransaction, license_id: int, now: datetime) -> None:
    """Give up every place of a license, in one statement however many there are."""
    values = {"where_id": license_id, "moment": to_seconds(now)}
    tx.connection.execute(DEACTIVATE_ACTIVATIONS, values)


ACTIVATION = [activations.c[name] for name in Activation.__struct_fields__]


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
        to_datetime(created),
        None if updated is None else to_datetime(updated),
        None if ended is None else to_datetime(ended),
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
        "meta_data": to_json(activation.meta_data),
        "created_at": to_seconds(activation.created_at),
        "updated_at": to_optional_seconds(activation.updated_at),
        "deactivated_at": to_optional_seconds(activation.deactivated_at),
    }


ACTIVATIONS = select(*ACTIVATION)
IS_ACTIVE = activations.c.deactivated_at.is_(None)

#: Licenses with no more records than this are read many at once, with all of their records.
FEW_RECORDS = 100
ACTIVATIONS_OF = Lookup(ACTIVATIONS, activations.c.license_id)
ACTIVE_OF = Lookup(ACTIVATIONS.where(IS_ACTIVE), activations.c.license_id)
ACTIVATIONS_WITH = Lookup(ACTIVATIONS, activations.c.license_id, activations.c.token)

_RECORD = select(*LICENSE, *(one.label(f"of_{one.name}") for one in ACTIVATION))
_IS_ITS = activations.c.license_id == licenses.c.id
# Sorted and limited, so that PostgreSQL goes through the index of each license whatever it believes of how
# many records a license has; a plan for the largest one would serve all.
_FEW = (
    ACTIVATIONS.where(
        _IS_ITS,
        licenses.c.times_activated + licenses.c.deactivated_count <= literal_column(str(FEW_RECORDS)),
    )
    .order_by(activations.c.token)
    .limit(literal_column(str(FEW_RECORDS)))
    .correlate(licenses)
    .lateral("few")
)
#: Licenses with each of their records, or with a row of nothing; also those that have more than a few. What
#: one statement says is of one moment. Only for PostgreSQL.
RECORDS = Lookup(select(*LICENSE, *_FEW.c).select_from(licenses.outerjoin(_FEW, true())), licenses.c.key_hmac)
_AT_LICENSE = activations.c.license_id == bindparam("where_id")
_SOME_ACTIVE = ACTIVATIONS.where(_AT_LICENSE, IS_ACTIVE).order_by(activations.c.token)
_SOME_DEACTIVATED = ACTIVATIONS.where(_AT_LICENSE, activations.c.deactivated_at.is_not(None)).order_by(
    activations.c.deactivated_at.desc(), activations.c.id.desc()
)
_SOME = union_all(
    select(_SOME_ACTIVE.limit(bindparam("most_active")).subquery()),
    select(_SOME_DEACTIVATED.limit(bindparam("most_deactivated")).subquery()),
).subquery("some")
#: One license with at most so many of its active records, and so many that were given up last; or with a row
#: of nothing.
SOME_RECORDS = (
    select(*LICENSE, *_SOME.c)
    .select_from(licenses.outerjoin(_SOME, _SOME.c.license_id == licenses.c.id))
    .where(licenses.c.id == bindparam("where_id"))
)
#: At most so many active records of one license.
SOME_ACTIVE = _SOME_ACTIVE.limit(bindparam("most"))
_NAMED = array_table(licenses.c.key_hmac, activations.c.token)
#: Licenses with the one record that has a token, or with a row of nothing. Only for PostgreSQL.
RECORDS_NAMED = _RECORD.select_from(
    _NAMED.join(licenses, licenses.c.key_hmac == _NAMED.c.key_hmac).outerjoin(
        activations, and_(_IS_ITS, activations.c.token == _NAMED.c.token)
    )
)
INSERT_ACTIVATIONS = bulk_insert(activations)
UPDATE_ACTIVATIONS = bulk_update(activations, ["license_id", "token"], ["updated_at", "deactivated_at"])
REWRITE_ACTIVATIONS = bulk_update(activations, ["license_id", "token"], [one.name for one in activations.c])
#: Every active record of a license is given up: one statement for all of them.
DEACTIVATE_ACTIVATIONS = (
    update(activations)
    .where(_AT_LICENSE, IS_ACTIVE)
    .values(deactivated_at=bindparam("moment"), updated_at=bindparam("moment"))
)
DELETE_ACTIVATIONS = bulk_delete(activations, "license_id")


COUNTERS_LOCKED = (
    select(licenses.c.times_activated, licenses.c.times_activated_max, licenses.c.deactivated_count)
    .where(licenses.c.id == bindparam("where_id"))
    .with_for_update()
)
#: How many of a license's activations are active, and how many were given up.
RECORDS_COUNTED = (
    select(func.count().filter(IS_ACTIVE), func.count().filter(~IS_ACTIVE))
    .select_from(activations)
    .where(_AT_LICENSE)
)
RECOUNT = (
    update(licenses)
    .where(licenses.c.id == bindparam("where_id"))
    .values(
        times_activated=bindparam("taken"), deactivated_count=bindparam("ended"), places=bindparam("room")
    )
)
