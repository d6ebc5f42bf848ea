"""The first schema: Keywright 1.0.

Revisions 0001 to 0007 were schemas of versions before the first release.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TERM = sa.String(300).with_variant(sa.String(300, collation="C"), "postgresql")


def upgrade() -> None:
    _create_licenses()
    _create_activations()
    _create_events()
    _create_catalog()
    _create_users()
    _create_second_factors()
    _create_api_keys()
    _create_projections()
    _create_jobs()
    _create_installation()


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _create_licenses() -> None:
    op.create_table(
        "licenses",
        sa.Column("id", _ID, autoincrement=False, nullable=False),
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
        sa.Column("deactivated_count", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("metadata", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_licenses"),
        sa.UniqueConstraint("key_hmac", name="uq_licenses_key_hmac"),
        sa.CheckConstraint(
            "times_activated >= 0 AND times_activated <= places", name=op.f("ck_licenses_within_places")
        ),
    )
    op.create_index(
        "ix_licenses_expires_at", "licenses", ["expires_at", "id"], **_where("expires_at IS NOT NULL")
    )
    op.create_index("ix_licenses_status", "licenses", ["status", "id"])
    op.create_index(
        "ix_licenses_customer_id", "licenses", ["customer_id", "id"], **_where("customer_id IS NOT NULL")
    )
    op.create_index("ix_licenses_order_id", "licenses", ["order_id", "id"], **_where("order_id IS NOT NULL"))
    op.create_index(
        "ix_licenses_product_id", "licenses", ["product_id", "id"], **_where("product_id IS NOT NULL")
    )


def _create_activations() -> None:
    op.create_table(
        "activations",
        sa.Column("license_id", _ID, nullable=False),
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
        sa.PrimaryKeyConstraint("license_id", "token", name="pk_activations"),
        sa.ForeignKeyConstraint(["license_id"], ["licenses.id"], name="fk_activations_license_id"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_activations_deactivated",
        "activations",
        ["license_id", "deactivated_at", "id"],
        **_where("deactivated_at IS NOT NULL"),
    )
    op.create_table(
        "pruned_activations",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "activation_id", name="pk_pruned_activations"),
        sqlite_with_rowid=False,
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("occurred_at", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger),
        sa.Column("actor", sa.String(80), nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("details", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_license_id", "events", ["license_id"])
    op.create_table(
        "idempotency_records",
        sa.Column("scope", sa.LargeBinary(32), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("sealed_body", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("scope", name="pk_idempotency_records"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_idempotency_records_created_at", "idempotency_records", ["created_at"])


def _create_catalog() -> None:
    op.create_table(
        "generators",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("charset", sa.String(255), nullable=False),
        sa.Column("chunks", sa.BigInteger, nullable=False),
        sa.Column("chunk_length", sa.BigInteger, nullable=False),
        sa.Column("times_activated_max", sa.BigInteger),
        sa.Column("separator", sa.String(255)),
        sa.Column("prefix", sa.String(255)),
        sa.Column("suffix", sa.String(255)),
        sa.Column("expires_in_days", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_generators"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "catalog_names",
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("kind", "number", name="pk_catalog_names"),
        sqlite_with_rowid=False,
    )


def _create_users() -> None:
    op.create_table(
        "users",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("password_hash", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("disabled_at", sa.BigInteger),
        sa.Column("last_signed_in_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_seen_at", sa.BigInteger, nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("user_agent", sa.String(512), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_sessions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])


def _create_second_factors() -> None:
    op.create_table(
        "second_factors",
        sa.Column("user_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
        sa.Column("enabled_at", sa.BigInteger, nullable=False),
        sa.Column("last_step", sa.BigInteger, nullable=False),
        sa.Column("failed_attempts", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_second_factors"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "recovery_codes",
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("code_hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "code_hash", name="pk_recovery_codes"),
        sqlite_with_rowid=False,
    )


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("permissions", sa.String(10), nullable=False),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("key_suffix", sa.String(7), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("key_hash", name="uq_api_keys_key_hash"),
        sqlite_autoincrement=True,
    )


def _create_projections() -> None:
    op.create_table(
        "search_terms",
        sa.Column("term", _TERM, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("term", "license_id", "activation_id", name="pk_search_terms"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_search_terms_license_id_activation_id", "search_terms", ["license_id", "activation_id"]
    )
    op.create_table(
        "daily_counts",
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("day", "name", name="pk_daily_counts"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "limit_refusals",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("refusals", sa.BigInteger, nullable=False),
        sa.Column("last_refused_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_limit_refusals"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_limit_refusals_last_refused_at", "limit_refusals", ["last_refused_at"])
    op.create_table(
        "checkpoints",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_checkpoints"),
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(30), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("total", sa.BigInteger),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("messages", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("claimed_by", sa.String(40)),
        sa.Column("claimed_until", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_unfinished", "jobs", ["id"], **_where("finished_at IS NULL"))
    op.create_table(
        "job_file_chunks",
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("sealed_content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_job_file_chunks"),
    )


def _create_installation() -> None:
    op.create_table(
        "installation",
        sa.Column("id", _ID, autoincrement=False, nullable=False),
        sa.Column("secret_id", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("oldest_compatible_revision", sa.String(32)),
        sa.Column("previous_secret_id", sa.String(16)),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
    )

    sequences = op.create_table(
        "sequences",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sequences"),
    )
    op.bulk_insert(sequences, [{"name": "license", "last_id": 0}, {"name": "activation", "last_id": 0}])
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.CreateSequence(sa.Sequence("license_id_seq")))
        op.execute(sa.schema.CreateSequence(sa.Sequence("activation_id_seq")))
