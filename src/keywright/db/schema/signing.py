"""The table of signing keys."""

from sqlalchemy import BigInteger, Column, LargeBinary, PrimaryKeyConstraint, String, Table

from keywright.db.schema.base import metadata

#: The keys that sign answers, each with the number of the one before plus 1: two servers cannot both add the
#: next one. No row is deleted: the first one names the installation.
signing_keys = Table(
    "signing_keys",
    metadata,
    Column("id", BigInteger, autoincrement=False, nullable=False),
    Column("kid", String(43), nullable=False),
    Column("public_key", String(43), nullable=False),
    # Empty once the key was withdrawn.
    Column("sealed_private_key", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Nothing that it signed is good at or after this moment.
    Column("signed_until", BigInteger, nullable=False),
    Column("withdrawn_at", BigInteger),
    PrimaryKeyConstraint("id"),
    sqlite_with_rowid=False,
)
