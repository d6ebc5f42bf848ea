"""Idempotency keys: the first answer to a call is kept, and given again when the call is repeated."""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from sqlalchemy import (
    delete,
    func,
    select,
)

from keywright.core.command import Command
from keywright.db import rows
from keywright.db.bulk import Lookup, inserting
from keywright.db.schema import idempotency_records
from keywright.db.transaction import WriteTransaction, rows_with
from keywright.licensing.unit_of_work import UnitOfWork


class IdempotencyRecord(msgspec.Struct, frozen=True):
    """The first answer to a call with an idempotency key, as it went out."""

    request_digest: bytes
    status: int
    body: bytes


class PurgeIdempotencyRecords(Command, frozen=True, kw_only=True):
    """Delete the answers that were kept for repeated calls before this moment."""

    before: datetime


RECORDS_LOCKED = Lookup(select(idempotency_records).with_for_update(read=True), idempotency_records.c.scope)
INSERT_IDEMPOTENCY_RECORDS = inserting(idempotency_records)


_MOST_FORGOTTEN = 5_000


def lock_idempotency_records(tx: WriteTransaction, scopes: Iterable[bytes]) -> dict[bytes, IdempotencyRecord]:
    """The answers that were kept for these calls, by scope; when this transaction has ended, they are as
    durable as what it changed itself.
    """
    unseal = tx.key_ring.unseal
    return {
        row.scope: IdempotencyRecord(row.request_digest, row.status, unseal(row.sealed_body, row.scope))
        for row in rows_with(tx, RECORDS_LOCKED, scopes)
    }


def save_idempotency_record(
    tx: WriteTransaction, scope: bytes, answer: IdempotencyRecord, now: datetime
) -> None:
    """Keep the answer to a call; the body is sealed, for it holds a license key."""
    values = {
        "scope": scope,
        "request_digest": answer.request_digest,
        "status": answer.status,
        "sealed_body": tx.sealing.seal(answer.body, scope),
        "created_at": rows.seconds(now),
    }
    INSERT_IDEMPOTENCY_RECORDS.execute(tx.connection, [values])


def newest_idempotency_record(tx: WriteTransaction) -> datetime | None:
    """When the newest answer was kept; None when there is none."""
    at = tx.connection.execute(select(func.max(idempotency_records.c.created_at))).scalar_one()
    return None if at is None else rows.moment(at)


def delete_idempotency_records(tx: WriteTransaction, before: datetime) -> int:
    """Forget some thousand of the answers kept before this moment; returns how many they were."""
    old = select(idempotency_records.c.scope).where(idempotency_records.c.created_at < rows.seconds(before))
    query = delete(idempotency_records).where(idempotency_records.c.scope.in_(old.limit(_MOST_FORGOTTEN)))
    return tx.connection.execute(query).rowcount


def purge_idempotency_records(work: UnitOfWork, command: PurgeIdempotencyRecords) -> int | None:
    """Delete old idempotency records; return how many. None, and delete none, when even the newest is old:
    there were no calls for long, or the clock has jumped.
    """
    newest = newest_idempotency_record(work.tx)
    if newest is not None and newest < command.before:
        return None
    return delete_idempotency_records(work.tx, command.before)
