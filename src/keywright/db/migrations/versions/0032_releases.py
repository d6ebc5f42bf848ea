"""Releases of products, and the settings of a product's updates."""

import sqlalchemy as sa
from alembic import op

from keywright.db.schema.base import Id

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    _extend_products()
    zero = sa.text("0")
    op.create_table(
        "releases",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("product_id", sa.BigInteger, nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("channel", sa.String(64), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("rank", sa.BigInteger),
        sa.Column("released_at", sa.BigInteger),
        sa.Column("notes", sa.Text),
        sa.Column("is_critical", sa.SmallInteger, nullable=False, server_default=zero),
        sa.Column("is_free_for_expired", sa.SmallInteger, nullable=False, server_default=zero),
        sa.Column("entitlements", sa.Text, nullable=False),
        sa.Column("min_from_version", sa.String(64)),
        sa.Column("requires", sa.Text),
        sa.Column("rollout", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_releases"),
        sa.UniqueConstraint("product_id", "version", name="uq_releases_product_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_releases_product_id_created_at_id", "releases", ["product_id", "created_at", "id"])
    op.create_index("ix_releases_created_at_id", "releases", ["created_at", "id"])
    _create_files()
    _create_tokens_and_counts()


def _extend_products() -> None:
    texts = (
        sa.Column("updates", sa.String(10), nullable=False, server_default=sa.text("'licensed'")),
        sa.Column("channels", sa.Text, nullable=False, server_default=sa.text("'[]'")),
        sa.Column("public_keys", sa.Text, nullable=False, server_default=sa.text("'[]'")),
        sa.Column("version_scheme", sa.String(10), nullable=False, server_default=sa.text("'loose'")),
        sa.Column("releases_changed", sa.BigInteger),
    )
    for column in texts:
        op.add_column("products", column)


def _create_files() -> None:
    op.create_table(
        "release_files",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("release_id", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("platform", sa.String(32)),
        sa.Column("arch", sa.String(32)),
        sa.Column("content_type", sa.String(100)),
        sa.Column("signature", sa.Text),
        sa.Column("url", sa.String(2000)),
        sa.Column("size", sa.BigInteger),
        sa.Column("sha256", sa.String(64)),
        sa.Column("sha512", sa.String(88)),
        sa.Column("sha1", sa.String(40)),
        sa.Column("md5", sa.String(32)),
        sa.Column("stored_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_release_files"),
        sa.UniqueConstraint("release_id", "name", name="uq_release_files_release_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_release_files_sha256", "release_files", ["sha256"])


def _create_tokens_and_counts() -> None:
    op.create_table(
        "update_tokens",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger),
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("prefix", sa.String(12), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("ends_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_update_tokens"),
        sa.UniqueConstraint("token_hash", name="uq_update_tokens_token_hash"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_update_tokens_license_id_activation_id", "update_tokens", ["license_id", "activation_id"]
    )
    op.create_table(
        "release_counts",
        sa.Column("release_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("day", sa.BigInteger, autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("checks", "offers", "downloads")),
        sa.PrimaryKeyConstraint("release_id", "day", name="pk_release_counts"),
        sqlite_with_rowid=False,
    )
