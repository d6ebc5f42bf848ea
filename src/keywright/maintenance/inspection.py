"""Inspect the database: its size and version, counters next to the rows that they count, and which parts of a
new installation are set up.
"""

from collections import defaultdict
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Select, and_, case, func, literal_column, or_, select, text

from keywright.core.crypto import KeyRing
from keywright.db import rows, schema
from keywright.db.migrate import read_size
from keywright.db.schema import activations, events, lease_counters, leases, licenses, sequences, sessions
from keywright.db.sealed_columns import find_secret_ids
from keywright.db.transaction import ReadTransaction
from keywright.events import store as event_store
from keywright.identity.model import Role
from keywright.maintenance import old_events

_VERSION = {
    "sqlite": text("SELECT sqlite_version()"),
    "postgresql": text("SELECT split_part(current_setting('server_version'), ' ', 1)"),
}
_REVISION = text("SELECT version_num FROM alembic_version")


class Measured(msgspec.Struct, frozen=True):
    """``kind`` is ``sqlite`` or ``postgresql``; ``size`` is that of the whole database, in bytes."""

    kind: str
    version: str
    revision: str
    size: int


def measure(tx: ReadTransaction) -> Measured:
    """Read the kind, version, revision and size of the database."""
    kind = tx.connection.dialect.name
    version, revision = (tx.connection.execute(query).scalar_one() for query in (_VERSION[kind], _REVISION))
    return Measured(kind, str(version), str(revision), read_size(tx.connection))


def count_sessions(tx: ReadTransaction, now: datetime) -> int:
    """The number of sessions that have not ended."""
    query = select(func.count()).where(sessions.c.ends_at > rows.to_seconds(now))
    return int(tx.connection.execute(query).scalar_one())


_LICENSES = select(
    *(
        licenses.c[name]
        for name in (
            "id key_hmac sealed_key times_activated uncounted_count places deactivated_count created_at"
        ).split()
    )
).order_by(licenses.c.id)
_COUNTS = select(
    activations.c.license_id,
    func.count(),
    func.count().filter(activations.c.deactivated_at.is_(None)),
    func.count().filter(activations.c.deactivated_at.is_(None), activations.c.is_counted == 0),
).group_by(activations.c.license_id)
#: The name under which events of places given up together are counted.
OTHERS = "license.deactivated, others"
_IS_OF_OTHERS = and_(events.c.name == "license.deactivated", events.c.activation_id.is_(None))
_NAME = case((_IS_OF_OTHERS, literal_column(f"'{OTHERS}'")), else_=events.c.name)
_EVENTS = select(events.c.license_id, _NAME, func.count()).group_by(events.c.license_id, _NAME)
_LEASE_COUNTERS = select(lease_counters.c.license_id, lease_counters.c.held)
_LEASES = (
    select(leases.c.license_id, func.count()).where(leases.c.ended_at.is_(None)).group_by(leases.c.license_id)
)
_DOUBLED = select(activations.c.id).group_by(activations.c.id).having(func.count() > 1).limit(100)


class Inspected(msgspec.Struct, frozen=True):
    """A license: its row, and counts of the rows that belong to it."""

    id: int
    is_key_sound: bool
    times_activated: int
    uncounted_count: int
    places: int | None
    deactivated_count: int
    #: The number of its activations, of the active ones, and of the active ones that take no place.
    records: int
    active: int
    uncounted: int
    #: The number of its leases according to the counter, and of those that have not ended.
    leases_counted: int
    leases: int
    #: The number of its events, by name.
    events: dict[str, int]
    #: Whether none of its events can have been deleted.
    are_events_kept: bool


class Step(msgspec.Struct, frozen=True):
    """Licenses in the order of their IDs, and IDs in this range that only activations or leases refer to."""

    licenses: list[Inspected]
    missing_licenses: list[int]
    #: The last ID of the range.
    last_id: int


