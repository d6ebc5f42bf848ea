"""The statements, built once: SQLAlchemy keeps what it compiled as long as the statement is the same."""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    not_,
    select,
    table,
    true,
    union_all,
    update,
)

from keywright.model import LicenseFilter
from keywright.storage import rows
from keywright.storage.many import Lookup, deleting, inserting, updating, wanted
from keywright.storage.schema import activations, api_keys, events, kept_answers, licenses

_ACTIVATIONS = select(*rows.ACTIVATION)
_IS_ACTIVE = activations.c.deactivated_at.is_(None)

#: Licenses with no more records than this are read many at once, with all of their records.
FEW_RECORDS = 100

LICENSES_WITH = Lookup(select(*rows.LICENSE), licenses.c.fingerprint)
#: In id order, so that two batches cannot lock crosswise.
LICENSES_LOCKED = Lookup(
    select(*rows.LICENSE).order_by(licenses.c.id).with_for_update(), licenses.c.fingerprint
)

_LOCKER: ColumnElement[Any] = literal_column("licenses.xmax")
_HELD, _WANTED = (
    table("pg_locks", *map(column, ("locktype", "transactionid", "pid", "granted"))).alias(name)
    for name in ("held", "wanted_elsewhere")
)
#: The transactions that hold these licenses and do not themselves wait for a lock: a batch that waits holds
#: what it has locked so far, and is over soon. A row names the transaction that has locked it last, and a
#: transaction holds its own number until its end. Only for PostgreSQL.
HOLDERS = Lookup(
    select(licenses.c.fingerprint, cast(_LOCKER, Text)).where(
        select(1)
        .where(
            _HELD.c.locktype == "transactionid",
            _HELD.c.transactionid == _LOCKER,
            _HELD.c.granted,
            ~select(1).where(_WANTED.c.pid == _HELD.c.pid, not_(_WANTED.c.granted)).exists(),
        )
        .exists()
    ),
    licenses.c.fingerprint,
)
ACTIVATIONS_OF = Lookup(_ACTIVATIONS, activations.c.license_id)
ACTIVE_OF = Lookup(_ACTIVATIONS.where(_IS_ACTIVE), activations.c.license_id)
ACTIVATIONS_WITH = Lookup(_ACTIVATIONS, activations.c.license_id, activations.c.token)
ANSWERS_LOCKED = Lookup(select(kept_answers).with_for_update(read=True), kept_answers.c.scope)

_RECORD = select(*rows.LICENSE, *(one.label(f"of_{one.name}") for one in rows.ACTIVATION))
_IS_ITS = activations.c.license_id == licenses.c.id
# Sorted and limited, so that PostgreSQL goes through the index of each license whatever it believes of how
# many records a license has; a plan for the largest one would serve all.
_FEW = (
    _ACTIVATIONS.where(
        _IS_ITS,
        licenses.c.times_activated + licenses.c.deactivated_records <= literal_column(str(FEW_RECORDS)),
    )
    .order_by(activations.c.token)
    .limit(literal_column(str(FEW_RECORDS)))
    .correlate(licenses)
    .lateral("few")
)
#: Licenses with each of their records, or with a row of nothing; also those that have more than a few. What
#: one statement says is of one moment. Only for PostgreSQL.
RECORDS = Lookup(
    select(*rows.LICENSE, *_FEW.c).select_from(licenses.outerjoin(_FEW, true())), licenses.c.fingerprint
)
_AT_LICENSE = activations.c.license_id == bindparam("at_id")
_SOME_ACTIVE = _ACTIVATIONS.where(_AT_LICENSE, _IS_ACTIVE).order_by(activations.c.token)
_SOME_DEACTIVATED = _ACTIVATIONS.where(_AT_LICENSE, activations.c.deactivated_at.is_not(None)).order_by(
    activations.c.deactivated_at.desc(), activations.c.id.desc()
)
_SOME = union_all(
    select(_SOME_ACTIVE.limit(bindparam("most_active")).subquery()),
    select(_SOME_DEACTIVATED.limit(bindparam("most_deactivated")).subquery()),
).subquery("some")
#: One license with at most so many of its active records, and so many that were given up last; or with a row
#: of nothing.
SOME_RECORDS = (
    select(*rows.LICENSE, *_SOME.c)
    .select_from(licenses.outerjoin(_SOME, _SOME.c.license_id == licenses.c.id))
    .where(licenses.c.id == bindparam("at_id"))
)
#: At most so many active records of one license.
SOME_ACTIVE = _SOME_ACTIVE.limit(bindparam("most"))
_NAMED = wanted(licenses.c.fingerprint, activations.c.token)
#: Licenses with the one record that has a token, or with a row of nothing. Only for PostgreSQL.
RECORDS_NAMED = _RECORD.select_from(
    _NAMED.join(licenses, licenses.c.fingerprint == _NAMED.c.fingerprint).outerjoin(
        activations, and_(_IS_ITS, activations.c.token == _NAMED.c.token)
    )
)

