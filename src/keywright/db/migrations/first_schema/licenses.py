"""Tables of licenses and activations, products, policies and customers."""

import sqlalchemy as sa
from alembic import op

from keywright.db.migrations.first_schema.pieces import ID, text_in_order, where


def create() -> None:
    """Create these tables."""
    _create_licenses()
    _create_catalog()


def _create_licenses() -> None:
    op.create_table(
        "deleted_licenses",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("customer_id", sa.BigInteger),
        sa.Column("sealed_snapshot", sa.LargeBinary, nullable=False),
        sa.Column("deleted_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_deleted_licenses"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_deleted_licenses_customer_id",
        "deleted_licenses",
        ["customer_id"],
        **where("customer_id IS NOT NULL"),
    )
    op.create_index("ix_deleted_licenses_deleted_at", "deleted_licenses", ["deleted_at"])
    op.create_table(
        "last_seen",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "activation_id", name="pk_last_seen"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "lease_counters",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("held", sa.BigInteger, nullable=False),
        sa.Column("places", sa.BigInteger, nullable=False),
        sa.CheckConstraint("held >= 0 AND held <= places", name=op.f("ck_lease_counters_within_places")),
        sa.PrimaryKeyConstraint("license_id", name="pk_lease_counters"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "leases",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("lease_id", sa.String(32), nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("renewed_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("license_id", "lease_id", name="pk_leases"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_leases_ended_at", "leases", ["license_id", "ended_at"], **where("ended_at IS NOT NULL")
    )
    op.create_index(
        "ix_leases_expires_at", "leases", ["license_id", "expires_at"], **where("ended_at IS NULL")
    )
    op.create_index("ix_leases_holder", "leases", ["license_id", "activation_id", "holder", "ended_at"])
    op.create_table(
        "license_notes",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_license_notes"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "license_tags",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("tag", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("license_id", "tag", name="pk_license_tags"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_license_tags_tag", "license_tags", ["tag", "license_id"])
    op.create_table(
        "licenses",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("key_hmac", sa.LargeBinary(32), nullable=False),
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
        sa.Column("places", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.BigInteger),
        sa.Column("deactivated_count", sa.BigInteger, server_default=sa.text("0"), nullable=False),
        sa.Column("metadata", sa.Text),
        sa.Column("policy_id", sa.BigInteger),
        sa.Column("terms", sa.Text),
        sa.Column("order_details", sa.Text),
        sa.Column("order_ref", sa.String(255)),
        sa.Column("order_line_hash", sa.LargeBinary(32)),
        sa.Column("key_end", sa.BigInteger),
        sa.Column("key_folded", sa.BigInteger),
        sa.CheckConstraint(
            "times_activated >= 0 AND times_activated <= places", name=op.f("ck_licenses_within_places")
        ),
        sa.PrimaryKeyConstraint("id", name="pk_licenses"),
        sa.UniqueConstraint("key_hmac", name="uq_licenses_key_hmac"),
    )
    op.create_index("ix_licenses_created_at", "licenses", ["created_at", "id"])
    op.create_index(
        "ix_licenses_customer_id", "licenses", ["customer_id", "id"], **where("customer_id IS NOT NULL")
    )
    op.create_index(
        "ix_licenses_expires_at", "licenses", ["expires_at", "id"], **where("expires_at IS NOT NULL")
    )
    op.create_index("ix_licenses_key_end", "licenses", ["key_end"])
    op.create_index("ix_licenses_key_folded", "licenses", ["key_folded"])
    op.create_index("ix_licenses_order_id", "licenses", ["order_id", "id"], **where("order_id IS NOT NULL"))
    op.create_index(
        "ix_licenses_order_line_hash",
        "licenses",
        ["order_line_hash"],
        unique=True,
        **where("order_line_hash IS NOT NULL"),
    )
    op.create_index(
        "ix_licenses_order_ref", "licenses", ["order_ref", "id"], **where("order_ref IS NOT NULL")
    )
    op.create_index(
        "ix_licenses_policy_id", "licenses", ["policy_id", "id"], **where("policy_id IS NOT NULL")
    )
    op.create_index(
        "ix_licenses_product_id", "licenses", ["product_id", "id"], **where("product_id IS NOT NULL")
    )
    op.create_index("ix_licenses_status", "licenses", ["status", "id"])
    op.create_table(
        "meter_usage",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("meter", sa.String(64), nullable=False),
        sa.Column("period_start", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.CheckConstraint("used >= 0", name=op.f("ck_meter_usage_used")),
        sa.PrimaryKeyConstraint("license_id", "meter", name="pk_meter_usage"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "new_devices",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("fingerprint", sa.String(256), nullable=False),
        sa.PrimaryKeyConstraint("license_id", "seen_at", "fingerprint", name="pk_new_devices"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "pruned_activations",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "activation_id", name="pk_pruned_activations"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "refusals",
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
        sa.CheckConstraint("number >= 0 AND number < 20", name=op.f("ck_refusals_number")),
        sa.PrimaryKeyConstraint("license_id", "number", name="pk_refusals"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_refusals_refused_at", "refusals", ["refused_at"])
    op.create_table(
        "rotated_keys",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("key_hmac", sa.LargeBinary(32), nullable=False),
        sa.Column("sealed_key", sa.LargeBinary, nullable=False),
        sa.Column("rotated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "key_hmac", name="pk_rotated_keys"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_rotated_keys_key_hmac", "rotated_keys", ["key_hmac"])
    op.create_table(
        "activations",
        sa.Column("license_id", ID, nullable=False),
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
        sa.Column("fingerprint", sa.String(256)),
        sa.Column("platform", sa.String(255)),
        sa.Column("app_version", sa.String(255)),
        sa.ForeignKeyConstraint(["license_id"], ["licenses.id"], name="fk_activations_license_id"),
        sa.PrimaryKeyConstraint("license_id", "token", name="pk_activations"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_activations_deactivated",
        "activations",
        ["license_id", "deactivated_at", "id"],
        **where("deactivated_at IS NOT NULL"),
    )
    op.create_index(
        "ix_activations_fingerprint",
        "activations",
        ["license_id", "fingerprint"],
        unique=True,
        **where("fingerprint IS NOT NULL"),
    )


def _create_catalog() -> None:
    op.create_table(
        "customers",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("email", sa.String(320)),
        sa.Column("email_folded", sa.String(320)),
        sa.Column("email_verified_at", sa.BigInteger),
        sa.Column("name", sa.String(200)),
        sa.Column("metadata", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("unsubscribed_at", sa.BigInteger),
        sa.Column("language", sa.String(35)),
        sa.Column("erasure_requested_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_customers"),
        sa.UniqueConstraint("email_folded", name="uq_customers_email_folded"),
    )
    op.create_index("ix_customers_created_at_id", "customers", ["created_at", "id"])
    op.create_index("ix_customers_name_created_at_id", "customers", ["name", "created_at", "id"])
    op.create_index(
        "ix_customers_to_erase",
        "customers",
        ["erasure_requested_at"],
        **where("erasure_requested_at IS NOT NULL"),
    )
    op.create_table(
        "name_terms",
        sa.Column("term", text_in_order(25), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("term", "number", name="pk_name_terms"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "policies",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("charset", sa.String(255), nullable=False),
        sa.Column("chunks", sa.BigInteger, nullable=False),
        sa.Column("chunk_length", sa.BigInteger, nullable=False),
        sa.Column("separator", sa.String(255)),
        sa.Column("prefix", sa.String(255)),
        sa.Column("suffix", sa.String(255)),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.BigInteger),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("terms", sa.Text, server_default=sa.text("'{}'"), nullable=False),
        sa.Column("archived_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_policies"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_policies_archived", "policies", ["created_at", "id"], **where("archived_at IS NOT NULL")
    )
    op.create_index("ix_policies_created_at_id", "policies", ["created_at", "id"])
    op.create_index("ix_policies_in_use", "policies", ["created_at", "id"], **where("archived_at IS NULL"))
    op.create_index("ix_policies_product_id_created_at_id", "policies", ["product_id", "created_at", "id"])
    op.create_table(
        "products",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("code", sa.String(64)),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("url", sa.String(2000)),
        sa.Column("features", sa.Text, server_default=sa.text("'[]'"), nullable=False),
        sa.Column("metadata", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_products"),
        sa.UniqueConstraint("code", name="uq_products_code"),
    )
    op.create_index("ix_products_created_at_id", "products", ["created_at", "id"])
    op.create_index("ix_products_name", "products", ["name"])
    op.create_table(
        "trials",
        sa.Column("product_id", sa.BigInteger, nullable=False),
        sa.Column("fingerprint_hmac", sa.LargeBinary(32), nullable=False),
        sa.Column("sealed_fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("email", sa.String(320)),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("product_id", "fingerprint_hmac", name="pk_trials"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_trials_license_id", "trials", ["license_id"])
