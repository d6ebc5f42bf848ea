"""The tables of licenses and their parts: the primary key of each begins with the license."""

import sqlalchemy as sa

from keywright.db.schema.base import Id, metadata, partial_index

licenses = sa.Table(
    "licenses",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("key_hmac", sa.LargeBinary(32), nullable=False, unique=True),
    sa.Column("sealed_key", sa.LargeBinary, nullable=False),
    sa.Column("order_id", sa.BigInteger),
    sa.Column("product_id", sa.BigInteger),
    sa.Column("customer_id", sa.BigInteger),
    sa.Column("expires_at", sa.BigInteger),
    sa.Column("valid_for_days", sa.BigInteger),
    sa.Column("source", sa.SmallInteger, nullable=False),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("times_activated", sa.BigInteger, nullable=False),
    sa.Column("times_activated_max", sa.BigInteger),
    # The upper bound of times_activated: the limit, or the number of places taken when the limit was lowered
    # below it. Taking a place never writes it, so the CHECK below applies to every such write.
    sa.Column("places", sa.BigInteger),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("created_by", sa.BigInteger),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("updated_by", sa.BigInteger),
    # The number of deactivated activations, which bounds what is read and deleted without a count.
    sa.Column("deactivated_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    # A JSON object; its bounds are those of ``parsing.parse_metadata``.
    sa.Column("metadata", sa.Text),
    sa.Column("policy_id", sa.BigInteger),
    # A JSON object: the terms that are not the default and have no column of their own.
    sa.Column("terms", sa.Text),
    # A JSON object: the order's source, ID, line and index; NULL for an order that is just a number.
    sa.Column("order_details", sa.Text),
    # The order's ID, if it is not a number.
    sa.Column("order_ref", sa.String(255)),
    # The SHA-256 of the order's details, if there is a line: one license per order line.
    sa.Column("order_line_hash", sa.LargeBinary(32)),
    # Blind indexes of the key's last four characters, and of the key in upper case without dashes.
    sa.Column("key_end", sa.BigInteger),
    sa.Column("key_folded", sa.BigInteger),
    # The ID in another system of the vendor.
    sa.Column("external_id", sa.String(255)),
    # The number of units sold.
    sa.Column("quantity", sa.BigInteger, nullable=False, server_default=sa.text("1")),
    # A JSON object: for terms set by hand, the values that a rule last wrote.
    sa.Column("rule_terms", sa.Text),
    # A blind index of the key's first eight characters; NULL until the projection fills it.
    sa.Column("key_start", sa.BigInteger),
    # The number of active activations that take no place.
    sa.Column("uncounted_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.CheckConstraint("times_activated >= 0 AND times_activated <= places", name="within_places"),
    # For the pages. No index may have a column that an activation writes (times_activated, updated_at): on
    # PostgreSQL, every activation would then write to every index.
    sa.Index("ix_licenses_status", "status", "id"),
    sa.Index("ix_licenses_created_at", "created_at", "id"),
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
    sa.Index("ix_licenses_key_end", "key_end"),
    sa.Index("ix_licenses_key_folded", "key_folded"),
    partial_index("ix_licenses_key_start", "key_start", where="key_start IS NOT NULL"),
)

#: When licenses were changed, as projected from events shortly afterwards: the index that ``licenses`` must
#: not have.
license_updates = sa.Table(
    "license_updates",
    metadata,
    sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("license_id"),
    sa.Index(None, "updated_at", "license_id"),
    sqlite_with_rowid=False,
)

activations = sa.Table(
    "activations",
    metadata,
    sa.Column("license_id", Id, sa.ForeignKey("licenses.id"), nullable=False),
    sa.Column("token", sa.String(40), nullable=False),
    sa.Column("id", sa.BigInteger, nullable=False),
    sa.Column("label", sa.String(255)),
    sa.Column("source", sa.SmallInteger, nullable=False),
    sa.Column("ip_address", sa.String(45), nullable=False),
    sa.Column("user_agent", sa.String(512), nullable=False),
    sa.Column("meta_data", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger),
    sa.Column("deactivated_at", sa.BigInteger),
    # What a device reports about itself; NULL for activations over v2.
    sa.Column("fingerprint", sa.String(256)),
    sa.Column("platform", sa.String(255)),
    sa.Column("app_version", sa.String(255)),
    # The latest expiry of what was signed for the device; NULL until it has called over v3.
    sa.Column("offline_until", sa.BigInteger),
    # Whether it takes a place; a site on a host that the terms do not count takes none.
    sa.Column("is_counted", sa.SmallInteger, nullable=False, server_default=sa.text("1")),
    sa.PrimaryKeyConstraint("license_id", "token"),
    # The oldest deactivated activations are deleted first. Activating does not write to this index.
    partial_index(
        "ix_activations_deactivated", "license_id", "deactivated_at", "id", where="deactivated_at IS NOT NULL"
    ),
    # A device has at most one place.
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
last_seen = sa.Table(
    "last_seen",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("activation_id", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("license_id", "activation_id"),
    sqlite_with_rowid=False,
)

#: The number of a license's counted leases, and its upper bound: the limit, or the number held when the limit
#: was lowered. Taking a lease never writes the bound.
lease_counters = sa.Table(
    "lease_counters",
    metadata,
    sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
    sa.Column("held", sa.BigInteger, nullable=False),
    sa.Column("places", sa.BigInteger, nullable=False),
    # Until then, a holder whose lease the customer ended may be barred.
    sa.Column("barred_until", sa.BigInteger),
    sa.PrimaryKeyConstraint("license_id"),
    sa.CheckConstraint("held >= 0 AND held <= places", name="within_places"),
    sqlite_with_rowid=False,
)

#: Leases: those that are held, and the latest of those that ended without being released.
leases = sa.Table(
    "leases",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("lease_id", sa.String(32), nullable=False),
    # The device's activation; 0 without a device, negative for a device that has no activation.
    sa.Column("activation_id", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.String(255), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("renewed_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    # Set when an ended lease is no longer counted.
    sa.Column("ended_at", sa.BigInteger),
    # Until then, the holder gets no lease, because the customer ended this one.
    sa.Column("barred_until", sa.BigInteger),
    sa.PrimaryKeyConstraint("license_id", "lease_id"),
    partial_index("ix_leases_expires_at", "license_id", "expires_at", where="ended_at IS NULL"),
    partial_index("ix_leases_ended_at", "license_id", "ended_at", where="ended_at IS NOT NULL"),
    # Finds the lease of a holder on a device, and the leases that ended before it.
    sa.Index("ix_leases_holder", "license_id", "activation_id", "holder", "ended_at"),
    sqlite_with_rowid=False,
)

#: The amount of a meter used in its newest period, with the period's first second; one row per meter. In rows
#: that an older version writes, the end is not after the beginning.
meter_usage = sa.Table(
    "meter_usage",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("meter", sa.String(64), nullable=False),
    sa.Column("period_start", sa.BigInteger, nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.Column("period_end", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.PrimaryKeyConstraint("license_id", "meter"),
    sa.CheckConstraint("used >= 0", name="used"),
    sa.Index("ix_meter_usage_period_end", "period_end"),
    sqlite_with_rowid=False,
)

#: The amount of a meter used in an earlier or a closed period, also for deleted licenses. The limit, product
#: and customer are those at the moment the period was closed or the license deleted.
past_usage = sa.Table(
    "past_usage",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("meter", sa.String(64), nullable=False),
    sa.Column("period_start", sa.BigInteger, nullable=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.Column("period_end", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("meter_limit", sa.BigInteger),
    sa.Column("product_id", sa.BigInteger),
    sa.Column("customer_id", sa.BigInteger),
    sa.Column("closed_at", sa.BigInteger),
    sa.PrimaryKeyConstraint("license_id", "meter", "period_start"),
    sa.CheckConstraint("used >= 0", name="used"),
    sa.Index("ix_past_usage_closed_at", "closed_at"),
    partial_index("ix_past_usage_period_end", "period_end", where="closed_at IS NULL"),
    sqlite_with_rowid=False,
)

#: Devices that were new to a license whose terms limit the number of new devices.
new_devices = sa.Table(
    "new_devices",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.BigInteger, nullable=False),
    sa.Column("fingerprint", sa.String(256), nullable=False),
    sa.PrimaryKeyConstraint("license_id", "seen_at", "fingerprint"),
    sqlite_with_rowid=False,
)

#: The last refused calls about a license, numbered from 0; equal calls share one row. Written some seconds
#: late.
refusals = sa.Table(
    "refusals",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("number", sa.SmallInteger, nullable=False),
    sa.Column("reason", sa.String(40), nullable=False),
    sa.Column("operation", sa.String(20), nullable=False),
    sa.Column("fingerprint", sa.String(256)),
    sa.Column("device_name", sa.String(255)),
    sa.Column("token", sa.String(40)),
    sa.Column("ip_address", sa.String(45), nullable=False),
    sa.Column("times", sa.BigInteger, nullable=False),
    sa.Column("refused_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("license_id", "number"),
    sa.CheckConstraint("number >= 0 AND number < 20", name="number"),
    sa.Index(None, "refused_at"),
    sqlite_with_rowid=False,
)

#: Notes that people have written about a license.
license_notes = sa.Table(
    "license_notes",
    metadata,
    sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("license_id"),
    sqlite_with_rowid=False,
)

#: The tags of licenses, in lower case.
license_tags = sa.Table(
    "license_tags",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("tag", sa.String(40), nullable=False),
    sa.PrimaryKeyConstraint("license_id", "tag"),
    sa.Index("ix_license_tags_tag", "tag", "license_id"),
    sqlite_with_rowid=False,
)

#: License keys that have been replaced.
rotated_keys = sa.Table(
    "rotated_keys",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("key_hmac", sa.LargeBinary(32), nullable=False),
    sa.Column("sealed_key", sa.LargeBinary, nullable=False),
    sa.Column("rotated_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("license_id", "key_hmac"),
    sa.Index(None, "key_hmac"),
    sqlite_with_rowid=False,
)

#: Deleted licenses that can be restored for a while: sealed JSON of the license with what belonged to it.
#: Only ``licensing.undo`` reads the snapshots.
deleted_licenses = sa.Table(
    "deleted_licenses",
    metadata,
    sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
    sa.Column("customer_id", sa.BigInteger),
    sa.Column("sealed_snapshot", sa.LargeBinary, nullable=False),
    sa.Column("deleted_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("license_id"),
    sa.Index(None, "deleted_at"),
    partial_index("ix_deleted_licenses_customer_id", "customer_id", where="customer_id IS NOT NULL"),
    sqlite_with_rowid=False,
)

#: Deleted activations that may still have search terms.
pruned_activations = sa.Table(
    "pruned_activations",
    metadata,
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("activation_id", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("license_id", "activation_id"),
    sqlite_with_rowid=False,
)
