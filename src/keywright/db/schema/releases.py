"""The tables of releases (their files, update tokens, daily counts), and of notices."""

import sqlalchemy as sa

from keywright.db.schema.base import Id, metadata, partial_index

releases = sa.Table(
    "releases",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("product_id", sa.BigInteger, nullable=False),
    sa.Column("version", sa.String(64), nullable=False),
    sa.Column("channel", sa.String(64), nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    # The position in the order of the product's versions, once it is published.
    sa.Column("rank", sa.BigInteger),
    sa.Column("released_at", sa.BigInteger),
    sa.Column("notes", sa.Text),
    sa.Column("is_critical", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("is_free_for_expired", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    # A JSON array of codes.
    sa.Column("entitlements", sa.Text, nullable=False),
    sa.Column("min_from_version", sa.String(64)),
    # JSON objects; NULL means empty.
    sa.Column("requires", sa.Text),
    sa.Column("rollout", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("product_id", "version", name="uq_releases_product_id"),
    sa.Index(None, "product_id", "created_at", "id"),
    sa.Index(None, "created_at", "id"),
    sqlite_autoincrement=True,
)

release_files = sa.Table(
    "release_files",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("release_id", sa.BigInteger, nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("kind", sa.String(10), nullable=False),
    sa.Column("platform", sa.String(32)),
    sa.Column("arch", sa.String(32)),
    sa.Column("content_type", sa.String(100)),
    sa.Column("signature", sa.Text),
    sa.Column("url", sa.String(2000)),
    # The stored bytes, or those to be stored if stored_at is NULL: hex digits, except sha512, which is
    # base64.
    sa.Column("size", sa.BigInteger),
    sa.Column("sha256", sa.String(64)),
    sa.Column("sha512", sa.String(88)),
    sa.Column("sha1", sa.String(40)),
    sa.Column("md5", sa.String(32)),
    sa.Column("stored_at", sa.BigInteger),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("release_id", "name", name="uq_release_files_release_id"),
    sa.Index(None, "sha256"),
    sqlite_autoincrement=True,
)

#: Tokens that permit checks for updates of one license, and downloads.
update_tokens = sa.Table(
    "update_tokens",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("activation_id", sa.BigInteger),
    sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
    # The first characters, by which people recognize a token.
    sa.Column("prefix", sa.String(12), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    # When it ends or ended; NULL means never.
    sa.Column("ends_at", sa.BigInteger),
    sa.UniqueConstraint("token_hash", name="uq_update_tokens_token_hash"),
    sa.Index(None, "license_id", "activation_id"),
    sqlite_autoincrement=True,
)

#: How often programs with a release checked for updates, and how often it was offered and downloaded, on a
#: day (days since 1970).
release_counts = sa.Table(
    "release_counts",
    metadata,
    sa.Column("release_id", sa.BigInteger, nullable=False),
    sa.Column("day", sa.BigInteger, nullable=False),
    sa.Column("checks", sa.BigInteger, nullable=False),
    sa.Column("offers", sa.BigInteger, nullable=False),
    sa.Column("downloads", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("release_id", "day"),
    sqlite_with_rowid=False,
)

#: What users of certain versions of a product should know.
notices = sa.Table(
    "notices",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("product_id", sa.BigInteger, nullable=False),
    sa.Column("affected", sa.String(200), nullable=False),
    sa.Column("severity", sa.String(10), nullable=False),
    sa.Column("is_security", sa.SmallInteger, nullable=False),
    sa.Column("title", sa.String(200), nullable=False),
    sa.Column("text", sa.Text),
    sa.Column("url", sa.String(2000)),
    sa.Column("fixed_in", sa.String(64)),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("published_at", sa.BigInteger),
    sa.Column("metadata", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Index(None, "product_id", "created_at", "id"),
    sa.Index(None, "created_at", "id"),
    sqlite_autoincrement=True,
)

#: The customers who were found to have an affected device, when, and the state of the mail to them. After an
#: erasure, customer_id and email are NULL.
notice_recipients = sa.Table(
    "notice_recipients",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("notice_id", sa.BigInteger, nullable=False),
    sa.Column("customer_id", sa.BigInteger),
    sa.Column("email", sa.String(320)),
    # An affected version that the customer uses.
    sa.Column("app_version", sa.String(255), nullable=False),
    sa.Column("state", sa.String(12), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    # When the mail was sent or given up.
    sa.Column("finished_at", sa.BigInteger),
    sa.Column("error", sa.String(500)),
    sa.UniqueConstraint("notice_id", "customer_id", name="uq_notice_recipients_notice_id"),
    sa.Index(None, "notice_id", "created_at", "id"),
    partial_index("ix_notice_recipients_customer_id", "customer_id", where="customer_id IS NOT NULL"),
    sa.Index(None, "created_at", "id"),
    sqlite_autoincrement=True,
)
