"""Licenses that customers claim with their keys, and transfer to others."""

import sqlalchemy as sa
from alembic import op

from keywright.db.schema.base import Id

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.create_table(
        "license_claims",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("customer_id", sa.BigInteger, nullable=False),
        sa.Column("claimed_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_license_claims"),
        sqlite_with_rowid=False,
    )
    numbers = ("license_id", "from_customer_id", "to_customer_id", "offered_at", "expires_at")
    op.create_table(
        "license_transfers",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in numbers),
        *(sa.Column(name, sa.BigInteger) for name in ("accepted_at", "ended_at", "undone_at")),
        sa.PrimaryKeyConstraint("id", name="pk_license_transfers"),
        sqlite_autoincrement=True,
    )
    for columns in (["license_id"], ["from_customer_id", "offered_at"], ["to_customer_id"]):
        op.create_index(f"ix_license_transfers_{'_'.join(columns)}", "license_transfers", columns)
    is_offer = sa.text("accepted_at IS NULL")
    op.create_index(
        "ix_license_transfers_expires_at",
        "license_transfers",
        ["expires_at"],
        sqlite_where=is_offer,
        postgresql_where=is_offer,
    )
