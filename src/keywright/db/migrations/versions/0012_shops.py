"""Tables for shops: connections of shops, and the events they sent."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    _create_connections()
    _create_shop_events()
    _create_sold_licenses()
    _create_payments()


def _id() -> sa.Column[int]:
    return sa.Column(
        "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True
    )


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _create_connections() -> None:
    op.create_table(
        "connections",
        _id(),
        sa.Column("shop", sa.String(20), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
        sa.Column("sealed_api_key", sa.LargeBinary, nullable=False),
        sa.Column("has_api_key", sa.SmallInteger, nullable=False),
        sa.Column("mode", sa.String(10), nullable=False),
        sa.Column("mapping", sa.Text, nullable=False),
        sa.Column("paid_states", sa.Text, nullable=False),
        sa.Column("url", sa.String(2000)),
        sa.Column("sends_mail", sa.SmallInteger, nullable=False),
        sa.Column("mail_template", sa.String(40)),
        sa.Column("last_event_at", sa.BigInteger),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )


def _create_shop_events() -> None:
    op.create_table(
        "shop_events",
        _id(),
        sa.Column("connection_id", sa.BigInteger, nullable=False),
        sa.Column("event_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("order_ref", sa.String(255)),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("reason", sa.String(40)),
        sa.Column("detail", sa.String(400)),
        sa.Column("happened_at", sa.BigInteger, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("is_forced", sa.SmallInteger, nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger),
        sa.Column("customer_id", sa.BigInteger),
        sa.Column("sealed_payload", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("connection_id", "event_id", name="uq_shop_events_connection_id_event_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_shop_events_connection_id_id", "shop_events", ["connection_id", "id"])
    op.create_index("ix_shop_events_received_at", "shop_events", ["received_at"])
    for name, columns, condition in (
        ("waiting", ["next_attempt_at"], "next_attempt_at IS NOT NULL"),
        ("order_ref", ["connection_id", "order_ref"], "next_attempt_at IS NOT NULL"),
        ("unmatched", ["state", "id"], "state = 'unmatched'"),
        ("connection_unmatched", ["connection_id", "state", "id"], "state = 'unmatched'"),
        ("customer_id", ["customer_id"], "customer_id IS NOT NULL"),
    ):
        op.create_index(f"ix_shop_events_{name}", "shop_events", columns, **_where(condition))


def _create_sold_licenses() -> None:
    op.create_table(
        "sold_licenses",
        sa.Column("connection_id", sa.BigInteger, nullable=False),
        sa.Column("order_ref", sa.String(255), nullable=False),
        sa.Column("line", sa.String(255), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("subscription_ref", sa.String(255)),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("connection_id", "order_ref", "line", "number", name="pk_sold_licenses"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_sold_licenses_license_id", "sold_licenses", ["license_id"])
    op.create_index(
        "ix_sold_licenses_subscription_ref",
        "sold_licenses",
        ["connection_id", "subscription_ref"],
        **_where("subscription_ref IS NOT NULL"),
    )


def _create_payments() -> None:
    op.create_table(
        "payments",
        sa.Column("connection_id", sa.BigInteger, nullable=False),
        sa.Column("order_ref", sa.String(255), nullable=False),
        sa.Column("subscription_ref", sa.String(255)),
        sa.Column("paid_at", sa.BigInteger),
        sa.Column("until", sa.BigInteger),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("state_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("connection_id", "order_ref", name="pk_payments"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_payments_subscription_ref",
        "payments",
        ["connection_id", "subscription_ref", "paid_at"],
        **_where("subscription_ref IS NOT NULL"),
    )
    op.create_table(
        "subscriptions",
        sa.Column("connection_id", sa.BigInteger, nullable=False),
        sa.Column("subscription_ref", sa.String(255), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("state_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("connection_id", "subscription_ref", name="pk_subscriptions"),
        sqlite_with_rowid=False,
    )
