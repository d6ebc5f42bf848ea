"""Database queries of the projection: its checkpoints, the events that it reads, and the search terms."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from keywright.db import rows
from keywright.db.bulk import Lookup, bulk_delete, bulk_insert, bulk_update, bulk_upsert
from keywright.db.schema import (
    activations,
    checkpoints,
    events,
    license_updates,
    licenses,
    limit_refusals,
    pruned_activations,
    search_terms,
)
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.search.counters_store import IMPORTED

#: The terms of licenses that have no free place, and of licenses that were never activated.
FULL, UNUSED = "full", "unused"
#: A position after the last row of any table.
END = 2**63 - 1
_MAX_TERM_LENGTH = 300
#: The most licenses in one statement.
_MAX_NAMED = 128

_NEXT_EVENTS = (
    sa.select(
        *(events.c[name] for name in ("id", "occurred_at", "name", "license_id", "activation_id")),
        sa.case((events.c.name == IMPORTED, events.c.details)).label("details"),
    )
    .where(events.c.id > sa.bindparam("after"))
    .order_by(events.c.id)
    .limit(sa.bindparam("most"))
)
_OLDEST = (
    sa.select(events.c.occurred_at).where(events.c.id > sa.bindparam("after")).order_by(events.c.id).limit(1)
)
_NEWEST_EVENT = sa.select(sa.func.coalesce(sa.func.max(events.c.id), 0))
_NEWEST_LICENSE = sa.select(sa.func.coalesce(sa.func.max(licenses.c.id), 0))
# Not EXISTS, for which PostgreSQL tends to read all activations.
_ANY_ACTIVATION = (
    sa.select(sa.literal_column("1", sa.BigInteger))
    .where(activations.c.license_id == licenses.c.id)
    .limit(1)
    .scalar_subquery()
)
_STATE = sa.select(
    licenses.c.id.label("license_id"),
    sa.case((licenses.c.times_activated >= licenses.c.times_activated_max, 1), else_=0).label("is_full"),
    _ANY_ACTIVATION.label("is_used"),
    licenses.c.updated_at,
)
_STATES_OF = Lookup(_STATE, licenses.c.id)
_NEXT_STATES = (
    _STATE.where(licenses.c.id > sa.bindparam("after")).order_by(licenses.c.id).limit(sa.bindparam("most"))
)
_ACTIVATIONS = sa.select(
    activations.c.license_id,
    activations.c.id,
    activations.c.token,
    activations.c.label,
    activations.c.ip_address,
    activations.c.fingerprint,
)
# By license and ID: no index has the ID, a license may have very many activations, and one scan is enough.
_ACTIVATIONS_BY_ID = _ACTIVATIONS.where(
    activations.c.license_id.in_(sa.bindparam("licenses", expanding=True)),
    activations.c.id.in_(sa.bindparam("numbers", expanding=True)),
)
_ACTIVATIONS_OF = _ACTIVATIONS.where(
    activations.c.license_id.in_(sa.bindparam("licenses", expanding=True))
).execution_options(yield_per=1_000)
_NEXT_ACTIVATIONS = (
    _ACTIVATIONS.where(activations.c.license_id > sa.bindparam("after"))
    .order_by(activations.c.license_id, activations.c.token)
    .limit(sa.bindparam("most"))
)
_ACTIVATIONS_AFTER_TOKEN = (
    _ACTIVATIONS.where(
        activations.c.license_id == sa.bindparam("license"), activations.c.token > sa.bindparam("after")
    )
    .order_by(activations.c.token)
    .limit(sa.bindparam("most"))
)
_INSERT_TERMS = bulk_upsert(search_terms, ["term", "license_id", "activation_id"])
_DELETE_TERMS = bulk_delete(search_terms, "term", "license_id", "activation_id")
_PRUNED = sa.select(pruned_activations).limit(sa.bindparam("most"))
_DELETE_TERMS_OF_ACTIVATIONS = bulk_delete(search_terms, "license_id", "activation_id")
_DELETE_PRUNED = bulk_delete(pruned_activations, "license_id", "activation_id")
_DELETE_TERMS_OF_LICENSES = bulk_delete(search_terms, "license_id")
_DELETE_UPDATES = bulk_delete(license_updates, "license_id")
_INSERT_UPDATES = bulk_insert(license_updates)
_DELETE_REFUSALS = bulk_delete(limit_refusals, "license_id")
_INSERT_CHECKPOINTS = bulk_upsert(checkpoints, ["name"])
_UPDATE_CHECKPOINTS = bulk_update(checkpoints, ["name"], ["last_id"])


class Checkpoints(msgspec.Struct):
    """The progress of the projection; each field is the row with its name in the table ``checkpoints``."""

    #: The last event that was projected.
    events: int = 0
    #: The newest event when the projection began, -1 before that; events up to it are the past.
    past_until: int = -1
    #: The last event of the past that was counted.
    past_events: int = 0
    #: The last license of the past whose terms ``full`` and ``unused`` are stored.
    past_licenses: int = 0
    #: The activations of the past whose terms are stored: those of licenses up to this one, and those of the
    #: next license up to a token that begins with these 15 hexadecimal digits.
    past_activations: int = 0
    past_token: int = 0
    #: The last license whose ``key_start`` is stored.
    key_starts: int = 0
    #: The newest event when counting by product began, -1 before that; and the last event up to it that was
    #: counted.
    products_until: int = -1
    products_past: int = 0
    #: The last event in the reports; the last event in their lists, which older releases do not fill; and the
    #: first month that they count, if they were rebuilt.
    reports: int = 0
    reports_listed: int = 0
    reports_since: int = 0
    #: The day whose devices are counted; the license and the token from which on they are not counted yet;
    #: and the last day that was counted completely.
    devices_day: int = 0
    devices_license: int = 0
    devices_token: int = 0
    devices_done: int = 0
    #: The last event whose license is in ``license_updates``: servers of older releases do not write that
    #: table.
    updates: int = 0

    @property
    def is_past_done(self) -> bool:
        """Whether all data from before the first checkpoint has been projected."""
        is_counted = 0 <= self.past_until <= self.past_events
        return is_counted and self.past_licenses == self.past_activations == self.key_starts == END

    @property
    def is_past_of_products_done(self) -> bool:
        """Whether all events from before counting by product began have been counted."""
        return 0 <= self.products_until <= self.products_past


_NAMES = Checkpoints.__struct_fields__
_FIND = sa.select(checkpoints.c.name, checkpoints.c.last_id).where(checkpoints.c.name.in_(_NAMES))
_IS_FIRST = checkpoints.c.name == "events"
#: Selects the events that have not been projected.
NEW_EVENTS = sa.select(events.c.id).where(
    events.c.id > sa.func.coalesce(sa.select(checkpoints.c.last_id).where(_IS_FIRST).scalar_subquery(), 0)
)
_LOCK = sa.select(checkpoints.c.name).where(_IS_FIRST).with_for_update(skip_locked=True)
_LOCK_AND_WAIT = sa.select(checkpoints.c.name).where(_IS_FIRST).with_for_update()


# --- terms ----------------------------------------------------------------------------------------


def token_term(token: str) -> str:
    """Return the term of an activation's token."""
    return f"t{token}"


