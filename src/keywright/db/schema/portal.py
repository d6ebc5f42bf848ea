"""The tables of the customer portal."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, PrimaryKeyConstraint, String, Table, Text

from keywright.db.schema.base import Id, metadata, partial_index

#: Sign-ins requested by e-mail. The code is derived from the ID, which is random. For an unknown address, the
#: customer is the negative number of a group of such addresses.
portal_sign_ins = Table(
    "portal_sign_ins",
    metadata,
    Column("id", BigInteger, autoincrement=False, nullable=False),
    Column("customer_id", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("wrong_codes", BigInteger, nullable=False),
    # For an address without a customer: the address to which a code was mailed.
    Column("sealed_email", LargeBinary),
    PrimaryKeyConstraint("id"),
    Index(None, "customer_id"),
    Index(None, "expires_at"),
    sqlite_with_rowid=False,
)

#: Links that sign a customer in, once. The vendor has the token, the table its SHA-256.
portal_links = Table(
    "portal_links",
    metadata,
    Column("token_hash", LargeBinary(32), nullable=False),
    Column("customer_id", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("token_hash"),
    Index(None, "customer_id"),
    Index(None, "expires_at"),
    sqlite_with_rowid=False,
)

#: Sessions of customers. The browser has the token, the table its SHA-256.
portal_sessions = Table(
    "portal_sessions",
    metadata,
    Column("token_hash", LargeBinary(32), nullable=False),
    Column("customer_id", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("token_hash"),
    Index(None, "customer_id"),
    Index(None, "expires_at"),
    sqlite_with_rowid=False,
)

#: Devices that customers removed, for as many days as the terms count. The names in the database are those of
#: the first schema.
portal_removals = Table(
    "portal_releases",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("released_at", BigInteger, nullable=False),
    Column("activation_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id", "released_at", "activation_id"),
    sqlite_with_rowid=False,
)

#: The last claim of each license: the customer who claimed it with its key. It holds while that is the
#: customer.
license_claims = Table(
    "license_claims",
    metadata,
    Column("license_id", BigInteger, autoincrement=False, nullable=False),
    Column("customer_id", BigInteger, nullable=False),
    Column("claimed_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id"),
    sqlite_with_rowid=False,
)

#: Offers of licenses to another customer, and completed transfers. An offer that was not accepted is deleted
#: after it has expired.
license_transfers = Table(
    "license_transfers",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("license_id", BigInteger, nullable=False),
    Column("from_customer_id", BigInteger, nullable=False),
    Column("to_customer_id", BigInteger, nullable=False),
    Column("offered_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("accepted_at", BigInteger),
    # When the offer was canceled or declined.
    Column("ended_at", BigInteger),
    Column("undone_at", BigInteger),
    Index(None, "license_id"),
    Index(None, "from_customer_id", "offered_at"),
    Index(None, "to_customer_id"),
    partial_index("ix_license_transfers_expires_at", "expires_at", where="accepted_at IS NULL"),
    sqlite_autoincrement=True,
)

#: The look of the portal and of mails: one row, with ID 1. ``links`` is a JSON array of texts and URLs.
brand = Table(
    "brand",
    metadata,
    Column("id", BigInteger, autoincrement=False, nullable=False),
    Column("name", String(200)),
    Column("color", String(7)),
    Column("logo", Text),
    Column("logo_type", String(40)),
    Column("links", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("reply_to", String(320)),
    PrimaryKeyConstraint("id"),
    sqlite_with_rowid=False,
)
