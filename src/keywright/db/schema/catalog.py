"""The tables of policies, products, customers and trials."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, PrimaryKeyConstraint, String, Table, Text, text

from keywright.db.schema.base import Id, metadata, partial_index


def _external_id_index(table: str) -> Index:
    """Return an index by which the ID in another system is unique."""
    where = "external_id IS NOT NULL"
    return partial_index(f"ix_{table}_external_id", "external_id", where=where, is_unique=True)


#: The trials of devices: one per product, ever.
trials = Table(
    "trials",
    metadata,
    Column("product_id", BigInteger, nullable=False),
    Column("fingerprint_hmac", LargeBinary(32), nullable=False),
    Column("sealed_fingerprint", LargeBinary, nullable=False),
    Column("license_id", BigInteger, nullable=False),
    Column("email", String(320)),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("product_id", "fingerprint_hmac"),
    Index(None, "license_id"),
    partial_index("ix_trials_email", "email", where="email IS NOT NULL"),
    sqlite_with_rowid=False,
)

policies = Table(
    "policies",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("name", String(255), nullable=False),
    Column("charset", String(255), nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("chunk_length", BigInteger, nullable=False),
    Column("separator", String(255)),
    Column("prefix", String(255)),
    Column("suffix", String(255)),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", BigInteger),
    Column("product_id", BigInteger),
    # A JSON object: the terms that are not the default.
    Column("terms", Text, nullable=False, server_default=text("'{}'")),
    Column("archived_at", BigInteger),
    Index(None, "product_id", "created_at", "id"),
    partial_index("ix_policies_archived", "created_at", "id", where="archived_at IS NOT NULL"),
    partial_index("ix_policies_in_use", "created_at", "id", where="archived_at IS NULL"),
    Index(None, "created_at", "id"),
    sqlite_autoincrement=True,
)

#: A vendor's products. IDs that only licenses contain need no row here.
products = Table(
    "products",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("code", String(64), unique=True),
    Column("name", String(200), nullable=False),
    Column("url", String(2000)),
    Column("features", Text, nullable=False, server_default=text("'[]'")),
    Column("metadata", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    # The ID in another system of the vendor.
    Column("external_id", String(255)),
    # Where customers renew; the text {license_ref} is replaced by the license's ref.
    Column("renew_url", String(2000)),
    # Who gets updates; JSON arrays of channels and of keys that verify files; the order of versions.
    Column("updates", String(10), nullable=False, server_default=text("'licensed'")),
    Column("channels", Text, nullable=False, server_default=text("'[]'")),
    Column("public_keys", Text, nullable=False, server_default=text("'[]'")),
    Column("version_scheme", String(10), nullable=False, server_default=text("'loose'")),
    # Incremented by every change of the releases on offer or of the notices; NULL until one is published.
    Column("releases_changed", BigInteger),
    Index(None, "name"),
    Index(None, "created_at", "id"),
    _external_id_index("products"),
)

#: Customers. IDs that only licenses contain need no row here. Addresses are looked up in lower case.
customers = Table(
    "customers",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("email", String(320)),
    Column("email_folded", String(320), unique=True),
    Column("email_verified_at", BigInteger),
    Column("name", String(200)),
    Column("metadata", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    # When the customer unsubscribed from reminders.
    Column("unsubscribed_at", BigInteger),
    # The language of mails and of the portal; NULL if unknown.
    Column("language", String(35)),
    Column("erasure_requested_at", BigInteger),
    Column("external_id", String(255)),
    _external_id_index("customers"),
    Index(None, "updated_at", "id"),
    partial_index("ix_customers_to_erase", "erasure_requested_at", where="erasure_requested_at IS NOT NULL"),
    # Lists of customers with one name, and of all, are ordered by creation.
    Index(None, "name", "created_at", "id"),
    Index(None, "created_at", "id"),
)

#: The terms by which customers and products are found (``core.words``): ``c`` or ``p``, then the term; with
#: the customer's or product's ID. Compared byte by byte. Written together with the row of the customer or
#: product.
name_terms = Table(
    "name_terms",
    metadata,
    Column("term", String(25).with_variant(String(25, collation="C"), "postgresql"), nullable=False),
    Column("number", BigInteger, nullable=False),
    PrimaryKeyConstraint("term", "number"),
    sqlite_with_rowid=False,
)
