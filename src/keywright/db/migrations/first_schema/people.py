"""Tables of callers: API keys, users, customers in the portal."""

import sqlalchemy as sa
from alembic import op

from keywright.db.migrations.first_schema.pieces import ID


def create() -> None:
    """Create these tables."""
    _create_identity()
    _create_portal()


def _create_identity() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("permissions", sa.String(10), nullable=False),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("key_suffix", sa.String(7), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("key_hash", name="uq_api_keys_key_hash"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "invitations",
        sa.Column("user_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_invitations"),
        sa.UniqueConstraint("token_hash", name="uq_invitations_token_hash"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "recovery_codes",
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("code_hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "code_hash", name="pk_recovery_codes"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "saved_views",
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("query", sa.String(2000), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name", name="pk_saved_views"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "second_factors",
        sa.Column("user_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
        sa.Column("enabled_at", sa.BigInteger, nullable=False),
        sa.Column("last_step", sa.BigInteger, nullable=False),
        sa.Column("failed_attempts", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_second_factors"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_seen_at", sa.BigInteger, nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("user_agent", sa.String(512), nullable=False),
        sa.Column("ends_at", sa.BigInteger, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_sessions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_table(
        "users",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("password_hash", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("disabled_at", sa.BigInteger),
        sa.Column("last_signed_in_at", sa.BigInteger),
        sa.Column("language", sa.String(35)),
        sa.Column("email", sa.String(320)),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
        sqlite_autoincrement=True,
    )


def _create_portal() -> None:
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
    op.create_table(
        "portal_links",
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("customer_id", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_portal_links"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_portal_links_customer_id", "portal_links", ["customer_id"])
    op.create_index("ix_portal_links_expires_at", "portal_links", ["expires_at"])
    op.create_table(
        "portal_releases",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("released_at", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "released_at", "activation_id", name="pk_portal_releases"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "portal_sessions",
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("customer_id", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_portal_sessions"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_portal_sessions_customer_id", "portal_sessions", ["customer_id"])
    op.create_index("ix_portal_sessions_expires_at", "portal_sessions", ["expires_at"])
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
