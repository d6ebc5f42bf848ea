"""The periods of meters are closed, each once."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    for table in ("meter_usage", "past_usage"):
        end = sa.Column("period_end", sa.BigInteger, nullable=False, server_default=sa.text("0"))
        op.add_column(table, end)
    for name in ("meter_limit", "product_id", "customer_id", "closed_at"):
        op.add_column("past_usage", sa.Column(name, sa.BigInteger))
    op.create_index("ix_meter_usage_period_end", "meter_usage", ["period_end"])
    op.drop_index("ix_past_usage_period_start", "past_usage")
    op.create_index("ix_past_usage_closed_at", "past_usage", ["closed_at"])
    is_open = sa.text("closed_at IS NULL")
    op.create_index(
        "ix_past_usage_period_end",
        "past_usage",
        ["period_end"],
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