def inspect_licenses(tx: ReadTransaction, *, after_id: int, limit: int) -> Step:
    """Read the next ``limit`` licenses after this ID, fewer at the end, as one snapshot."""
    connection = tx.connection
    rows = connection.execute(_LICENSES.where(licenses.c.id > after_id).limit(limit)).all()
    is_last = len(rows) < limit
    last_id = 2**63 - 1 if is_last else int(rows[-1].id)
    counts = {
        row[0]: (row[1], row[2], row[3])
        for row in connection.execute(_within(_COUNTS, activations, after_id, last_id))
    }
    event_counts: dict[int, dict[str, int]] = defaultdict(dict)
    for license_id, name, times in connection.execute(_within(_EVENTS, events, after_id, last_id)):
        event_counts[license_id][name] = times
    counters, held = (
        {row[0]: row[1] for row in connection.execute(_within(query, table, after_id, last_id))}
        for query, table in ((_LEASE_COUNTERS, lease_counters), (_LEASES, leases))
    )
    # During a rotation, rows may be sealed with either secret.
    rings = [ring for one in find_secret_ids(connection) if (ring := tx.key_ring.find_ring(one)) is not None]
    deleted_before = event_store.find_deletion_moment(tx)
    inspected = [
        Inspected(
            row.id,
            any(_is_sound(ring, row) for ring in rings),
            row.times_activated,
            row.uncounted_count,
            row.places,
            row.deactivated_count,
            *counts.get(row.id, (0, 0, 0)),
            counters.get(row.id, 0),
            held.get(row.id, 0),
            event_counts[row.id],
            row.created_at >= deleted_before and old_events.are_all_kept(event_counts[row.id].items()),
        )
        for row in rows
    ]
    missing = sorted((counts.keys() | held.keys()) - {row.id for row in rows})
    return Step(inspected, missing, last_id)


def find_doubled_numbers(tx: ReadTransaction) -> list[int]:
    """Find IDs that more than one activation has, at most 100."""
    return [int(number) for number in tx.connection.execute(_DOUBLED).scalars()]


def find_kinds_behind(tx: ReadTransaction) -> list[str]:
    """Find the kinds (``license``, ``activation``) whose next ID is already in use."""
    columns = {"license": licenses.c.id, "activation": activations.c.id}
    largest = {kind: tx.connection.execute(select(func.max(columns[kind]))).scalar() for kind in columns}
    return [kind for kind, number in largest.items() if last_number(tx, kind) < (number or 0)]


def last_number(tx: ReadTransaction, kind: str) -> int:
    """Return the last ID assigned to a ``license`` or an ``activation``; 0 before the first."""
    if tx.is_postgres:
        words = f"SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {kind}_id_seq"  # noqa: S608
        return int(tx.connection.execute(text(words)).scalar_one())
    query = select(sequences.c.last_id).where(sequences.c.name == kind)
    return int(tx.connection.execute(query).scalar_one())


def find_damage(tx: ReadTransaction) -> list[str]:
    """Let SQLite check its file; PostgreSQL checks its own files."""
    if tx.is_postgres:
        return []
    lines = tx.connection.execute(text("PRAGMA quick_check(20)")).scalars().all()
    return [line for line in lines if line != "ok"]


def _within(query: Select[Any], table: Any, after_id: int, last_id: int) -> Select[Any]:
    return query.where(table.c.license_id > after_id, table.c.license_id <= last_id)


def _is_sound(ring: KeyRing, row: Any) -> bool:
    try:
        key = ring.unseal_key(row.sealed_key, row.id)
    except ValueError:
        return False
    return ring.blind_index(key) == bytes(row.key_hmac)


_ADMINISTRATORS = (schema.users.c.role == Role.ADMINISTRATOR.value) & schema.users.c.disabled_at.is_(None)
_USERS = select(schema.users.c.id).where(schema.users.c.disabled_at.is_(None))
_QUESTIONS = (
    select(schema.policies.c.id).where(schema.policies.c.product_id.is_not(None)),
    select(schema.connections.c.id),
    select(schema.brand.c.id).where(or_(schema.brand.c.name.is_not(None), schema.brand.c.logo.is_not(None))),
    _USERS.offset(1),
    select(schema.users.c.id).where(
        _ADMINISTRATORS, schema.users.c.id.not_in(select(schema.second_factors.c.user_id))
    ),
    select(schema.activations.c.license_id),
)


class SetUp(NamedTuple):
    """Which parts are set up: the ID of the first product, whether a product has a policy, and so on."""

    product_id: int | None
    has_policy: bool
    has_shop: bool
    has_brand: bool
    has_colleague: bool
    #: Whether an administrator has no second factor.
    lacks_factor: bool
    has_activation: bool


def find_set_up(tx: ReadTransaction) -> SetUp:
    """Find which parts are set up. Runs two statements, which read a row of each table."""
    first = tx.connection.execute(select(func.min(schema.products.c.id))).scalar_one()
    return SetUp(first, *tx.which_exist(_QUESTIONS))
