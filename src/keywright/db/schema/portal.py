"""The tables of the customer's portal."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, PrimaryKeyConstraint, String, Table, Text

from keywright.db.schema.base import Id, metadata, partial_index

#: Sign-ins that were asked for by e-mail. The code is derived from the ID, which is random. Those for unknown
#: addresses have the negative number of a group of such addresses.
portal_sign_ins = Table(
    "portal_sign_ins",
    metadata,
    Column("id", BigInteger, autoincrement=False, nullable=False),
    Column("customer_id", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("wrong_codes", BigInteger, nullable=False),
    # Of one for an address without a customer: where a code was mailed to.
    Column("sealed_email", LargeBinary),
    PrimaryKeyConstraint("id"),
    Index(None, "customer_id"),
    Index(None, "expires_at"),
    sqlite_with_rowid=False,
)

#: Links that sign a customer in, once. The vendor has the token, this table its SHA-256.
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

#: Sessions of customers. The browser has the token, this table its SHA-256.
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

#: Removals: devices that customers have freed, for as many days as the terms count. The database keeps the
#: names of the first schema.
portal_removals = Table(
    "portal_releases",
    metadata,
    Column("license_id", BigInteger, nullable=False),
    Column("released_at", BigInteger, nullable=False),
    Column("activation_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id", "released_at", "activation_id"),
    sqlite_with_rowid=False,
)

#: The last claim of each license: who became its customer with its key. It holds while they are the customer.
license_claims = Table(
    "license_claims",
    metadata,
    Column("license_id", BigInteger, autoincrement=False, nullable=False),
    Column("customer_id", BigInteger, nullable=False),
    Column("claimed_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("license_id"),
    sqlite_with_rowid=False,
)

#: Licenses that a customer offers to another one, and those that changed hands so. An offer that was not
#: accepted is deleted when it is over.
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
    # Of an offer: when it was canceled or declined.
    Column("ended_at", BigInteger),
    Column("undone_at", BigInteger),
    Index(None, "license_id"),
    Index(None, "from_customer_id", "offered_at"),
    Index(None, "to_customer_id"),
    partial_index("ix_license_transfers_expires_at", "expires_at", where="accepted_at IS NULL"),
    sqlite_autoincrement=True,
)

#: The look of the portal and of mails: one row, with ID 1. ``links`` is a JSON array of texts and addresses.
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
