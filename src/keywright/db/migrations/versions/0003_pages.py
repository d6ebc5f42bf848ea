"""What the administration pages need: sessions, names, jobs, what follows the events, and indices."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TERM = sa.String(300).with_variant(sa.String(300, collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("last_used_at", sa.BigInteger))
    op.add_column("users", sa.Column("disabled_at", sa.BigInteger))
    op.add_column("users", sa.Column("signed_in_at", sa.BigInteger))
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("user_agent", sa.String(512), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_sessions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_table(
        "names",
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("kind", "number", name="pk_names"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "marks",
        sa.Column("term", TERM, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("term", "license_id", "activation_id", name="pk_marks"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_marks_license_id", "marks", ["license_id"])
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
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("times", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_limit_refusals"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_limit_refusals_last_at", "limit_refusals", ["last_at"])
    op.create_table(
        "positions",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_positions"),
    )
    _create_jobs()
    op.create_index("ix_licenses_status", "licenses", ["status", "id"])
    for name in ("product_id", "order_id", "user_id", "expires_at"):
        is_given = sa.text(f"{name} IS NOT NULL")
        op.create_index(
            f"ix_licenses_{name}",
            "licenses",
            [name, "id"],
            sqlite_where=is_given,
            postgresql_where=is_given,
        )


def _create_jobs() -> None:
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
        sa.Column("said", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("claimed_by", sa.String(40)),
        sa.Column("claimed_until", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sqlite_autoincrement=True,
    )
    is_unfinished = sa.text("finished_at IS NULL")
    op.create_index(
        "ix_jobs_unfinished", "jobs", ["id"], sqlite_where=is_unfinished, postgresql_where=is_unfinished
    )
    op.create_table(
        "job_pieces",
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_job_pieces"),
    )
