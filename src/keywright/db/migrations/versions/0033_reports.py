"""The figures of the reports."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    op.create_table(
        "report_counts",
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("subject_id", sa.BigInteger, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("name", sa.String(140), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("kind", "subject_id", "day", "name", name="pk_report_counts"),
        sqlite_with_rowid=False,
    )