API_KEY_IN_FORCE = select(*rows.API_KEY).where(
    api_keys.c.key_hash == bindparam("key_hash"), api_keys.c.revoked_at.is_(None)
)

#: Without ``expires_at``, which has an index: SQLite would write to it also where nothing changes.
_COUNTER = ("times_activated", "updated_at")

INSERT_LICENSES = inserting(licenses)
UPDATE_LICENSES = updating(licenses, ["id"], [one.name for one in licenses.c if one.name != "id"])
UPDATE_COUNTERS = updating(licenses, ["id"], _COUNTER)
UPDATE_COUNTERS_AND_RECORDS = updating(licenses, ["id"], (*_COUNTER, "deactivated_records"))
UPDATE_COUNTERS_AND_EXPIRY = updating(licenses, ["id"], (*_COUNTER, "deactivated_records", "expires_at"))
UPDATE_COUNTERS_AND_PLACES = updating(licenses, ["id"], (*_COUNTER, "deactivated_records", "places"))
DELETE_LICENSES = deleting(licenses, "id")
INSERT_ACTIVATIONS = inserting(activations)
UPDATE_ACTIVATIONS = updating(activations, ["license_id", "token"], ["updated_at", "deactivated_at"])
#: Every active record of a license is given up: one statement for all of them.
DEACTIVATE_ACTIVATIONS = (
    update(activations)
    .where(_AT_LICENSE, _IS_ACTIVE)
    .values(deactivated_at=bindparam("moment"), updated_at=bindparam("moment"))
)
DELETE_ACTIVATIONS = deleting(activations, "license_id")
INSERT_EVENTS = inserting(events, without="id")
INSERT_KEPT_ANSWERS = inserting(kept_answers)
#: Gives the transaction its number, which it gets with its first change otherwise. Only for PostgreSQL.
BEGIN_TO_WRITE = select(cast(func.pg_current_xact_id(), Text))


COUNTERS_LOCKED = (
    select(licenses.c.times_activated, licenses.c.times_activated_max, licenses.c.deactivated_records)
    .where(licenses.c.id == bindparam("at_id"))
    .with_for_update()
)
#: How many of a license's activations are active, and how many were given up.
RECORDS_COUNTED = (
    select(func.count().filter(_IS_ACTIVE), func.count().filter(~_IS_ACTIVE))
    .select_from(activations)
    .where(_AT_LICENSE)
)
RECOUNT = (
    update(licenses)
    .where(licenses.c.id == bindparam("at_id"))
    .values(
        times_activated=bindparam("taken"), deactivated_records=bindparam("ended"), places=bindparam("room")
    )
)


def listed(where: LicenseFilter) -> Select[Any]:
    """The matching licenses with their sealed keys, oldest first."""
    query = select(*rows.LICENSE, licenses.c.sealed_key).order_by(licenses.c.id)
    return query.where(*_conditions(where))


def page(where: LicenseFilter, *, after_id: int, skip: int) -> Select[Any]:
    """The matching licenses after the first ``skip`` of those after this number. What is skipped is walked
    through as numbers, where an index has them, and not as whole rows.
    """
    query = listed(where)
    if not skip:
        return query.where(licenses.c.id > after_id)
    numbers = select(licenses.c.id).where(licenses.c.id > after_id, *_conditions(where))
    return query.where(
        licenses.c.id >= numbers.order_by(licenses.c.id).offset(skip).limit(1).scalar_subquery()
    )


def counted(where: LicenseFilter, most: int | None = None) -> Select[Any]:
    """The number of matching licenses, ``most`` at most."""
    some = select(licenses.c.id).where(*_conditions(where)).limit(most).subquery()
    return select(func.count()).select_from(some)


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
