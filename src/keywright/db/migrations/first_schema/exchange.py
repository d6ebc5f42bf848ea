"""Tables of connections to shops, and of mail, signing keys and webhooks."""

import sqlalchemy as sa
from alembic import op

from keywright.db.migrations.first_schema.pieces import ID, where


def create() -> None:
    """Create these tables."""
    _create_shops()
    _create_mail()
    _create_signing()
    _create_webhooks()


def _create_shops() -> None:
    op.create_table(
        "connections",
        sa.Column("id", ID, autoincrement=True, nullable=False),
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
        sa.PrimaryKeyConstraint("id", name="pk_connections"),
        sqlite_autoincrement=True,
    )
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
        **where("subscription_ref IS NOT NULL"),
    )
    op.create_table(
        "shop_events",
        sa.Column("id", ID, autoincrement=True, nullable=False),
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
        sa.PrimaryKeyConstraint("id", name="pk_shop_events"),
        sa.UniqueConstraint("connection_id", "event_id", name="uq_shop_events_connection_id_event_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_shop_events_connection_id_id", "shop_events", ["connection_id", "id"])
    op.create_index(
        "ix_shop_events_connection_unmatched",
        "shop_events",
        ["connection_id", "state", "id"],
        **where("state = 'unmatched'"),
    )
    op.create_index(
        "ix_shop_events_customer_id", "shop_events", ["customer_id"], **where("customer_id IS NOT NULL")
    )
    op.create_index(
        "ix_shop_events_order_ref",
        "shop_events",
        ["connection_id", "order_ref"],
        **where("next_attempt_at IS NOT NULL"),
    )
    op.create_index("ix_shop_events_received_at", "shop_events", ["received_at"])
    op.create_index(
        "ix_shop_events_unmatched", "shop_events", ["state", "id"], **where("state = 'unmatched'")
    )
    op.create_index(
        "ix_shop_events_waiting", "shop_events", ["next_attempt_at"], **where("next_attempt_at IS NOT NULL")
    )
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
        **where("subscription_ref IS NOT NULL"),
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


def _create_mail() -> None:
    op.create_table(
        "mail_outbox",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("template", sa.String(30), nullable=False),
        sa.Column("unique_text", sa.String(200), nullable=False),
        sa.Column("customer_id", sa.BigInteger),
        sa.Column("user_id", sa.BigInteger),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("language", sa.String(35)),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("message_id", sa.String(40), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("unanswered", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("error", sa.String(500)),
        sa.Column("claimed_by", sa.String(40)),
        sa.Column("claimed_until", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_mail_outbox"),
        sa.UniqueConstraint("unique_text", name="uq_mail_outbox_unique_text"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_mail_outbox_claimed", "mail_outbox", ["id"], **where("claimed_by IS NOT NULL"))
    op.create_index(
        "ix_mail_outbox_customer_id", "mail_outbox", ["customer_id", "id"], **where("customer_id IS NOT NULL")
    )
    op.create_index(
        "ix_mail_outbox_due", "mail_outbox", ["next_attempt_at", "id"], **where("next_attempt_at IS NOT NULL")
    )
    op.create_index("ix_mail_outbox_finished_at", "mail_outbox", ["finished_at"])
    op.create_index("ix_mail_outbox_state_id", "mail_outbox", ["state", "id"])
    op.create_table(
        "mail_templates",
        sa.Column("name", sa.String(30), nullable=False),
        sa.Column("product_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("language", sa.String(35), nullable=False),
        sa.Column("subject", sa.String(500), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("html", sa.Text, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.BigInteger),
        sa.PrimaryKeyConstraint("name", "product_id", "language", name="pk_mail_templates"),
        sqlite_with_rowid=False,
    )


def _create_signing() -> None:
    op.create_table(
        "signing_keys",
        sa.Column("id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("kid", sa.String(43), nullable=False),
        sa.Column("public_key", sa.String(43), nullable=False),
        sa.Column("sealed_private_key", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("signed_until", sa.BigInteger, nullable=False),
        sa.Column("withdrawn_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_signing_keys"),
        sqlite_with_rowid=False,
    )


def _create_webhooks() -> None:
    op.create_table(
        "license_moments",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("about", sa.BigInteger, nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "kind", name="pk_license_moments"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", ID, autoincrement=True, nullable=False),
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
    op.create_index(
        "ix_webhook_deliveries_finished_at",
        "webhook_deliveries",
        ["finished_at"],
        **where("finished_at IS NOT NULL"),
    )
    op.create_index("ix_webhook_deliveries_license_id", "webhook_deliveries", ["license_id"])
    op.create_index(
        "ix_webhook_deliveries_next",
        "webhook_deliveries",
        ["endpoint_id", "next_attempt_at"],
        **where("next_attempt_at IS NOT NULL"),
    )
    op.create_index(
        "ix_webhook_deliveries_waiting",
        "webhook_deliveries",
        ["endpoint_id", "license_id", "event_id"],
        **where("finished_at IS NULL"),
    )
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", ID, autoincrement=True, nullable=False),
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
