"""The tables of users and API keys."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, PrimaryKeyConstraint, String, Table, text

from keywright.db.schema.base import Id, metadata

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
    Column("expires_at", BigInteger),
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
    Column("language", String(35)),
    Column("email", String(320)),
    # The account at the company's identity provider with which the user signs in.
    Column("issuer", String(500)),
    Column("subject", String(255)),
    Index(None, "issuer", "subject", unique=True),
    sqlite_autoincrement=True,
)

#: Filters of lists that users saved under a name.
saved_views = Table(
    "saved_views",
    metadata,
    Column("user_id", BigInteger, nullable=False),
    Column("name", String(200), nullable=False),
    Column("query", String(2000), nullable=False),
    PrimaryKeyConstraint("user_id", "name"),
    sqlite_with_rowid=False,
)

#: Links with which users set a password, once; the table has the SHA-256 of their tokens.
invitations = Table(
    "invitations",
    metadata,
    Column("user_id", BigInteger, autoincrement=False, nullable=False),
    Column("token_hash", LargeBinary(32), nullable=False, unique=True),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("user_id"),
    sqlite_with_rowid=False,
)

#: Sessions of the administration pages. The browser has the token, the table its SHA-256.
sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", LargeBinary(32), nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("ip_address", String(45), nullable=False),
    Column("user_agent", String(512), nullable=False),
    Column("ends_at", BigInteger, nullable=False, server_default=text("0")),
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
    # The time step of the last accepted code: no code is accepted twice.
    Column("last_step", BigInteger, nullable=False),
    # The number of wrong codes since the last correct one.
    Column("failed_attempts", BigInteger, nullable=False),
    PrimaryKeyConstraint("user_id"),
    sqlite_with_rowid=False,
)

#: The SHA-256 of codes that replace the app's codes, each once.
recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("user_id", BigInteger, nullable=False),
    Column("code_hash", LargeBinary(32), nullable=False),
    PrimaryKeyConstraint("user_id", "code_hash"),
    sqlite_with_rowid=False,
)
