"""What follows the events: how far that has come, under which terms licenses are found, how often what
happened on a day.

On PostgreSQL, a transaction takes the numbers of its events before it commits, so an event may appear below
others that are there already (docs/decisions/018).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
)

from keywright.db import rows
from keywright.db.bulk import Lookup, deleting, updating, upserting
from keywright.db.schema import (
    activations,
    checkpoints,
    daily_counts,
    events,
    licenses,
    limit_refusals,
    pruned_activations,
    search_terms,
)
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: The terms of licenses that have no free place, and of those that were never activated.
FULL, UNUSED = "full", "unused"
#: The name, in the counts of days, of calls through a proxy that is not trusted.
FORWARDED_BLINDLY = "call.forwarded_blindly"
#: A position behind the last row of any table.
END = 2**63 - 1
_MOST_IN_TERM = 300
_DAY = 86_400
#: How many licenses one statement names at most.
_MOST_NAMED = 128

_HAPPENED = (
    select(events.c.id, events.c.occurred_at, events.c.name, events.c.license_id, events.c.activation_id)
    .where(events.c.id > bindparam("after"))
    .order_by(events.c.id)
    .limit(bindparam("most"))
)
_ITS_DAY = events.c.occurred_at // literal_column(str(_DAY), BigInteger)
_ON_DAYS = (
    select(_ITS_DAY, events.c.name, func.count())
    .where(events.c.id > bindparam("after"), events.c.id <= bindparam("until"))
    .group_by(_ITS_DAY, events.c.name)
)
_OLDEST = select(events.c.occurred_at).where(events.c.id > bindparam("after")).order_by(events.c.id).limit(1)
# Not EXISTS: PostgreSQL likes to read all activations for that.
_ANY_ACTIVATION = (
    select(literal_column("1", BigInteger))
    .where(activations.c.license_id == licenses.c.id)
    .limit(1)
    .scalar_subquery()
)
_STATE = select(
    licenses.c.id.label("license_id"),
    case((licenses.c.times_activated >= licenses.c.times_activated_max, 1), else_=0).label("is_full"),
    _ANY_ACTIVATION.label("is_used"),
)
_STATES_OF = Lookup(_STATE, licenses.c.id)
_NEXT_STATES = (
    _STATE.where(licenses.c.id > bindparam("after")).order_by(licenses.c.id).limit(bindparam("most"))
)
_PLACES = select(
    activations.c.license_id,
    activations.c.id,
    activations.c.token,
    activations.c.label,
    activations.c.ip_address,
)
# Both are named: no index has the number, a license may have very many activations, and reading through them
# once is enough.
_PLACES_NAMED = _PLACES.where(
    activations.c.license_id.in_(bindparam("licenses", expanding=True)),
    activations.c.id.in_(bindparam("numbers", expanding=True)),
)
_NEXT_PLACES = (
    _PLACES.where(activations.c.license_id > bindparam("after"))
    .order_by(activations.c.license_id, activations.c.token)
    .limit(bindparam("most"))
)
_REST_OF_PLACES = (
    _PLACES.where(activations.c.license_id == bindparam("license"), activations.c.token > bindparam("after"))
    .order_by(activations.c.token)
    .limit(bindparam("most"))
)
_INSERT_TERMS = upserting(search_terms, ["term", "license_id", "activation_id"])
_DELETE_TERMS = deleting(search_terms, "term", "license_id", "activation_id")
_PRUNED = select(pruned_activations).limit(bindparam("most"))
_DELETE_TERMS_OF_ACTIVATIONS = deleting(search_terms, "license_id", "activation_id")
_FORGET_PRUNED = deleting(pruned_activations, "license_id", "activation_id")
_FORGET = deleting(search_terms, "license_id")
_FORGET_REFUSALS = deleting(limit_refusals, "license_id")
_COUNT = upserting(daily_counts, ["day", "name"], sums=["amount"])
_BEGIN = upserting(checkpoints, ["name"])
_MOVE = updating(checkpoints, ["name"], ["last_id"])


def _as_number(of_transaction: ColumnElement[Any]) -> ColumnElement[int]:
    return cast(cast(of_transaction, Text), BigInteger)


_OWN = _as_number(func.pg_current_xact_id())
_OLDEST_RUNNING = _as_number(func.pg_snapshot_xmin(func.pg_current_snapshot()))


class Checkpoints(msgspec.Struct):
    """How far following has come; each is the row of the table ``checkpoints`` with that name."""

    #: Up to this number, events are followed.
    events: int = 0
    #: The newest event when a number was missing, and the number of a transaction that began later; 0 before
    #: there is one.
    events_seen: int = 0
    events_after: int = 0
    #: The newest event when following began, -1 before; those up to it are the past.
    past_until: int = -1
    #: How far the events of the past are counted.
    past_events: int = 0
    #: How far the licenses there were have their terms ``full`` and ``unused``.
    past_licenses: int = 0
    #: How far the activations there were have their terms: those of the licenses up to this one, and those of
    #: the next one up to a token that begins with these 15 hexadecimal digits.
    past_activations: int = 0
    past_token: int = 0

    @property
    def is_past_done(self) -> bool:
        """Whether nothing is left to be done about what there was before following began."""
        is_counted = 0 <= self.past_until <= self.past_events
        return is_counted and self.past_licenses == END and self.past_activations == END


_NAMES = Checkpoints.__struct_fields__
_FIND = select(checkpoints.c.name, checkpoints.c.last_id).where(checkpoints.c.name.in_(_NAMES))
_IS_FIRST = checkpoints.c.name == "events"
_LOCK = select(checkpoints.c.name).where(_IS_FIRST).with_for_update(skip_locked=True)
_HOLD = select(checkpoints.c.name).where(_IS_FIRST).with_for_update()


# --- terms ----------------------------------------------------------------------------------------


def token_term(token: str) -> str:
    """The term of an activation's token."""
    return f"t{token}"


