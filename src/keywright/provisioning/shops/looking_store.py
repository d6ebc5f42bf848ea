"""Statements about what shops are asked every night."""

from datetime import datetime

from sqlalchemy import or_, update

from keywright.db.rows import to_seconds
from keywright.db.schema import connections
from keywright.db.transaction import WriteTransaction
from keywright.provisioning.shops.store import topics_to_text


def claim_look(tx: WriteTransaction, connection_id: int, before: datetime, now: datetime) -> bool:
    """Note that the connection's shop is asked now, if it was not since then; a time to come is of a clock
    that was wrong.
    """
    looked_at = connections.c.looked_at
    is_due = or_(looked_at.is_(None), looked_at < to_seconds(before), looked_at > to_seconds(now))
    query = update(connections).where(connections.c.id == connection_id, is_due)
    return tx.connection.execute(query.values(looked_at=to_seconds(now))).rowcount == 1


def save_topics(tx: WriteTransaction, connection_id: int, topics: tuple[str, ...] | None) -> None:
    """Update the events that the shop was not asked to send."""
    query = update(connections).where(connections.c.id == connection_id)
    tx.connection.execute(query.values(missing_topics=topics_to_text(topics)))