def label_term(label: str) -> str:
    """Return the term of a label, in lower case; the term of a label's prefix is a prefix of it."""
    return f"l{label.lower()}"[:_MAX_TERM_LENGTH]


def device_term(fingerprint: str) -> str:
    """Return the term of a device's fingerprint."""
    return f"d{fingerprint}"


def address_term(ip_address: str) -> str:
    """Return the term of the IP address that activated."""
    return f"i{ip_address}"


# --- checkpoints ----------------------------------------------------------------------------------


def find_checkpoints(tx: ReadTransaction) -> Checkpoints | None:
    """Return the progress; None before the first step."""
    found = {name: last_id for name, last_id in tx.connection.execute(_FIND)}
    return Checkpoints(**found) if found else None


def lock_checkpoints(tx: WriteTransaction) -> Checkpoints | None:
    """The progress, locked until the end of the transaction; None while another process has the lock."""
    stored = {name for name, _ in tx.connection.execute(_FIND)}
    begun = msgspec.structs.asdict(Checkpoints())
    missing = [{"name": name, "last_id": begun[name]} for name in _NAMES if name not in stored]
    _INSERT_CHECKPOINTS.execute(tx.connection, missing)
    is_ours = tx.connection.execute(_LOCK).first() is not None
    return find_checkpoints(tx) if is_ours else None


