"""Tables for portal: sign-ins of customers."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    _create_sign_ins()
    _create_releases()
    _create_brand()
    op.add_column("customers", sa.Column("language", sa.String(35)))
    op.add_column("customers", sa.Column("erasure_requested_at", sa.BigInteger))
    op.create_index(
        "ix_customers_to_erase",
        "customers",
        ["erasure_requested_at"],
        sqlite_where=sa.text("erasure_requested_at IS NOT NULL"),
        postgresql_where=sa.text("erasure_requested_at IS NOT NULL"),
    )


def _create_sign_ins() -> None:
    op.create_table(
        "portal_sign_ins",
        sa.Column("id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("customer_id", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("wrong_codes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_portal_sign_ins"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_portal_sign_ins_customer_id", "portal_sign_ins", ["customer_id"])
    op.create_index("ix_portal_sign_ins_expires_at", "portal_sign_ins", ["expires_at"])
    for name, *times in (("portal_links", "expires_at"), ("portal_sessions", "created_at", "expires_at")):
        op.create_table(
            name,
            sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
            sa.Column("customer_id", sa.BigInteger, nullable=False),
            *(sa.Column(time, sa.BigInteger, nullable=False) for time in times),
            sa.PrimaryKeyConstraint("token_hash", name=f"pk_{name}"),
            sqlite_with_rowid=False,
        )
        op.create_index(f"ix_{name}_customer_id", name, ["customer_id"])
        op.create_index(f"ix_{name}_expires_at", name, ["expires_at"])


def _create_releases() -> None:
    op.create_table(
        "portal_releases",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("released_at", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "released_at", "activation_id", name="pk_portal_releases"),
        sqlite_with_rowid=False,
    )


def _create_brand() -> None:
    op.create_table(
        "brand",
        sa.Column("id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("name", sa.String(200)),
        sa.Column("color", sa.String(7)),
        sa.Column("logo", sa.Text),
        sa.Column("logo_type", sa.String(40)),
        sa.Column("links", sa.Text, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_brand"),
        sqlite_with_rowid=False,
    )
