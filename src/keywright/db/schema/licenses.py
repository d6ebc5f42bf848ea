"""The tables of licenses and of what belongs to one: each leads with the license."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)

from keywright.db.schema.base import Id, metadata, partial_index

licenses = Table(
    "licenses",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("key_hmac", LargeBinary(32), nullable=False, unique=True),
    Column("sealed_key", LargeBinary, nullable=False),
    Column("order_id", BigInteger),
    Column("product_id", BigInteger),
    Column("customer_id", BigInteger),
    Column("expires_at", BigInteger),
    Column("valid_for_days", BigInteger),
    Column("source", SmallInteger, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("times_activated", BigInteger, nullable=False),
    Column("times_activated_max", BigInteger),
    # The upper bound of times_activated: the limit, or the number of places taken when the limit was lowered
    # below it. Taking a place never writes it, so the CHECK below applies to every such write.
    Column("places", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", BigInteger),
    # The number of its deactivated activations, which bounds what is read and deleted without counting them.
    Column("deactivated_count", BigInteger, nullable=False, server_default=text("0")),
    # A JSON object; its bounds are those of ``parsing.parse_metadata``.
    Column("metadata", Text),
    Column("policy_id", BigInteger),
    # A JSON object: the terms that are not the default and have no column of their own.
    Column("terms", Text),
    # A JSON object: the order's source, ID, line and index; NULL for orders with a number alone.
    Column("order_details", Text),
    # The order's ID, where it is not a number.
    Column("order_ref", String(255)),
    # The SHA-256 of the order's details, where they have a line: no two licenses are of one order line.
    Column("order_line_hash", LargeBinary(32)),
    # Blind indexes of the key's last four characters, and of the key in upper case without dashes.
    Column("key_end", BigInteger),
    Column("key_folded", BigInteger),
    # What another system of the vendor calls it.
    Column("external_id", String(255)),
    # How many units it was sold for.
    Column("quantity", BigInteger, nullable=False, server_default=text("1")),
    # A JSON object: of terms that were set by hand, the values that a rule last wrote.
    Column("rule_terms", Text),
    # A blind index of the key's first eight characters; NULL until the projection has come by.
    Column("key_start", BigInteger),
    # The number of its active activations that take no place.
    Column("uncounted_count", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("times_activated >= 0 AND times_activated <= places", name="within_places"),
    # For the pages. No index may have a column that an activation writes (times_activated, updated_at): on
    # PostgreSQL, every activation would then write to every index.
    Index("ix_licenses_status", "status", "id"),
    Index("ix_licenses_created_at", "created_at", "id"),
    *(
        partial_index(f"ix_licenses_{name}", name, "id", where=f"{name} IS NOT NULL")
        for name in (
            *("product_id", "order_id", "customer_id", "expires_at", "policy_id", "order_ref"),
            "external_id",
        )
    ),
    partial_index(
        "ix_licenses_order_line_hash",
        "order_line_hash",
        where="order_line_hash IS NOT NULL",
        is_unique=True,
    ),
    Index("ix_licenses_key_end", "key_end"),
    Index("ix_licenses_key_folded", "key_folded"),
    partial_index("ix_licenses_key_start", "key_start", where="key_start IS NOT NULL"),
)

#: When licenses were changed, as events record some moments later: the index that ``licenses`` must not have.
license_updates = Table(
    "license_updates",
    metadata,
    Column("license_id", BigInteger, autoincrement=False, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id"),
    Index(None, "updated_at", "license_id"),
    sqlite_with_rowid=False,
)

activations = Table(
    "activations",
    metadata,
    Column("license_id", Id, ForeignKey("licenses.id"), nullable=False),
    Column("token", String(40), nullable=False),
    Column("id", BigInteger, nullable=False),
    Column("label", String(255)),
    Column("source", SmallInteger, nullable=False),
    Column("ip_address", String(45), nullable=False),
    Column("user_agent", String(512), nullable=False),
    Column("meta_data", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger),
    Column("deactivated_at", BigInteger),
    # What a device states about itself; NULL for activations over v2.
    Column("fingerprint", String(256)),
    Column("platform", String(255)),
    Column("app_version", String(255)),
    # What was signed for the device is good no longer than this; NULL until it has called over v3.
    Column("offline_until", BigInteger),
    # Whether it takes a place; a site on a host that the terms do not count takes none.
    Column("is_counted", SmallInteger, nullable=False, server_default=text("1")),
    PrimaryKeyConstraint("license_id", "token"),
    # The oldest deactivated activations are deleted first. Activating does not write to this index.
    partial_index(
        "ix_activations_deactivated", "license_id", "deactivated_at", "id", where="deactivated_at IS NOT NULL"
    ),
    # A device has one place.
    partial_index(
        "ix_activations_fingerprint",
        "license_id",
        "fingerprint",
        where="fingerprint IS NOT NULL",
        is_unique=True,
    ),
    sqlite_with_rowid=False,
)

#: When a license was validated (activation 0), and when an activation was seen. Written some minutes late.
last_seen = Table(
    "last_seen",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("activation_id", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id", "activation_id"),
    sqlite_with_rowid=False,
)

#: The number of leases of a license that are counted, and the upper bound of that: the limit, or what was
#: held when the limit was lowered. Taking a lease never writes the bound.
lease_counters = Table(
    "lease_counters",
    metadata,
    Column("license_id", BigInteger, autoincrement=False, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("places", BigInteger, nullable=False),
    # Until when a holder whose lease the customer has ended may get none.
    Column("barred_until", BigInteger),
    PrimaryKeyConstraint("license_id"),
    CheckConstraint("held >= 0 AND held <= places", name="within_places"),
    sqlite_with_rowid=False,
)

#: Leases: those that are held, and the last of those that ended without being released.
leases = Table(
    "leases",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("lease_id", String(32), nullable=False),
    # The device's activation; 0 without a device, a number below 0 for a device that has no activation.
    Column("activation_id", BigInteger, nullable=False),
    Column("holder", String(255), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("renewed_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    # Set when an ended lease is no longer counted.
    Column("ended_at", BigInteger),
    # Until when its holder gets none, because the customer has ended it.
    Column("barred_until", BigInteger),
    PrimaryKeyConstraint("license_id", "lease_id"),
    partial_index("ix_leases_expires_at", "license_id", "expires_at", where="ended_at IS NULL"),
    partial_index("ix_leases_ended_at", "license_id", "ended_at", where="ended_at IS NOT NULL"),
    # The lease of a holder on a device, and those that ended before it.
    Index("ix_leases_holder", "license_id", "activation_id", "holder", "ended_at"),
    sqlite_with_rowid=False,
)

#: How much of a meter was used in its newest period, by the period's first second; one row for each meter.
#: What an older version writes has an end that is not after its beginning.
meter_usage = Table(
    "meter_usage",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("meter", String(64), nullable=False),
    Column("period_start", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
    Column("period_end", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("license_id", "meter"),
    CheckConstraint("used >= 0", name="used"),
    Index("ix_meter_usage_period_end", "period_end"),
    sqlite_with_rowid=False,
)

#: How much of a meter was used in a period from before that, or in one that is closed; also of licenses that
#: were deleted. The limit, product and customer are those of the moment at which it was closed, or at which
#: the license was deleted.
past_usage = Table(
    "past_usage",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("meter", String(64), nullable=False),
    Column("period_start", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
    Column("period_end", BigInteger, nullable=False, server_default=text("0")),
    Column("meter_limit", BigInteger),
    Column("product_id", BigInteger),
    Column("customer_id", BigInteger),
    Column("closed_at", BigInteger),
    PrimaryKeyConstraint("license_id", "meter", "period_start"),
    CheckConstraint("used >= 0", name="used"),
    Index("ix_past_usage_closed_at", "closed_at"),
    partial_index("ix_past_usage_period_end", "period_end", where="closed_at IS NULL"),
    sqlite_with_rowid=False,
)

#: Devices that were new to a license whose terms limit how many new devices may come.
new_devices = Table(
    "new_devices",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("fingerprint", String(256), nullable=False),
    PrimaryKeyConstraint("license_id", "seen_at", "fingerprint"),
    sqlite_with_rowid=False,
)

#: The last calls about a license that were refused, from 0; calls like each other are one row. Written some
#: seconds late.
refusals = Table(
    "refusals",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("number", SmallInteger, nullable=False),
    Column("reason", String(40), nullable=False),
    Column("operation", String(20), nullable=False),
    Column("fingerprint", String(256)),
    Column("device_name", String(255)),
    Column("token", String(40)),
    Column("ip_address", String(45), nullable=False),
    Column("times", BigInteger, nullable=False),
    Column("refused_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id", "number"),
    CheckConstraint("number >= 0 AND number < 20", name="number"),
    Index(None, "refused_at"),
    sqlite_with_rowid=False,
)

#: What people have written about a license.
license_notes = Table(
    "license_notes",
    metadata,
    Column("license_id", BigInteger, autoincrement=False, nullable=False),
    Column("note", Text, nullable=False),
    PrimaryKeyConstraint("license_id"),
    sqlite_with_rowid=False,
)

#: The tags of licenses, in lower case.
license_tags = Table(
    "license_tags",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("tag", String(40), nullable=False),
    PrimaryKeyConstraint("license_id", "tag"),
    Index("ix_license_tags_tag", "tag", "license_id"),
    sqlite_with_rowid=False,
)

#: License keys that were replaced.
rotated_keys = Table(
    "rotated_keys",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("key_hmac", LargeBinary(32), nullable=False),
    Column("sealed_key", LargeBinary, nullable=False),
    Column("rotated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id", "key_hmac"),
    Index(None, "key_hmac"),
    sqlite_with_rowid=False,
)

#: Licenses that were deleted, and can be restored for a while: sealed JSON of the license with what
#: belonged to it. Nothing but undo reads it.
deleted_licenses = Table(
    "deleted_licenses",
    metadata,
    Column("license_id", BigInteger, autoincrement=False, nullable=False),
    Column("customer_id", BigInteger),
    Column("sealed_snapshot", LargeBinary, nullable=False),
    Column("deleted_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id"),
    Index(None, "deleted_at"),
    partial_index("ix_deleted_licenses_customer_id", "customer_id", where="customer_id IS NOT NULL"),
    sqlite_with_rowid=False,
)

#: Deleted activations that may still have search terms.
pruned_activations = Table(
    "pruned_activations",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("activation_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id", "activation_id"),
    sqlite_with_rowid=False,
)
