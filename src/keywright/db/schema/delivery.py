"""The tables of webhooks (endpoints, their secrets, deliveries), of mail, and of the moments of licenses."""

import sqlalchemy as sa

from keywright.db.schema.base import Id, metadata, partial_index

#: The URLs that are notified of events.
webhook_endpoints = sa.Table(
    "webhook_endpoints",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("url", sa.String(2000), nullable=False),
    sa.Column("description", sa.String(200)),
    # A JSON array of event types; one that ends in .* is a prefix of types.
    sa.Column("events", sa.Text, nullable=False),
    sa.Column("product_id", sa.BigInteger),
    sa.Column("payload", sa.String(10), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("disabled_at", sa.BigInteger),
    sa.Column("disabled_reason", sa.String(20)),
    # The first failure since the last delivery, and the end of the pause that the receiver requested.
    sa.Column("failing_at", sa.BigInteger),
    sa.Column("paused_until", sa.BigInteger),
    # The last event for which a delivery was made, or which was left out, and when.
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("position_at", sa.BigInteger, nullable=False),
    # The server process that delivers to it, and the end of its claim.
    sa.Column("claimed_by", sa.String(40)),
    sa.Column("claimed_until", sa.BigInteger),
    sqlite_autoincrement=True,
)

#: The secrets of endpoints; the one with the largest number is in use.
webhook_secrets = sa.Table(
    "webhook_secrets",
    metadata,
    sa.Column("endpoint_id", sa.BigInteger, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
    # Set when it is replaced.
    sa.Column("valid_until", sa.BigInteger),
    sa.PrimaryKeyConstraint("endpoint_id", "number"),
    sqlite_with_rowid=False,
)

#: An event for an endpoint. Only the oldest waiting delivery of a license has a next attempt.
webhook_deliveries = sa.Table(
    "webhook_deliveries",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("endpoint_id", sa.BigInteger, nullable=False),
    sa.Column("event_id", sa.BigInteger, nullable=False),
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("name", sa.String(40), nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    # The attempts since it began to wait.
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_attempt_at", sa.BigInteger),
    # The first and the last attempt since it began to wait, and the result of the last one.
    sa.Column("first_attempt_at", sa.BigInteger),
    sa.Column("last_attempt_at", sa.BigInteger),
    sa.Column("duration_ms", sa.Integer),
    sa.Column("status", sa.SmallInteger),
    sa.Column("answer", sa.String(1000)),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("finished_at", sa.BigInteger),
    sa.UniqueConstraint("endpoint_id", "event_id"),
    sa.Index(None, "license_id"),
    partial_index(
        "ix_webhook_deliveries_next", "endpoint_id", "next_attempt_at", where="next_attempt_at IS NOT NULL"
    ),
    partial_index(
        "ix_webhook_deliveries_waiting", "endpoint_id", "license_id", "event_id", where="finished_at IS NULL"
    ),
    partial_index("ix_webhook_deliveries_finished_at", "finished_at", where="finished_at IS NOT NULL"),
    sqlite_autoincrement=True,
)

#: The moments of licenses that are already events: the last one of each kind, with its subject (such as an
#: expiry or a limit).
license_moments = sa.Table(
    "license_moments",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("about", sa.BigInteger, nullable=False),
    sa.Column("recorded_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("license_id", "kind"),
    sqlite_with_rowid=False,
)


#: Mails to send, and those of the last weeks. The table contains no address, key or code: a mail is rendered
#: when it is sent, from the IDs in ``subject`` (a JSON object).
mail_outbox = sa.Table(
    "mail_outbox",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("template", sa.String(30), nullable=False),
    # Of all mails with the same text, only one is queued.
    sa.Column("unique_text", sa.String(200), nullable=False, unique=True),
    sa.Column("customer_id", sa.BigInteger),
    sa.Column("user_id", sa.BigInteger),
    sa.Column("product_id", sa.BigInteger),
    sa.Column("language", sa.String(35)),
    sa.Column("subject", sa.Text, nullable=False),
    # The first part of its Message-ID, the same in every attempt.
    sa.Column("message_id", sa.String(40), nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    # The attempts whose outcome is unknown.
    sa.Column("unanswered", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    # NULL once it no longer waits.
    sa.Column("next_attempt_at", sa.BigInteger),
    sa.Column("finished_at", sa.BigInteger),
    sa.Column("error", sa.String(500)),
    # The server process that sends it now, and the end of its claim.
    sa.Column("claimed_by", sa.String(40)),
    sa.Column("claimed_until", sa.BigInteger),
    partial_index("ix_mail_outbox_due", "next_attempt_at", "id", where="next_attempt_at IS NOT NULL"),
    partial_index("ix_mail_outbox_claimed", "id", where="claimed_by IS NOT NULL"),
    partial_index("ix_mail_outbox_customer_id", "customer_id", "id", where="customer_id IS NOT NULL"),
    sa.Index(None, "state", "id"),
    sa.Index(None, "finished_at"),
    sqlite_autoincrement=True,
)

#: The vendor's own templates, which replace the built-in ones. Product 0 is for products without their own.
mail_templates = sa.Table(
    "mail_templates",
    metadata,
    sa.Column("name", sa.String(30), nullable=False),
    sa.Column("product_id", sa.BigInteger, autoincrement=False, nullable=False),
    sa.Column("language", sa.String(35), nullable=False),
    sa.Column("subject", sa.String(500), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    # If empty, it is made from the text.
    sa.Column("html", sa.Text, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("updated_by", sa.BigInteger),
    sa.PrimaryKeyConstraint("name", "product_id", "language"),
    sqlite_with_rowid=False,
)
