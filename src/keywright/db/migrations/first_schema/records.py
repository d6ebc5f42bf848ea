"""Tables of events, jobs, counters and the search."""

import sqlalchemy as sa
from alembic import op

from keywright.db.migrations.first_schema.pieces import ID, text_in_order, where


def create() -> None:
    """Create these tables."""
    _create_records()


def _create_records() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_checkpoints"),
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
        "daily_product_counts",
        sa.Column("product_id", sa.BigInteger, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("product_id", "day", "name", name="pk_daily_product_counts"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("occurred_at", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger),
        sa.Column("actor", sa.String(80), nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("details", sa.Text),
        sa.Column("customer_id", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_events_customer_id", "events", ["customer_id", "id"], **where("customer_id IS NOT NULL")
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
    op.create_table(
        "installation",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("secret_id", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("oldest_compatible_revision", sa.String(32)),
        sa.Column("previous_secret_id", sa.String(16)),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
    )
    op.create_table(
        "job_file_chunks",
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("sealed_content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_job_file_chunks"),
    )
    op.create_table(
        "job_licenses",
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("changes", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "license_id", name="pk_job_licenses"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "jobs",
        sa.Column("id", ID, autoincrement=True, nullable=False),
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
    op.create_index("ix_jobs_unfinished", "jobs", ["id"], **where("finished_at IS NULL"))
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
        "search_terms",
        sa.Column("term", text_in_order(300), nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("term", "license_id", "activation_id", name="pk_search_terms"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_search_terms_license_id_activation_id", "search_terms", ["license_id", "activation_id"]
    )
    op.create_table(
        "sequences",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sequences"),
    )
