"""Activations that take no place."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    op.add_column(
        "licenses", sa.Column("uncounted_count", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )
    op.add_column(
        "activations", sa.Column("is_counted", sa.SmallInteger, nullable=False, server_default=sa.text("1"))
    )
