"""SQL of answers."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, func, select

from keywright.model import (
    KeptAnswer,
)
from keywright.storage import queries, rows
from keywright.storage.schema import kept_answers
from keywright.storage.transactions import Writing, rows_with

_MOST_FORGOTTEN = 5_000


def lock_kept_answers(tx: Writing, scopes: Iterable[bytes]) -> dict[bytes, KeptAnswer]:
    """The answers that were kept for these calls, by scope; when this transaction has ended, they are as
    durable as what it changed itself.
    """
    unseal = tx.key_ring.unseal
    return {
        row.scope: KeptAnswer(row.request_digest, row.status, unseal(row.sealed_body, row.scope))
        for row in rows_with(tx, queries.ANSWERS_LOCKED, scopes)
    }


def save_kept_answer(tx: Writing, scope: bytes, answer: KeptAnswer, now: datetime) -> None:
    """Keep the answer to a call; the body is sealed, for it holds a license key."""
    values = {
        "scope": scope,
        "request_digest": answer.request_digest,
        "status": answer.status,
        "sealed_body": tx.sealing.seal(answer.body, scope),
        "kept_at": rows.seconds(now),
    }
    queries.INSERT_KEPT_ANSWERS.execute(tx.connection, [values])


def newest_kept_answer(tx: Writing) -> datetime | None:
    """When the newest answer was kept; None when there is none."""
    at = tx.connection.execute(select(func.max(kept_answers.c.kept_at))).scalar_one()
    return None if at is None else rows.moment(at)


def delete_kept_answers(tx: Writing, before: datetime) -> int:
    """Forget some thousand of the answers kept before this moment; returns how many they were."""
    old = select(kept_answers.c.scope).where(kept_answers.c.kept_at < rows.seconds(before))
    query = delete(kept_answers).where(kept_answers.c.scope.in_(old.limit(_MOST_FORGOTTEN)))
    return tx.connection.execute(query).rowcount
