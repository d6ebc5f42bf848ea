"""The usage of a meter is kept when its next period begins."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "past_usage",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("meter", sa.String(64), nullable=False),
        sa.Column("period_start", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.CheckConstraint("used >= 0", name=op.f("ck_past_usage_used")),
        sa.PrimaryKeyConstraint("license_id", "meter", "period_start", name="pk_past_usage"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_past_usage_period_start", "past_usage", ["period_start"])