def lock_projection(tx: WriteTransaction) -> None:
    """Block projections until the end of the transaction; the next one then reads these changes."""
    tx.connection.execute(_LOCK_AND_WAIT)


def save_checkpoints(tx: WriteTransaction, before: Checkpoints, after: Checkpoints) -> None:
    """Update the checkpoints that have changed."""
    old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(after)
    moved = [{"where_name": name, "last_id": new[name]} for name in _NAMES if new[name] != old[name]]
    _UPDATE_CHECKPOINTS.execute(tx.connection, moved)


def newest_event(tx: ReadTransaction) -> int:
    """Return the largest event ID, 0 if there is no event."""
    return int(tx.connection.execute(_NEWEST_EVENT).scalar_one())


def newest_license(tx: ReadTransaction) -> int:
    """Return the largest license ID, 0 if there is no license."""
    return int(tx.connection.execute(_NEWEST_LICENSE).scalar_one())


def find_time_after(tx: ReadTransaction, event_id: int) -> datetime | None:
    """Return the time of the next event after this one."""
    at = tx.connection.execute(_OLDEST, {"after": event_id}).scalar()
    return None if at is None else rows.to_datetime(at)


# --- events ---------------------------------------------------------------------------------------


def list_next_events(tx: ReadTransaction, *, after_id: int, limit: int) -> list[sa.Row[Any]]:
    """The next events: id, occurred_at (seconds), name, license_id, activation_id; of imports, details."""
    return list(tx.connection.execute(_NEXT_EVENTS, {"after": after_id, "most": limit}))


# --- search terms ----------------------------------------------------------------------------------------


def list_states(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, sa.Row[Any]]:
    """Return the current states of these licenses, by ID: license_id, is_full, is_used, updated_at."""
    found = _STATES_OF.find_rows(tx.connection, license_ids)
    return {row.license_id: row for row in found}


def list_next_states(tx: ReadTransaction, *, after_id: int, limit: int) -> list[sa.Row[Any]]:
    """Return the states of the licenses after this ID."""
    return list(tx.connection.execute(_NEXT_STATES, {"after": after_id, "most": limit}))


def list_activations_by_id(tx: ReadTransaction, numbers: Mapping[int, Collection[int]]) -> list[sa.Row[Any]]:
    """Return the activations with these IDs: license_id, id, token, label, ip_address, fingerprint."""
    found: list[sa.Row[Any]] = []
    named = sorted(numbers)
    for start in range(0, len(named), _MAX_NAMED):
        some = named[start : start + _MAX_NAMED]
        values = {"licenses": some, "numbers": sorted(one for each in some for one in numbers[each])}
        found += list[sa.Row[Any]](tx.connection.execute(_ACTIVATIONS_BY_ID, values))
    return found


def list_activations_of(tx: ReadTransaction, license_ids: Collection[int]) -> Iterator[Sequence[Any]]:
    """Yield all activations of these licenses in chunks, in the form of ``list_activations_by_id``."""
    if license_ids:
        found = tx.connection.execute(_ACTIVATIONS_OF, {"licenses": sorted(license_ids)})
        yield from found.partitions()


def list_next_activations(tx: ReadTransaction, *, after_id: int, limit: int) -> list[sa.Row[Any]]:
    """The activations of licenses after this ID, by license and token; of the last, perhaps not all."""
    return list(tx.connection.execute(_NEXT_ACTIVATIONS, {"after": after_id, "most": limit}))