def label_term(label: str) -> str:
    """The term of a label, whether letters are large or small; of a label's beginning, that of the term."""
    return f"l{label.lower()}"[:_MOST_IN_TERM]


def address_term(ip_address: str) -> str:
    """The term of the address that activated."""
    return f"i{ip_address}"


# --- how far --------------------------------------------------------------------------------------


def find_checkpoints(tx: ReadTransaction) -> Checkpoints | None:
    """How far following has come; None when nobody has ever begun."""
    found = {name: last_id for name, last_id in tx.connection.execute(_FIND)}
    return Checkpoints(**found) if found else None


def lock_checkpoints(tx: WriteTransaction) -> Checkpoints | None:
    """The same, and nobody else follows until the end; None when somebody else does now."""
    stored = {name for name, _ in tx.connection.execute(_FIND)}
    begun = msgspec.structs.asdict(Checkpoints())
    missing = [{"name": name, "last_id": begun[name]} for name in _NAMES if name not in stored]
    _BEGIN.execute(tx.connection, missing)
    is_ours = tx.connection.execute(_LOCK).first() is not None
    return find_checkpoints(tx) if is_ours else None


def hold(tx: WriteTransaction) -> None:
    """Let no process follow until the end; one that follows then reads what is changed now."""
    tx.connection.execute(_HOLD)


def save_checkpoints(tx: WriteTransaction, before: Checkpoints, after: Checkpoints) -> None:
    """Update what has changed."""
    old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(after)
    moved = [{"at_name": name, "last_id": new[name]} for name in _NAMES if new[name] != old[name]]
    _MOVE.execute(tx.connection, moved)


def newest_event(tx: ReadTransaction) -> int:
    """The largest number of an event, 0 when there is none."""
    return int(tx.connection.execute(select(func.coalesce(func.max(events.c.id), 0))).scalar_one())


def newest_license(tx: ReadTransaction) -> int:
    """The largest number of a license, 0 when there is none."""
    return int(tx.connection.execute(select(func.coalesce(func.max(licenses.c.id), 0))).scalar_one())


def find_moment_after(tx: ReadTransaction, event_id: int) -> datetime | None:
    """When the next event after this one happened."""
    at = tx.connection.execute(_OLDEST, {"after": event_id}).scalar()
    return None if at is None else rows.moment(at)


def settled(tx: WriteTransaction, at: Checkpoints) -> int:
    """Up to which number no event can appear any more, as far as that is known. Who reads afterwards sees all
    that there will ever be.
    """
    if not tx.is_postgres:
        return END
    if not at.events_after:
        return 0
    oldest = int(tx.connection.execute(select(_OLDEST_RUNNING)).scalar_one())
    return at.events_seen if at.events_after <= oldest else 0


def wait_for(tx: WriteTransaction, at: Checkpoints, missing: int, newest: int) -> None:
    """This number is missing, and ``newest`` is there, which is larger. Who may still bring it has the number
    of a transaction, smaller than all that are given from now on: remember the event, or such a number.
    """
    if at.events_seen < missing:
        at.events_seen, at.events_after = newest, 0
        return
    own = int(tx.connection.execute(select(_OWN)).scalar_one())
    # A larger one is another server's, from which this database was copied.
    if not 0 < at.events_after <= own:
        at.events_after = own


# --- what happened --------------------------------------------------------------------------------


def list_happened(tx: ReadTransaction, *, after_id: int, limit: int) -> list[Row[Any]]:
    """The next events: id, at (seconds), name, license_id, activation_id."""
    return list(tx.connection.execute(_HAPPENED, {"after": after_id, "most": limit}))


def count_on_days(tx: ReadTransaction, *, after_id: int, until_id: int) -> dict[tuple[int, str], int]:
    """How often what happened on which day, among these events."""
    found = tx.connection.execute(_ON_DAYS, {"after": after_id, "until": until_id})
    return {(day, name): amount for day, name, amount in found}


def day_of(seconds: int) -> int:
    """The number of the day, as ``daily_counts`` has it."""
    return seconds // _DAY


