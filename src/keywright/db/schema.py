"""The tables. On the path of an activation, every primary key begins with the license; there are no triggers.

Times are whole seconds since 1970-01-01 UTC, in 64-bit integers: the same on every database, and compared
without conversion. ``sealed_columns`` says what columns of bytes hold.
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

#: On SQLite, only a column declared INTEGER is the rowid.
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


def _partial_index(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


licenses = Table(
    "licenses",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("key_hmac", LargeBinary(32), nullable=False, unique=True),
    Column("sealed_key", LargeBinary, nullable=False),
    Column("order_id", BigInteger),
    Column("product_id", BigInteger),
    Column("customer_id", BigInteger),
    Column("expires_at", BigInteger),
    Column("valid_for_days", BigInteger),
    Column("source", SmallInteger, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("times_activated", BigInteger, nullable=False),
    Column("times_activated_max", BigInteger),
    # The upper bound of times_activated: the limit, or the number of places taken when the limit was lowered
    # below it. Taking a place never writes it, so the CHECK below applies to every such write.
    Column("places", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", BigInteger),
    # The number of its deactivated activations, which bounds what is read and deleted without counting them.
    Column("deactivated_count", BigInteger, nullable=False, server_default=text("0")),
    # A JSON object; its bounds are those of ``parsing.parse_metadata``.
    Column("metadata", Text),
    CheckConstraint("times_activated >= 0 AND times_activated <= places", name="within_places"),
    # For the pages. No index may have a column that an activation writes (times_activated, updated_at): on
    # PostgreSQL, every activation would then write to every index.
    Index("ix_licenses_status", "status", "id"),
    *(
        _partial_index(f"ix_licenses_{name}", name, "id", where=f"{name} IS NOT NULL")
        for name in ("product_id", "order_id", "customer_id", "expires_at")
    ),
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
    # The oldest deactivated activations are deleted first. Activating does not write to this index.
    _partial_index(
        "ix_activations_deactivated", "license_id", "deactivated_at", "id", where="deactivated_at IS NOT NULL"
    ),
    sqlite_with_rowid=False,
)

#: Deleted activations that may still have search terms.
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
    # No foreign key: events outlive their license. 0: not about a license.
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
    Column("scope", LargeBinary(32), nullable=False),
    Column("request_digest", LargeBinary(32), nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("sealed_body", LargeBinary, nullable=False),
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
    Column("secret_hash", LargeBinary(32), nullable=False),
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

#: Sessions of the administration pages. The browser has the token, this table its SHA-256.
sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", LargeBinary(32), nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("ip_address", String(45), nullable=False),
    Column("user_agent", String(512), nullable=False),
    PrimaryKeyConstraint("token_hash"),
    Index(None, "user_id"),
    sqlite_with_rowid=False,
)

#: The second factors of users: the secrets that they share with an authenticator app.
second_factors = Table(
    "second_factors",
    metadata,
    Column("user_id", BigInteger, autoincrement=False, nullable=False),
    Column("sealed_secret", LargeBinary, nullable=False),
    Column("enabled_at", BigInteger, nullable=False),
    # The time step of the last code that was accepted: no code is accepted twice.
    Column("last_step", BigInteger, nullable=False),
    # The number of wrong codes since the last right one.
    Column("failed_attempts", BigInteger, nullable=False),
    PrimaryKeyConstraint("user_id"),
    sqlite_with_rowid=False,
)

#: The SHA-256 of codes that replace the app's, once each.
recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("user_id", BigInteger, nullable=False),
    Column("code_hash", LargeBinary(32), nullable=False),
    PrimaryKeyConstraint("user_id", "code_hash"),
    sqlite_with_rowid=False,
)

#: The names of a vendor's products and customers; kind is ``product`` or ``customer``.
catalog_names = Table(
    "catalog_names",
    metadata,
    Column("kind", String(10), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("name", String(200), nullable=False),
    PrimaryKeyConstraint("kind", "number"),
    sqlite_with_rowid=False,
)

# Projections of the events, updated some seconds after them, so that an activation need not write them.

#: The terms by which a license is found: ``t`` and a token, ``l`` and a label in lower case, ``i`` and an IP
#: address, with the activation's ID; ``full`` and ``unused``, with 0. Compared byte by byte.
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

#: The number of events of a name on a day (counted from 1970-01-01 UTC).
daily_counts = Table(
    "daily_counts",
    metadata,
    Column("day", Integer, nullable=False),
    Column("name", String(40), nullable=False),
    Column("amount", BigInteger, nullable=False),
    PrimaryKeyConstraint("day", "name"),
    sqlite_with_rowid=False,
)

#: Activations refused because the license had no free place.
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

#: The last row of a table that a process has read, by the name of the process.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("name", String(40), nullable=False),
    Column("last_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("name"),
)

#: Jobs: long work, done in steps.
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
    # The server process that works on it, and until when.
    Column("claimed_by", String(40)),
    Column("claimed_until", BigInteger),
    # Only of unfinished jobs: every server process looks for work every second.
    _partial_index("ix_jobs_unfinished", "id", where="finished_at IS NULL"),
    sqlite_autoincrement=True,
)

#: The file that a job has made, in chunks; sealed, because it holds license keys.
job_file_chunks = Table(
    "job_file_chunks",
    metadata,
    Column("job_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("sealed_content", LargeBinary, nullable=False),
    PrimaryKeyConstraint("job_id", "number"),
)

#: The last ID of licenses and activations, for SQLite: no ID is used twice.
sequences = Table(
    "sequences",
    metadata,
    Column("name", String(40), nullable=False),
    Column("last_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("name"),
)

#: One row about the database.
installation = Table(
    "installation",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("secret_id", String(16), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # The oldest revision whose code works with this database; NULL: only the newest.
    Column("oldest_compatible_revision", String(32)),
    # While the secret is rotated: the secret with which some rows are still sealed.
    Column("previous_secret_id", String(16)),
)

# The same for PostgreSQL, which has concurrent writers.
license_id_seq = Sequence("license_id_seq", metadata=metadata)
activation_id_seq = Sequence("activation_id_seq", metadata=metadata)
