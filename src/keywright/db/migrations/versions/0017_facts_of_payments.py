"""Refunds and disputes are stored separately; sold licenses have the expiry by their terms."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    for name in ("refund", "dispute"):
        op.add_column("payments", sa.Column(name, sa.String(10), nullable=False, server_default="active"))
        op.add_column(
            "payments", sa.Column(f"{name}_at", sa.BigInteger, nullable=False, server_default=sa.text("0"))
        )
    # The newest event determined the state, whatever it was about. WooCommerce has a single state and keeps
    # it.
    of_shops = "connection_id IN (SELECT id FROM connections WHERE shop IN ({}))"
    moved = (
        ("refund", "refunded", "'stripe', 'paddle', 'lemonsqueezy', 'generic'"),
        ("dispute", "suspended", "'stripe', 'paddle'"),
    )
    for name, state, shops in moved:
        op.execute(
            f"UPDATE payments SET {name} = state, {name}_at = state_at, state = 'active', state_at = 0 "  # noqa: S608
            f"WHERE state = '{state}' AND {of_shops.format(shops)}"
        )
    op.add_column("sold_licenses", sa.Column("terms_expire_at", sa.BigInteger))
    op.execute("UPDATE sold_licenses SET terms_expire_at = expires_at")
