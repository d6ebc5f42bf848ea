"""The tables of connections to shops, of the events that shops sent, and of what these report."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from keywright.db.schema.base import Id, metadata, partial_index

connections = Table(
    "connections",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("shop", String(20), nullable=False),
    Column("name", String(200), nullable=False),
    Column("sealed_secret", LargeBinary, nullable=False),
    # Sealed nothing without an API key.
    Column("sealed_api_key", LargeBinary, nullable=False),
    Column("has_api_key", SmallInteger, nullable=False),
    Column("mode", String(10), nullable=False),
    # JSON: an array of products of the shop, each with its policy; an array of order states.
    Column("mapping", Text, nullable=False),
    Column("paid_states", Text, nullable=False),
    Column("url", String(2000)),
    Column("sends_mail", SmallInteger, nullable=False),
    Column("mail_template", String(40)),
    Column("last_event_at", BigInteger),
    Column("failures", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("on_cancel", String(20), nullable=False, server_default="paid_until"),
    # JSON: an array of the events that the shop was not asked to send; NULL where nobody has asked it.
    Column("missing_topics", Text),
    # When the running subscriptions were last compared with what is held.
    Column("looked_at", BigInteger),
    # Names in the metadata of a sale: of the buyer's external ID; JSON: of those that licenses get.
    Column("external_id_name", String(64)),
    Column("metadata_names", Text, nullable=False, server_default="[]"),
    sqlite_autoincrement=True,
)

#: What shops sent. ``happened_at`` is the shop's own time, in milliseconds: shops send several events within
#: a second. The payload is sealed nothing once it was forgotten.
shop_events = Table(
    "shop_events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("connection_id", BigInteger, nullable=False),
    Column("event_id", String(255), nullable=False),
    Column("name", String(100), nullable=False),
    Column("order_ref", String(255)),
    Column("state", String(10), nullable=False),
    Column("reason", String(40)),
    Column("detail", String(400)),
    Column("happened_at", BigInteger, nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("is_forced", SmallInteger, nullable=False),
    # Of those that wait: not before this moment.
    Column("next_attempt_at", BigInteger),
    Column("customer_id", BigInteger),
    Column("sealed_payload", LargeBinary, nullable=False),
    UniqueConstraint("connection_id", "event_id"),
    Index(None, "connection_id", "id"),
    Index(None, "received_at"),
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
sold_lines = Table(
    "sold_lines",
    metadata,
    Column("connection_id", BigInteger, nullable=False),
    Column("order_ref", String(255), nullable=False),
    Column("line", String(255), nullable=False),
    Column("subscription_ref", String(255)),
    # The order that gives it its number, "" for the subscription; and that number.
    Column("listed_in", String(255), nullable=False),
    Column("listed_as", String(255), nullable=False),
    # JSON: arrays of the refs of the price, and of the policies.
    Column("refs", Text, nullable=False),
    Column("policy_ids", Text, nullable=False),
    Column("rule", String(10), nullable=False),
    PrimaryKeyConstraint("connection_id", "order_ref", "line"),
    partial_index(
        "ix_sold_lines_subscription_ref",
        "connection_id",
        "subscription_ref",
        where="subscription_ref IS NOT NULL",
    ),
    sqlite_with_rowid=False,
)

#: The licenses that orders made, each with what the shop last reported of it: where the license has another
#: status or expiry, it was changed by hand. A row outlives its license, so that no order makes it again.
sold_licenses = Table(
    "sold_licenses",
    metadata,
    Column("connection_id", BigInteger, nullable=False),
    Column("order_ref", String(255), nullable=False),
    Column("line", String(255), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("license_id", BigInteger, nullable=False),
    Column("subscription_ref", String(255)),
    Column("status", SmallInteger, nullable=False),
    Column("expires_at", BigInteger),
    # The expiry by the terms, for while the shop names none.
    Column("terms_expire_at", BigInteger),
    # Counts the policies of a bundle: a unit of the line has a license of each.
    Column("item", SmallInteger, nullable=False, server_default=text("0")),
    # NULL for those that were sold before this was kept: that of the license.
    Column("policy_id", BigInteger),
    Column("quantity", BigInteger, nullable=False, server_default=text("1")),
    Column("has_grace", SmallInteger, nullable=False, server_default=text("1")),
    # Whether the line has fewer licenses now, or others.
    Column("is_over", SmallInteger, nullable=False, server_default=text("0")),
    # The shop's event that last made, restored or changed it.
    Column("event_id", BigInteger),
    PrimaryKeyConstraint("connection_id", "order_ref", "line", "number", "item"),
    Index(None, "license_id"),
    partial_index(
        "ix_sold_licenses_subscription_ref",
        "connection_id",
        "subscription_ref",
        where="subscription_ref IS NOT NULL",
    ),
    sqlite_with_rowid=False,
)

#: Payments: orders, and renewals of subscriptions, with the newest state of the order, of its refund and of
#: its dispute. Times of the shop are in milliseconds.
payments = Table(
    "payments",
    metadata,
    Column("connection_id", BigInteger, nullable=False),
    Column("order_ref", String(255), nullable=False),
    Column("subscription_ref", String(255)),
    Column("paid_at", BigInteger),
    Column("until", BigInteger),
    Column("state", String(10), nullable=False),
    Column("state_at", BigInteger, nullable=False),
    Column("refund", String(10), nullable=False, server_default="active"),
    Column("refund_at", BigInteger, nullable=False, server_default=text("0")),
    Column("dispute", String(10), nullable=False, server_default="active"),
    Column("dispute_at", BigInteger, nullable=False, server_default=text("0")),
    Column("is_proration", SmallInteger, nullable=False, server_default=text("0")),
    # JSON: an array of what was stated of the order's lines.
    Column("snapshots", Text),
    PrimaryKeyConstraint("connection_id", "order_ref"),
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
subscriptions = Table(
    "subscriptions",
    metadata,
    Column("connection_id", BigInteger, nullable=False),
    Column("subscription_ref", String(255), nullable=False),
    Column("state", String(10), nullable=False),
    Column("state_at", BigInteger, nullable=False),
    # When it last ended, if it did.
    Column("ended_at", BigInteger, nullable=False, server_default=text("0")),
    # JSON: what was stated of its lines, by part.
    Column("snapshots", Text),
    PrimaryKeyConstraint("connection_id", "subscription_ref"),
    sqlite_with_rowid=False,
)

#: Lines of orders that renew or upgrade a license, and what that was before the first of them.
later_purchases = Table(
    "later_purchases",
    metadata,
    Column("connection_id", BigInteger, nullable=False),
    Column("order_ref", String(255), nullable=False),
    Column("line", String(255), nullable=False),
    Column("subscription_ref", String(255)),
    Column("license_id", BigInteger, nullable=False),
    Column("does", String(10), nullable=False),
    Column("policy_id", BigInteger, nullable=False),
    Column("days", BigInteger),
    Column("quantity", BigInteger, nullable=False),
    # JSON: an object.
    Column("before", Text, nullable=False),
    PrimaryKeyConstraint("connection_id", "order_ref", "line"),
    Index(None, "license_id"),
    partial_index(
        "ix_later_purchases_subscription_ref",
        "connection_id",
        "subscription_ref",
        where="subscription_ref IS NOT NULL",
    ),
    sqlite_with_rowid=False,
)
