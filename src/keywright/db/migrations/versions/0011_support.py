"""What the pages need for support: refusals, notes and tags, deleted licenses, saved views."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    _create_refusals()
    _end_sessions()
    _create_job_licenses()
    _add_languages()


def _end_sessions() -> None:
    """Sessions know their end from now on; users sign in again."""
    op.execute("DELETE FROM sessions")
    op.add_column(
        "sessions", sa.Column("ends_at", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )


def _create_refusals() -> None:
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
        sa.PrimaryKeyConstraint("license_id", "number", name="pk_refusals"),
        sa.CheckConstraint("number >= 0 AND number < 20", name="number"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_refusals_refused_at", "refusals", ["refused_at"])


def _create_job_licenses() -> None:
    op.create_table(
        "job_licenses",
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("changes", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "license_id", name="pk_job_licenses"),
        sqlite_with_rowid=False,
    )


def _add_languages() -> None:
    op.add_column("users", sa.Column("language", sa.String(35)))
