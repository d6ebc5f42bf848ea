"""The tables of releases: their files, the tokens of update frameworks, counts; and notices."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from keywright.db.schema.base import Id, metadata, partial_index

releases = Table(
    "releases",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("product_id", BigInteger, nullable=False),
    Column("version", String(64), nullable=False),
    Column("channel", String(64), nullable=False),
    Column("state", String(10), nullable=False),
    # The place in the order of the product's versions, from its publishing on.
    Column("rank", BigInteger),
    Column("released_at", BigInteger),
    Column("notes", Text),
    Column("is_critical", SmallInteger, nullable=False, server_default=text("0")),
    Column("is_free_for_expired", SmallInteger, nullable=False, server_default=text("0")),
    # A JSON array of codes.
    Column("entitlements", Text, nullable=False),
    Column("min_from_version", String(64)),
    # JSON objects; NULL is empty.
    Column("requires", Text),
    Column("rollout", Text, nullable=False),
    Column("metadata", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("product_id", "version", name="uq_releases_product_id"),
    Index(None, "product_id", "created_at", "id"),
    Index(None, "created_at", "id"),
    sqlite_autoincrement=True,
)

release_files = Table(
    "release_files",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("release_id", BigInteger, nullable=False),
    Column("name", String(200), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("platform", String(32)),
    Column("arch", String(32)),
    Column("content_type", String(100)),
    Column("signature", Text),
    Column("url", String(2000)),
    # What is stored, or is to be stored where stored_at is NULL: hex digits, but sha512, which is base64.
    Column("size", BigInteger),
    Column("sha256", String(64)),
    Column("sha512", String(88)),
    Column("sha1", String(40)),
    Column("md5", String(32)),
    Column("stored_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    UniqueConstraint("release_id", "name", name="uq_release_files_release_id"),
    Index(None, "sha256"),
    sqlite_autoincrement=True,
)

#: Tokens that may ask for updates of one license, and download them.
update_tokens = Table(
    "update_tokens",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("license_id", BigInteger, nullable=False),
    Column("activation_id", BigInteger),
    Column("token_hash", LargeBinary(32), nullable=False),
    # The first characters, by which people tell them apart.
    Column("prefix", String(12), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # When it ends, or ended; NULL is never.
    Column("ends_at", BigInteger),
    UniqueConstraint("token_hash", name="uq_update_tokens_token_hash"),
    Index(None, "license_id", "activation_id"),
    sqlite_autoincrement=True,
)

#: How often a release was checked for, offered and downloaded on a day (days since 1970).
release_counts = Table(
    "release_counts",
    metadata,
    Column("release_id", BigInteger, nullable=False),
    Column("day", BigInteger, nullable=False),
    Column("checks", BigInteger, nullable=False),
    Column("offers", BigInteger, nullable=False),
    Column("downloads", BigInteger, nullable=False),
    PrimaryKeyConstraint("release_id", "day"),
    sqlite_with_rowid=False,
)

#: What users of certain versions of a product are to know.
notices = Table(
    "notices",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("product_id", BigInteger, nullable=False),
    Column("affected", String(200), nullable=False),
    Column("severity", String(10), nullable=False),
    Column("is_security", SmallInteger, nullable=False),
    Column("title", String(200), nullable=False),
    Column("text", Text),
    Column("url", String(2000)),
    Column("fixed_in", String(64)),
    Column("state", String(10), nullable=False),
    Column("published_at", BigInteger),
    Column("metadata", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index(None, "product_id", "created_at", "id"),
    Index(None, "created_at", "id"),
    sqlite_autoincrement=True,
)

#: The customers who were found to have an affected device, when, and what became of the mail to them. After
#: an erasure, customer_id and email are NULL.
notice_recipients = Table(
    "notice_recipients",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("notice_id", BigInteger, nullable=False),
    Column("customer_id", BigInteger),
    Column("email", String(320)),
    # A version of theirs that is affected.
    Column("app_version", String(255), nullable=False),
    Column("state", String(12), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # When the mail was sent or given up.
    Column("finished_at", BigInteger),
    Column("error", String(500)),
    UniqueConstraint("notice_id", "customer_id", name="uq_notice_recipients_notice_id"),
    Index(None, "notice_id", "created_at", "id"),
    partial_index("ix_notice_recipients_customer_id", "customer_id", where="customer_id IS NOT NULL"),
    Index(None, "created_at", "id"),
    sqlite_autoincrement=True,
)
