"""Find the event up to which none can still be committed.

On PostgreSQL, a transaction takes the ids of its events before it commits, so event 6 may be there and 5
appear later, or never. A transaction that can still commit an event below the newest one has its number
already. Whoever gets a number after that waits until none runs that has a smaller one: then all have ended.
"""

from sqlalchemy import BigInteger, ColumnElement, Text, cast, func, select

from keywright.db.bulk import bulk_update, bulk_upsert
from keywright.db.schema import checkpoints, events
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.store import find_checkpoint, find_newest_id

#: The names in ``checkpoints`` of the event up to which none can still be committed; of the newest one when
#: more was to be found out; and of the number that a transaction got after that, 0 while none waits for it.
_SETTLED, _SEEN, _AFTER = _NAMES = ("settled", "settled_seen", "settled_after")
_IS_OURS = checkpoints.c.name.in_(_NAMES)
_FIND = select(checkpoints.c.name, checkpoints.c.last_id).where(_IS_OURS)
_LOCK = select(checkpoints.c.name).where(checkpoints.c.name == _SETTLED).with_for_update(skip_locked=True)
_INSERT = bulk_upsert(checkpoints, ["name"])
_UPDATE = bulk_update(checkpoints, ["name"], ["last_id"])
_AT = select(checkpoints.c.last_id).where(checkpoints.c.name == _SETTLED).scalar_subquery()
#: Finds the events of which it is not known whether others may still appear below them.
UNSETTLED = select(events.c.id).where(events.c.id > func.coalesce(_AT, 0))


def _number(of_transaction: ColumnElement[object]) -> ColumnElement[int]:
    return cast(cast(of_transaction, Text), BigInteger)


_NEWEST = select(
    func.coalesce(func.max(events.c.id), 0), func.pg_current_xact_id_if_assigned().is_not(None)
).select_from(events)
_OLDEST = func.pg_snapshot_xmin(func.pg_current_snapshot())
_NUMBERS = select(_number(func.pg_current_xact_id()), _number(_OLDEST))


def find_settled_id(tx: ReadTransaction) -> int:
    """The id up to which no event can still be committed, as far as known. Later reads see all up to it."""
    return find_checkpoint(tx, _SETTLED) if tx.is_postgres else find_newest_id(tx)


def settle(tx: WriteTransaction) -> int:
    """Find out more, and return the id up to which no event can still be committed. Nothing is found out in a
    transaction that has changed or locked something, or while another process does the same.
    """
    if not tx.is_postgres:
        # There is one writer at a time.
        return find_newest_id(tx)
    newest, has_number = tx.connection.execute(_NEWEST).one()
    settled = find_settled_id(tx)
    if settled >= newest or has_number:
        return settled
    _INSERT.execute(tx.connection, [{"name": name, "last_id": 0} for name in _NAMES])
    if tx.connection.execute(_LOCK).first() is None:
        return settled
    before = {name: last_id for name, last_id in tx.connection.execute(_FIND)}
    after = _settle(before, newest, *tx.connection.execute(_NUMBERS).one())
    moved = [{"where_name": name, "last_id": after[name]} for name in _NAMES if after[name] != before[name]]
    _UPDATE.execute(tx.connection, moved)
    return after[_SETTLED]


def _settle(at: dict[str, int], newest: int, own: int, oldest: int) -> dict[str, int]:
    """The checkpoints after a look by a transaction with its ``own`` number; ``oldest`` is the smallest of
    those that run. ``newest`` is an event that was there before the transaction had a number.
    """
    settled, seen, after = (at[name] for name in _NAMES)
    if 0 < after <= oldest:
        settled, after = max(settled, seen), 0
    # A larger number comes from the server from which this database was copied.
    if not 0 < after <= own:
        seen, after = newest, own
        if own <= oldest:
            settled, after = max(settled, seen), 0
    return {_SETTLED: settled, _SEEN: seen, _AFTER: after}
