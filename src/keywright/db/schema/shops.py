"""The tables of connections to shops, of the events that shops sent, and of the sales in these events."""

import sqlalchemy as sa

from keywright.db.schema.base import Id, metadata, partial_index

connections = sa.Table(
    "connections",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("shop", sa.String(20), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
    # Sealed empty bytes without an API key.
    sa.Column("sealed_api_key", sa.LargeBinary, nullable=False),
    sa.Column("has_api_key", sa.SmallInteger, nullable=False),
    sa.Column("mode", sa.String(10), nullable=False),
    # JSON: an array of products of the shop, each with its policy; an array of order states.
    sa.Column("mapping", sa.Text, nullable=False),
    sa.Column("paid_states", sa.Text, nullable=False),
    sa.Column("url", sa.String(2000)),
    sa.Column("sends_mail", sa.SmallInteger, nullable=False),
    sa.Column("mail_template", sa.String(40)),
    sa.Column("last_event_at", sa.BigInteger),
    sa.Column("failures", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("on_cancel", sa.String(20), nullable=False, server_default="paid_until"),
    # JSON: an array of the events that the shop is not configured to send; NULL if unknown.
    sa.Column("missing_topics", sa.Text),
    # When the running subscriptions were last compared with the stored state.
    sa.Column("looked_at", sa.BigInteger),
    # Names in the metadata of a sale: that of the buyer's external ID; and as JSON, those that licenses get.
    sa.Column("external_id_name", sa.String(64)),
    sa.Column("metadata_names", sa.Text, nullable=False, server_default="[]"),
    sqlite_autoincrement=True,
)

#: Events that shops sent. ``happened_at`` is the shop's own time, in milliseconds: shops send several events
#: within a second. After the payload is erased, it is sealed empty bytes.
shop_events = sa.Table(
    "shop_events",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
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
    # If it waits, not before this moment.
    sa.Column("next_attempt_at", sa.BigInteger),
    sa.Column("customer_id", sa.BigInteger),
    sa.Column("sealed_payload", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("connection_id", "event_id"),
    sa.Index(None, "connection_id", "id"),
    sa.Index(None, "received_at"),
    partial_index("ix_shop_events_waiting", "next_attempt_at", where="next_attempt_at IS NOT NULL"),
    partial_index(
        "ix_shop_events_order_ref", "connection_id", "order_ref", where="next_attempt_at IS NOT NULL"
    ),
    partial_index("ix_shop_events_unmatched", "state", "id", where="state = 'unmatched'"),
    partial_index(
        "ix_shop_events_connection_unmatched", "connection_id", "state", "id", where="state = 'unmatched'"
    ),
    partial_index("ix_shop_events_customer_id", "customer_id", where="customer_id IS NOT NULL"),
    sqlite_autoincrement=True,
)

#: The lines that make licenses, and what they make.
sold_lines = sa.Table(
    "sold_lines",
    metadata,
    sa.Column("connection_id", sa.BigInteger, nullable=False),
    sa.Column("order_ref", sa.String(255), nullable=False),
    sa.Column("line", sa.String(255), nullable=False),
    sa.Column("subscription_ref", sa.String(255)),
    # The order that assigns the line's ID ("" for the subscription), and that ID.
    sa.Column("listed_in", sa.String(255), nullable=False),
    sa.Column("listed_as", sa.String(255), nullable=False),
    # JSON: arrays of the price's refs, and of the policies' IDs.
    sa.Column("refs", sa.Text, nullable=False),
    sa.Column("policy_ids", sa.Text, nullable=False),
    sa.Column("rule", sa.String(10), nullable=False),
    sa.PrimaryKeyConstraint("connection_id", "order_ref", "line"),
    partial_index(
        "ix_sold_lines_subscription_ref",
        "connection_id",
        "subscription_ref",
        where="subscription_ref IS NOT NULL",
    ),
    sqlite_with_rowid=False,
)

#: The licenses that orders made, each with what the shop last reported about it: if the license has another
#: status or expiry, it was changed by hand. A row outlives its license, so that no order makes it again.
sold_licenses = sa.Table(
    "sold_licenses",
    metadata,
    sa.Column("connection_id", sa.BigInteger, nullable=False),
    sa.Column("order_ref", sa.String(255), nullable=False),
    sa.Column("line", sa.String(255), nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("subscription_ref", sa.String(255)),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger),
    # The expiry by the terms, which applies while the shop states none.
    sa.Column("terms_expire_at", sa.BigInteger),
    # The index of the policy in a bundle: a unit of the line has one license per policy.
    sa.Column("item", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    # NULL for licenses sold before this column existed: then it is that of the license.
    sa.Column("policy_id", sa.BigInteger),
    sa.Column("quantity", sa.BigInteger, nullable=False, server_default=sa.text("1")),
    sa.Column("has_grace", sa.SmallInteger, nullable=False, server_default=sa.text("1")),
    # Whether the line no longer includes this license, as it now has fewer or others.
    sa.Column("is_over", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    # The shop's event that last made, restored or changed the license.
    sa.Column("event_id", sa.BigInteger),
    sa.PrimaryKeyConstraint("connection_id", "order_ref", "line", "number", "item"),
    sa.Index(None, "license_id"),
    partial_index(
        "ix_sold_licenses_subscription_ref",
        "connection_id",
        "subscription_ref",
        where="subscription_ref IS NOT NULL",
    ),
    sqlite_with_rowid=False,
)

#: Payments: orders, and renewals of subscriptions, with the newest state of the order, of its refund and of
#: its dispute. Times from the shop are in milliseconds.
payments = sa.Table(
    "payments",
    metadata,
    sa.Column("connection_id", sa.BigInteger, nullable=False),
    sa.Column("order_ref", sa.String(255), nullable=False),
    sa.Column("subscription_ref", sa.String(255)),
    sa.Column("paid_at", sa.BigInteger),
    sa.Column("until", sa.BigInteger),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("state_at", sa.BigInteger, nullable=False),
    sa.Column("refund", sa.String(10), nullable=False, server_default="active"),
    sa.Column("refund_at", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("dispute", sa.String(10), nullable=False, server_default="active"),
    sa.Column("dispute_at", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("is_proration", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    # JSON: an array of what the shop stated about the order's lines.
    sa.Column("snapshots", sa.Text),
    sa.PrimaryKeyConstraint("connection_id", "order_ref"),
    partial_index(
        "ix_payments_subscription_ref",
        "connection_id",
        "subscription_ref",
        "paid_at",
        where="subscription_ref IS NOT NULL",
    ),
    sqlite_with_rowid=False,
)

#: The state of subscriptions, and since when by the shop's clock, in milliseconds.
subscriptions = sa.Table(
    "subscriptions",
    metadata,
    sa.Column("connection_id", sa.BigInteger, nullable=False),
    sa.Column("subscription_ref", sa.String(255), nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("state_at", sa.BigInteger, nullable=False),
    # When it last ended, or 0.
    sa.Column("ended_at", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    # JSON: what the shop stated about its lines, by part.
    sa.Column("snapshots", sa.Text),
    sa.PrimaryKeyConstraint("connection_id", "subscription_ref"),
    sqlite_with_rowid=False,
)

#: Lines of orders that renew or upgrade a license, and the license's state before the first of them.
later_purchases = sa.Table(
    "later_purchases",
    metadata,
    sa.Column("connection_id", sa.BigInteger, nullable=False),
    sa.Column("order_ref", sa.String(255), nullable=False),
    sa.Column("line", sa.String(255), nullable=False),
    sa.Column("subscription_ref", sa.String(255)),
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("does", sa.String(10), nullable=False),
    sa.Column("policy_id", sa.BigInteger, nullable=False),
    sa.Column("days", sa.BigInteger),
    sa.Column("quantity", sa.BigInteger, nullable=False),
    # JSON: an object.
    sa.Column("before", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("connection_id", "order_ref", "line"),
    sa.Index(None, "license_id"),
    partial_index(
        "ix_later_purchases_subscription_ref",
        "connection_id",
        "subscription_ref",
        where="subscription_ref IS NOT NULL",
    ),
    sqlite_with_rowid=False,
)
