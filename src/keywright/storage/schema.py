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
)

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

licenses = Table(
    "licenses",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("fingerprint", LargeBinary(32), nullable=False, unique=True),
    Column("sealed_key", LargeBinary, nullable=False),
    Column("order_id", BigInteger),
    Column("product_id", BigInteger),
    Column("user_id", BigInteger),
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
    CheckConstraint("times_activated >= 0 AND times_activated <= places", name="within_places"),
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
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("name", String(40), nullable=False),
    # No foreign key: what happened stays known after the license is deleted.
    Column("license_id", BigInteger, nullable=False),
    Column("activation_id", BigInteger),
    Column("actor", String(80), nullable=False),
    Column("ip_address", String(45), nullable=False),
    Column("details", Text),
    Index(None, "license_id"),
    sqlite_autoincrement=True,
)

kept_answers = Table(
    "kept_answers",
    metadata,
    Column("scope", LargeBinary(32), nullable=False),
    Column("request_digest", LargeBinary(32), nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("sealed_body", LargeBinary, nullable=False),
    Column("kept_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope"),
    Index(None, "kept_at"),
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
    Column("secret_hash", LargeBinary(32), nullable=False),
    Column("hint", String(7), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
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
    sqlite_autoincrement=True,
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
    Column("secret_mark", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # The oldest schema revision whose code works with this database; None: only the newest.
    Column("oldest_code", String(32)),
)

# Where PostgreSQL takes numbers from; SQLite, which has one writer, has the table above.
license_numbers = Sequence("license_numbers", metadata=metadata)
activation_numbers = Sequence("activation_numbers", metadata=metadata)