def save_counts(tx: WriteTransaction, amounts: Mapping[tuple[int, str], int]) -> None:
    """Add to how often what happened, by day and name."""
    values = [{"day": day, "name": name, "amount": amount} for (day, name), amount in sorted(amounts.items())]
    _COUNT.execute(tx.connection, values)


# --- search terms ----------------------------------------------------------------------------------------


def list_states(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, Row[Any]]:
    """The present states of these licenses, by id: license_id, is_full, is_used."""
    found = _STATES_OF.rows(tx.connection, [(number,) for number in license_ids])
    return {row.license_id: row for row in found}


def list_next_states(tx: ReadTransaction, *, after_id: int, limit: int) -> list[Row[Any]]:
    """The same of the licenses that come next."""
    return list(tx.connection.execute(_NEXT_STATES, {"after": after_id, "most": limit}))


def list_places(tx: ReadTransaction, numbers: Mapping[int, Collection[int]]) -> list[Row[Any]]:
    """The activations with these numbers, by license: license_id, id, token, label, ip_address."""
    found: list[Row[Any]] = []
    named = sorted(numbers)
    for start in range(0, len(named), _MOST_NAMED):
        some = named[start : start + _MOST_NAMED]
        values = {"licenses": some, "numbers": sorted(one for each in some for one in numbers[each])}
        found += list[Row[Any]](tx.connection.execute(_PLACES_NAMED, values))
    return found


def list_next_places(tx: ReadTransaction, *, after_id: int, limit: int) -> list[Row[Any]]:
    """The same of the licenses that come next, by license and token; of the last license perhaps not all."""
    return list(tx.connection.execute(_NEXT_PLACES, {"after": after_id, "most": limit}))


def list_rest_of_places(tx: ReadTransaction, license_id: int, *, after: int, limit: int) -> list[Row[Any]]:
    """The same of one license, by token, after those that ``token_position`` says; these perhaps again."""
    values = {"license": license_id, "after": f"{after:015x}", "most": limit}
    return list(tx.connection.execute(_REST_OF_PLACES, values))


def token_position(token: str) -> int:
    """The position of a token among those of its license; never 0."""
    return max(1, int(token[:15], 16))


def save_places(tx: WriteTransaction, places: Iterable[Row[Any]]) -> None:
    """Let the licenses be found by the tokens, labels and addresses of these activations."""
    _save_terms(tx, [(term, one.license_id, one.id) for one in places for term in _terms_of(one)])


def save_states(tx: WriteTransaction, states: Collection[Row[Any]]) -> None:
    """Let the licenses be found as full or unused if they are."""
    _save_terms(tx, [(term, one.license_id, 0) for one in states for term, is_it in _judged(one) if is_it])


def change_states(tx: WriteTransaction, states: Collection[Row[Any]]) -> None:
    """Let the licenses be found as full or unused if they are, and only then."""
    save_states(tx, states)
    not_any_more = [
        {"at_term": term, "at_license_id": one.license_id, "at_activation_id": 0}
        for one in states
        for term, is_it in _judged(one)
        if not is_it
    ]
    _DELETE_TERMS.execute(tx.connection, not_any_more)


def forget_licenses(tx: WriteTransaction, license_ids: Collection[int]) -> None:
    """Let these licenses be found no more."""
    values = [{"at_license_id": number} for number in sorted(license_ids)]
    _FORGET.execute(tx.connection, values)
    _FORGET_REFUSALS.execute(tx.connection, values)


def has_pruned(tx: ReadTransaction) -> bool:
    """Whether there are activations that are gone, and may still have search terms."""
    return tx.connection.execute(_PRUNED, {"most": 1}).first() is not None


def forget_pruned(tx: WriteTransaction, *, limit: int) -> int:
    """Let licenses be found no more by activations that are gone; by how many of them. A process that adds
    terms for one and reads here afterwards also sees when it is gone.
    """
    gone = tx.connection.execute(_PRUNED, {"most": limit}).all()
    values = [{"at_license_id": one.license_id, "at_activation_id": one.activation_id} for one in gone]
    _DELETE_TERMS_OF_ACTIVATIONS.execute(tx.connection, values)
    _FORGET_PRUNED.execute(tx.connection, values)
    return len(gone)


def _terms_of(place: Row[Any]) -> Iterator[str]:
    yield token_term(place.token)
    if place.label:
        yield label_term(place.label)
    if place.ip_address:
        yield address_term(place.ip_address)


def _judged(state: Row[Any]) -> tuple[tuple[str, bool], tuple[str, bool]]:
    return (FULL, bool(state.is_full)), (UNUSED, not state.is_used)


def _save_terms(tx: WriteTransaction, found: list[tuple[str, int, int]]) -> None:
    # In order, neighbors come to the same pages.
    values = [
        {"term": term, "license_id": license_id, "activation_id": number}
        for term, license_id, number in sorted(found)
    ]
    _INSERT_TERMS.execute(tx.connection, values)
