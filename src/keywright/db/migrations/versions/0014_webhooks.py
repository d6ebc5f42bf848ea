"""Tables for webhooks: endpoints, their secrets, deliveries; and the moments of licenses."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    _create_endpoints()
    _create_deliveries()
    _create_moments()


def _id_type() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _create_endpoints() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", _id_type(), autoincrement=True, nullable=False),
        sa.Column("url", sa.String(2000), nullable=False),
        sa.Column("description", sa.String(200)),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("payload", sa.String(10), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("disabled_at", sa.BigInteger),
        sa.Column("disabled_reason", sa.String(20)),
        sa.Column("failing_at", sa.BigInteger),
        sa.Column("paused_until", sa.BigInteger),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("position_at", sa.BigInteger, nullable=False),
        sa.Column("claimed_by", sa.String(40)),
        sa.Column("claimed_until", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_endpoints"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "webhook_secrets",
        sa.Column("endpoint_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
        sa.Column("valid_until", sa.BigInteger),
        sa.PrimaryKeyConstraint("endpoint_id", "number", name="pk_webhook_secrets"),
        sqlite_with_rowid=False,
    )


def _create_deliveries() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", _id_type(), autoincrement=True, nullable=False),
        sa.Column("endpoint_id", sa.BigInteger, nullable=False),
        sa.Column("event_id", sa.BigInteger, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger),
        sa.Column("first_attempt_at", sa.BigInteger),
        sa.Column("last_attempt_at", sa.BigInteger),
        sa.Column("duration_ms", sa.Integer),
        sa.Column("status", sa.SmallInteger),
        sa.Column("answer", sa.String(1000)),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("finished_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_deliveries"),
        sa.UniqueConstraint("endpoint_id", "event_id", name="uq_webhook_deliveries_endpoint_id_event_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhook_deliveries_license_id", "webhook_deliveries", ["license_id"])
    for name, columns, where in (
        ("next", ["endpoint_id", "next_attempt_at"], "next_attempt_at IS NOT NULL"),
        ("waiting", ["endpoint_id", "license_id", "event_id"], "finished_at IS NULL"),
        ("finished_at", ["finished_at"], "finished_at IS NOT NULL"),
    ):
        op.create_index(
            f"ix_webhook_deliveries_{name}",
            "webhook_deliveries",
            columns,
            sqlite_where=sa.text(where),
            postgresql_where=sa.text(where),
        )


def _create_moments() -> None:
    op.create_table(
        "license_moments",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("about", sa.BigInteger, nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "kind", name="pk_license_moments"),
        sqlite_with_rowid=False,
    )
