"""The tables of webhooks: endpoints, their secrets, deliveries; and the moments of licenses."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from keywright.db.schema.base import Id, metadata, partial_index

#: The addresses that are notified of events.
webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("url", String(2000), nullable=False),
    Column("description", String(200)),
    # A JSON array of event types; one that ends in .* is the beginning of types.
    Column("events", Text, nullable=False),
    Column("product_id", BigInteger),
    Column("payload", String(10), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("disabled_at", BigInteger),
    Column("disabled_reason", String(20)),
    # The first failure since the last delivery, and until when the receiver has asked for quiet.
    Column("failing_at", BigInteger),
    Column("paused_until", BigInteger),
    # The last event that was made a delivery or left out, and when that was.
    Column("position", BigInteger, nullable=False),
    Column("position_at", BigInteger, nullable=False),
    # The server process that delivers to it, and until when.
    Column("claimed_by", String(40)),
    Column("claimed_until", BigInteger),
    sqlite_autoincrement=True,
)

#: The secrets of endpoints; the one with the largest number is in force.
webhook_secrets = Table(
    "webhook_secrets",
    metadata,
    Column("endpoint_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("sealed_secret", LargeBinary, nullable=False),
    # Set once it was replaced.
    Column("valid_until", BigInteger),
    PrimaryKeyConstraint("endpoint_id", "number"),
    sqlite_with_rowid=False,
)

#: An event for an endpoint. Only the oldest waiting delivery of a license has a next attempt.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("endpoint_id", BigInteger, nullable=False),
    Column("event_id", BigInteger, nullable=False),
    Column("license_id", BigInteger, nullable=False),
    Column("name", String(40), nullable=False),
    Column("state", String(10), nullable=False),
    # The attempts since it began to wait.
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", BigInteger),
    # The first and the last attempt since it began to wait, and what came of the last one.
    Column("first_attempt_at", BigInteger),
    Column("last_attempt_at", BigInteger),
    Column("duration_ms", Integer),
    Column("status", SmallInteger),
    Column("answer", String(1000)),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    UniqueConstraint("endpoint_id", "event_id"),
    Index(None, "license_id"),
    partial_index(
        "ix_webhook_deliveries_next", "endpoint_id", "next_attempt_at", where="next_attempt_at IS NOT NULL"
    ),
    partial_index(
        "ix_webhook_deliveries_waiting", "endpoint_id", "license_id", "event_id", where="finished_at IS NULL"
    ),
    partial_index("ix_webhook_deliveries_finished_at", "finished_at", where="finished_at IS NOT NULL"),
    sqlite_autoincrement=True,
)

#: The moments of licenses that are events already: of each kind the last one, by what it was about (an
#: expiry, a limit).
license_moments = Table(
    "license_moments",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("about", BigInteger, nullable=False),
    Column("recorded_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id", "kind"),
    sqlite_with_rowid=False,
)
