"""The tables. Every table of the activation path leads with the license; no triggers.

Moments are whole seconds since 1970-01-01 UTC, in 64-bit integers: the same on every database, and
compared without conversion.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)

#: What a column of bytes holds; each says so. What a secret plays a part in is listed in ``sealed``.
SEALED = {"holds": "a value sealed with the secret"}
BLIND_INDEX = {"holds": "an HMAC by the secret, under which a sealed value is found"}
PLAIN_HASH = {"holds": "a hash that anyone can compute from the same text"}

#: On SQLite only a column declared INTEGER is the row's own number.
Id = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _index_of_given(name: str) -> Index:
    is_given = text(f"{name} IS NOT NULL")
    return Index(f"ix_licenses_{name}", name, "id", sqlite_where=is_given, postgresql_where=is_given)


licenses = Table(
    "licenses",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("key_hmac", LargeBinary(32), nullable=False, unique=True, info=BLIND_INDEX),
    Column("sealed_key", LargeBinary, nullable=False, info=SEALED),
    Column("order_id", BigInteger),
    Column("product_id", BigInteger),
    Column("customer_id", BigInteger),
    Column("expires_at", BigInteger),
    Column("valid_for_days", BigInteger),
    Column("source", SmallInteger, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("times_activated", BigInteger, nullable=False),
    Column("times_activated_max", BigInteger),
    # The most that times_activated may be: the limit, or what was taken when the limit was lowered
    # below it. Taking a place never writes it, so the CHECK below judges every such write.
    Column("places", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", BigInteger),
    # How many of its activations were given up: what must go, and how much is to be read, is known without
    # counting. The default is for the previous release.
    Column("deactivated_count", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("times_activated >= 0 AND times_activated <= places", name="within_places"),
    # For the pages. None of them may name a column that activating writes (times_activated, updated_at): on
    # PostgreSQL, every activation would then write to every index.
    Index("ix_licenses_status", "status", "id"),
    *map(_index_of_given, ("product_id", "order_id", "customer_id", "expires_at")),
)

activations = Table(
    "activations",
    metadata,
    Column("license_id", Id, ForeignKey("licenses.id"), nullable=False),
    Column("token", String(40), nullable=False),
    Column("id", BigInteger, nullable=False),
    Column("label", String(255)),
    Column("source", SmallInteger, nullable=False),
    Column("ip_address", String(45), nullable=False),
    Column("user_agent", String(512), nullable=False),
    Column("meta_data", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger),
    Column("deactivated_at", BigInteger),
    PrimaryKeyConstraint("license_id", "token"),
    # The oldest of those that were given up go first. Activating writes nothing here.
    Index(
        "ix_activations_deactivated",
        "license_id",
        "deactivated_at",
        "id",
        sqlite_where=text("deactivated_at IS NOT NULL"),
        postgresql_where=text("deactivated_at IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

#: Activations that are gone, and can perhaps still be found by their search terms.
pruned_activations = Table(
    "pruned_activations",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("activation_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id", "activation_id"),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("occurred_at", BigInteger, nullable=False),
    Column("name", String(40), nullable=False),
    # No foreign key: what happened stays known after the license is deleted. 0: not about a license.
    Column("license_id", BigInteger, nullable=False),
    Column("activation_id", BigInteger),
    Column("actor", String(80), nullable=False),
    Column("ip_address", String(45), nullable=False),
    Column("details", Text),
    Index(None, "license_id"),
    sqlite_autoincrement=True,
)

idempotency_records = Table(
    "idempotency_records",
    metadata,
    Column("scope", LargeBinary(32), nullable=False, info=PLAIN_HASH),
    Column("request_digest", LargeBinary(32), nullable=False, info=PLAIN_HASH),
    Column("status", SmallInteger, nullable=False),
    Column("sealed_body", LargeBinary, nullable=False, info=SEALED),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope"),
    Index(None, "created_at"),
    sqlite_with_rowid=False,
)

generators = Table(
    "generators",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("name", String(255), nullable=False),
    Column("charset", String(255), nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("chunk_length", BigInteger, nullable=False),
    Column("times_activated_max", BigInteger),
    Column("separator", String(255)),
    Column("prefix", String(255)),
    Column("suffix", String(255)),
    Column("expires_in_days", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", BigInteger),
    sqlite_autoincrement=True,
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False),
    Column("permissions", String(10), nullable=False),
    Column("product_id", BigInteger),
    Column("key_hash", String(64), nullable=False, unique=True),
    Column("secret_hash", LargeBinary(32), nullable=False, info=PLAIN_HASH),
    Column("key_suffix", String(7), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),
    sqlite_autoincrement=True,
)

users = Table(
    "users",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("role", String(20), nullable=False),
    Column("password_hash", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("disabled_at", BigInteger),
    Column("last_signed_in_at", BigInteger),
    sqlite_autoincrement=True,
)

#: Who is signed in to the pages; the browser has the token, here is its SHA-256.
sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", LargeBinary(32), nullable=False, info=PLAIN_HASH),
    Column("user_id", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("ip_address", String(45), nullable=False),
    Column("user_agent", String(512), nullable=False),
    PrimaryKeyConstraint("token_hash"),
    Index(None, "user_id"),
    sqlite_with_rowid=False,
)

#: What users have beside their passwords: a secret that their app knows, too, sealed for them.
second_factors = Table(
    "second_factors",
    metadata,
    Column("user_id", BigInteger, autoincrement=False, nullable=False),
    Column("sealed_secret", LargeBinary, nullable=False, info=SEALED),
    Column("enabled_at", BigInteger, nullable=False),
    # The time step of the last code that was taken: none is good twice.
    Column("last_step", BigInteger, nullable=False),
    # How many codes were wrong since the last right one.
    Column("failed_attempts", BigInteger, nullable=False),
    PrimaryKeyConstraint("user_id"),
    sqlite_with_rowid=False,
)

#: What helps a user without their app, once each; here is the SHA-256.
recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("user_id", BigInteger, nullable=False),
    Column("code_hash", LargeBinary(32), nullable=False, info=PLAIN_HASH),
    PrimaryKeyConstraint("user_id", "code_hash"),
    sqlite_with_rowid=False,
)

#: What a vendor calls its products and customers; kind is ``product`` or ``customer``.
catalog_names = Table(
    "catalog_names",
    metadata,
    Column("kind", String(10), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("name", String(200), nullable=False),
    PrimaryKeyConstraint("kind", "number"),
    sqlite_with_rowid=False,
)

# What follows the events, some seconds behind them, so that activating need not pay for it.

#: Under which terms a license is found: ``t`` and a token, ``l`` and a label in lower case, ``i`` and an IP
#: address, with the activation's number; and ``full`` and ``unused`` with 0. Compared byte by byte.
search_terms = Table(
    "search_terms",
    metadata,
    Column("term", String(300).with_variant(String(300, collation="C"), "postgresql"), nullable=False),
    Column("license_id", BigInteger, nullable=False),
    Column("activation_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("term", "license_id", "activation_id"),
    Index(None, "license_id", "activation_id"),
    sqlite_with_rowid=False,
)

#: How often something happened on a day (counted from 1970-01-01 UTC).
daily_counts = Table(
    "daily_counts",
    metadata,
    Column("day", Integer, nullable=False),
    Column("name", String(40), nullable=False),
    Column("amount", BigInteger, nullable=False),
    PrimaryKeyConstraint("day", "name"),
    sqlite_with_rowid=False,
)

#: Licenses that had no place for somebody who asked.
limit_refusals = Table(
    "limit_refusals",
    metadata,
    Column("license_id", BigInteger, autoincrement=False, nullable=False),
    Column("refusals", BigInteger, nullable=False),
    Column("last_refused_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id"),
    Index(None, "last_refused_at"),
    sqlite_with_rowid=False,
)

#: How far somebody who reads a table piece by piece has come.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("name", String(40), nullable=False),
    Column("last_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("name"),
)

#: Long work, done in steps.
jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("kind", String(30), nullable=False),
    Column("state", String(10), nullable=False),
    Column("parameters", Text, nullable=False),
    Column("total", BigInteger),
    Column("done", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("messages", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    # Which server process works on it, until when.
    Column("claimed_by", String(40)),
    Column("claimed_until", BigInteger),
    # Holds the unfinished ones only: every server process looks for work every second.
    Index(
        "ix_jobs_unfinished",
        "id",
        sqlite_where=text("finished_at IS NULL"),
        postgresql_where=text("finished_at IS NULL"),
    ),
    sqlite_autoincrement=True,
)

#: What a job has made, to be fetched; sealed, for there are license keys in it.
job_file_chunks = Table(
    "job_file_chunks",
    metadata,
    Column("job_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("sealed_content", LargeBinary, nullable=False, info=SEALED),
    PrimaryKeyConstraint("job_id", "number"),
)

#: The last number given out per kind, so that no number is ever given out twice.
sequences = Table(
    "sequences",
    metadata,
    Column("name", String(40), nullable=False),
    Column("last_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("name"),
)

#: One row: which secret the sealed keys were written with, and who may use the database.
installation = Table(
    "installation",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("secret_id", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # The oldest schema revision whose code works with this database; None: only the newest.
    Column("oldest_compatible_revision", String(32)),
    # While the secret is rotated: the secret that some rows are still sealed with.
    Column("previous_secret_id", String(16)),
)

# Where PostgreSQL takes numbers from; SQLite, which has one writer, has the table above.
license_id_seq = Sequence("license_id_seq", metadata=metadata)
activation_id_seq = Sequence("activation_id_seq", metadata=metadata)