def list_activations_after_token(
    tx: ReadTransaction, license_id: int, *, after: int, limit: int
) -> list[sa.Row[Any]]:
    """A license's activations, by token, after a ``token_position``; those at it perhaps again."""
    values = {"license": license_id, "after": f"{after:015x}", "most": limit}
    return list(tx.connection.execute(_ACTIVATIONS_AFTER_TOKEN, values))


def token_position(token: str) -> int:
    """Return the position of a token among those of its license; never 0."""
    return max(1, int(token[:15], 16))


def save_activation_terms(tx: WriteTransaction, places: Iterable[sa.Row[Any]]) -> None:
    """Insert the terms for the tokens, labels, addresses and devices of these activations."""
    _save_terms(tx, [(term, one.license_id, one.id) for one in places for term in terms_of_activation(one)])


def insert_state_terms(tx: WriteTransaction, states: Collection[sa.Row[Any]]) -> None:
    """Insert the terms of licenses that are full or unused, and the times of the last change of all."""
    _DELETE_UPDATES.execute(tx.connection, [{"where_license_id": one.license_id} for one in states])
    _INSERT_UPDATES.execute(
        tx.connection, [{"license_id": one.license_id, "updated_at": one.updated_at} for one in states]
    )
    _save_terms(
        tx, [(term, one.license_id, 0) for one in states for term, is_it in _state_terms(one) if is_it]
    )


def save_state_terms(tx: WriteTransaction, states: Collection[sa.Row[Any]]) -> None:
    """Insert the terms of the licenses that are full or unused, and delete those of the others."""
    insert_state_terms(tx, states)
    find_unmatched = [
        {"where_term": term, "where_license_id": one.license_id, "where_activation_id": 0}
        for one in states
        for term, is_it in _state_terms(one)
        if not is_it
    ]
    _DELETE_TERMS.execute(tx.connection, find_unmatched)


def delete_terms_of_licenses(tx: WriteTransaction, license_ids: Collection[int]) -> None:
    """Delete all terms and refusals of these licenses, and the times of their last change."""
    values = [{"where_license_id": number} for number in sorted(license_ids)]
    _DELETE_TERMS_OF_LICENSES.execute(tx.connection, values)
    _DELETE_REFUSALS.execute(tx.connection, values)
    _DELETE_UPDATES.execute(tx.connection, values)


def has_pruned(tx: ReadTransaction) -> bool:
    """Whether there are deleted activations that may still have search terms."""
    return tx.connection.execute(_PRUNED, {"most": 1}).first() is not None


def delete_terms_of_pruned(tx: WriteTransaction, *, limit: int) -> int:
    """Delete the terms of some deleted activations; returns how many activations that are. A process that
    inserts terms of an activation and then reads here also sees its deletion.
    """
    gone = tx.connection.execute(_PRUNED, {"most": limit}).all()
    values = [{"where_license_id": one.license_id, "where_activation_id": one.activation_id} for one in gone]
    _DELETE_TERMS_OF_ACTIVATIONS.execute(tx.connection, values)
    _DELETE_PRUNED.execute(tx.connection, values)
    return len(gone)


def terms_of_activation(place: Any) -> Iterator[str]:
    """Yield the terms of an activation, or of a row with its token, label, ip_address and fingerprint."""
    yield token_term(place.token)
    if place.label:
        yield label_term(place.label)
    if place.ip_address:
        yield address_term(place.ip_address)
    if place.fingerprint:
        yield device_term(place.fingerprint)


def _state_terms(state: sa.Row[Any]) -> tuple[tuple[str, bool], tuple[str, bool]]:
    return (FULL, bool(state.is_full)), (UNUSED, not state.is_used)


def _save_terms(tx: WriteTransaction, found: list[tuple[str, int, int]]) -> None:
    # Sorted, so that neighbors are written to the same pages of the index.
    values = [
        {"term": term, "license_id": license_id, "activation_id": number}
        for term, license_id, number in sorted(found)
    ]
    _INSERT_TERMS.execute(tx.connection, values)
