"""The events that make up the figures of the reports."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.create_table(
        "report_events",
        sa.Column("name", sa.String(10), nullable=False),
        sa.Column("subject_id", sa.BigInteger, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("event_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", "subject_id", "day", "event_id", name="pk_report_events"),
        sqlite_with_rowid=False,
    )
