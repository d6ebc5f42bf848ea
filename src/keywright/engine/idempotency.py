"""Idempotency keys: the first answer to a call is stored, and returned again if the call is repeated."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec
from sqlalchemy import delete, func, select

from keywright.core.command import Command, Cost
from keywright.core.errors import IdempotencyKeyReused, Refusal
from keywright.db import rows
from keywright.db.bulk import Lookup, Values, bulk_insert
from keywright.db.schema import idempotency_records
from keywright.db.transaction import WriteTransaction

_LOCKED = Lookup(select(idempotency_records).with_for_update(read=True), idempotency_records.c.scope)
_INSERT = bulk_insert(idempotency_records)
#: The most records that one transaction deletes.
_MAX_DELETED = 5_000
#: The maximum size of an owner's stored answers, in bytes, and the mean number of new bytes between trims.
MAX_OF_OWNER, _TRIMMED_AFTER = 16 * 2**20, 4 * 2**20


class IdempotencyRecord(msgspec.Struct, frozen=True):
    """The first answer to a call with an idempotency key, as it was sent."""

    request_digest: bytes
    status: int
    body: bytes
    owner: int = 0


def decide_once(
    tx: WriteTransaction, commands: Sequence[Command], decide: Callable[[Command], Any]
) -> list[Any]:
    """Execute the commands in order. A repeated call gets its first answer; a new one is stored."""
    scopes = [one.idempotency.scope for one in commands if one.idempotency is not None]
    known = lock_idempotency_records(tx, scopes)
    outcomes: list[Any] = []
    new: dict[bytes, datetime] = {}
    for command in commands:
        call = command.idempotency
        before = None if call is None else known.get(call.scope)
        if call is not None and before is not None:
            is_same = before.request_digest == call.request_digest
            outcomes.append(before if is_same else IdempotencyKeyReused())
            continue
        outcome = decide(command)
        outcomes.append(outcome)
        if call is not None and (call.keeps_refusals or not isinstance(outcome, Refusal)):
            answer = call.write_answer(outcome)
            if answer is not None:
                known[call.scope] = IdempotencyRecord(call.request_digest, *answer, call.owner)
                new[call.scope] = command.context.now
    save_idempotency_records(tx, {scope: known[scope] for scope in new}, new)
    return outcomes


def lock_idempotency_records(tx: WriteTransaction, scopes: Iterable[bytes]) -> dict[bytes, IdempotencyRecord]:
    """Lock the records of these calls, and return them by scope; durable once this transaction is."""
    unseal = tx.key_ring.unseal
    return {
        row.scope: IdempotencyRecord(row.request_digest, row.status, unseal(row.sealed_body, row.scope))
        for row in _LOCKED.find_rows(tx.connection, scopes)
    }


def save_idempotency_records(
    tx: WriteTransaction, records: dict[bytes, IdempotencyRecord], kept_at: dict[bytes, datetime]
) -> None:
    """Insert answers by scope, in one statement. Bodies are encrypted because they contain license keys."""
    values: list[Values] = [
        {
            "scope": scope,
            "request_digest": one.request_digest,
            "status": one.status,
            "sealed_body": tx.sealing.seal(one.body, scope),
            "created_at": rows.to_seconds(kept_at[scope]),
            "owner": one.owner,
        }
        for scope, one in records.items()
    ]
    _INSERT.execute(tx.connection, values)
    for owner in {one["owner"] for one in values if one["owner"] and _is_due(one["sealed_body"])}:
        trim(tx, owner)


def trim(tx: WriteTransaction, owner: int, most_bytes: int = MAX_OF_OWNER) -> None:
    """Delete the oldest answers of an owner beyond a total size."""
    column = idempotency_records.c
    newest_first = (column.created_at.desc(), column.scope)
    so_far = func.sum(func.length(column.sealed_body)).over(order_by=newest_first)
    kept = select(column.scope, so_far.label("bytes")).where(column.owner == owner).subquery()
    over = select(kept.c.scope).where(kept.c.bytes > most_bytes)
    tx.connection.execute(delete(idempotency_records).where(column.scope.in_(over)))


def _is_due(sealed: bytes) -> bool:
    """Whether to trim after this answer: at random (by the nonce of the encryption), on average once every
    ``_TRIMMED_AFTER`` bytes.
    """
    return int.from_bytes(sealed[:4], "big") * _TRIMMED_AFTER < len(sealed) << 32


class PurgeIdempotencyRecords(Command, frozen=True, kw_only=True):
    """Delete some of the records from before this moment."""

    cost = Cost.LONG

    before: datetime


class _Work(Protocol):
    @property
    def tx(self) -> WriteTransaction: ...


def purge_idempotency_records(work: _Work, command: PurgeIdempotencyRecords) -> int | None:
    """Delete some old records; return their number. Returns None, and deletes nothing, if even the newest
    record is old: either there were no calls for a long time, or the clock has jumped.
    """
    connection = work.tx.connection
    before = rows.to_seconds(command.before)
    newest = connection.execute(select(func.max(idempotency_records.c.created_at))).scalar_one()
    if newest is not None and newest < before:
        return None
    old = (
        select(idempotency_records.c.scope)
        .where(idempotency_records.c.created_at < before)
        .limit(_MAX_DELETED)
    )
    return connection.execute(
        delete(idempotency_records).where(idempotency_records.c.scope.in_(old))
    ).rowcount
