"""Holders whose lease the customer ended get no other for a while."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    for table in ("lease_counters", "leases"):
        op.add_column(table, sa.Column("barred_until", sa.BigInteger))
