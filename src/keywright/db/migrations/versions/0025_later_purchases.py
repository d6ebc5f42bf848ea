"""Purchases that renew or upgrade a license; the URL at which customers of a product renew."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("products", sa.Column("renew_url", sa.String(2000)))
    op.create_table(
        "later_purchases",
        sa.Column("connection_id", sa.BigInteger, nullable=False),
        sa.Column("order_ref", sa.String(255), nullable=False),
        sa.Column("line", sa.String(255), nullable=False),
        sa.Column("subscription_ref", sa.String(255)),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("does", sa.String(10), nullable=False),
        sa.Column("policy_id", sa.BigInteger, nullable=False),
        sa.Column("days", sa.BigInteger),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("connection_id", "order_ref", "line", name="pk_later_purchases"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_later_purchases_license_id", "later_purchases", ["license_id"])
    has_one = sa.text("subscription_ref IS NOT NULL")
    op.create_index(
        "ix_later_purchases_subscription_ref",
        "later_purchases",
        ["connection_id", "subscription_ref"],
        sqlite_where=has_one,
        postgresql_where=has_one,
    )
