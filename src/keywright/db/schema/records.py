"""The tables of events, their projections, jobs and the installation."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)

from keywright.db.schema.base import Id, metadata, partial_index

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
    # The customer that the event itself is about, and not a license.
    Column("customer_id", BigInteger),
    Index(None, "license_id"),
    # Activations are not in it, and pay nothing for it.
    partial_index("ix_events_customer_id", "customer_id", "id", where="customer_id IS NOT NULL"),
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
    #: A hash of the license key where the caller has nothing else, to keep only so much of it; 0 for others.
    Column("owner", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("scope"),
    Index(None, "created_at"),
    partial_index("ix_idempotency_records_owner", "owner", "created_at", where="owner <> 0"),
    sqlite_with_rowid=False,
)

# Projections of the events, updated some seconds after them, so that an activation need not write them.

#: The terms by which a license is found: ``t`` and a token, ``l`` and a label in lower case, ``i`` and an IP
#: address, ``d`` and a device's fingerprint, with the activation's ID; ``full`` and ``unused``, with 0.
#: Compared byte by byte.
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

#: The same of the licenses of a product; validations and refusals since this table exists.
daily_product_counts = Table(
    "daily_product_counts",
    metadata,
    Column("product_id", BigInteger, nullable=False),
    Column("day", Integer, nullable=False),
    Column("name", String(40), nullable=False),
    Column("amount", BigInteger, nullable=False),
    PrimaryKeyConstraint("product_id", "day", "name"),
    sqlite_with_rowid=False,
)

#: The figures of the reports. ``kind`` is ``month`` (of product ``subject_id``, 0: of all licenses; the day
#: is the first of the month), ``version`` (the active devices of the product on the day; the name is the
#: version, the platform and within how many days they were seen, separated by tabs), ``norm`` (what the
#: licenses of policy ``subject_id`` have, 0: of none) or ``license`` (what license ``subject_id`` has more).
report_counts = Table(
    "report_counts",
    metadata,
    Column("kind", String(10), nullable=False),
    Column("subject_id", BigInteger, nullable=False),
    Column("day", Integer, nullable=False),
    Column("name", String(140), nullable=False),
    Column("amount", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "subject_id", "day", "name"),
    sqlite_with_rowid=False,
)

#: The events that the figures of months consist of: the ``name`` of a figure of product ``subject_id``, 0 for
#: all licenses, in the month whose first day is ``day``; and, as ``lapsed``, expiries that were not renewed.
report_events = Table(
    "report_events",
    metadata,
    Column("name", String(10), nullable=False),
    Column("subject_id", BigInteger, nullable=False),
    Column("day", Integer, nullable=False),
    Column("event_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("name", "subject_id", "day", "event_id"),
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
    partial_index("ix_jobs_unfinished", "id", where="finished_at IS NULL"),
    sqlite_autoincrement=True,
)

#: The licenses that a job has made or changed. ``changes`` is a JSON array of what it did to each, the last
#: change first, so that it can be undone.
job_licenses = Table(
    "job_licenses",
    metadata,
    Column("job_id", BigInteger, nullable=False),
    Column("license_id", BigInteger, nullable=False),
    Column("changes", Text, nullable=False),
    PrimaryKeyConstraint("job_id", "license_id"),
    sqlite_with_rowid=False,
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

#: The last ID of licenses, activations, products and customers, for SQLite: no ID is used twice.
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

#: Settings that administrators have changed in the pages. The environment and files win.
stored_settings = Table(
    "stored_settings",
    metadata,
    Column("name", String(64), nullable=False),
    Column("sealed_value", LargeBinary, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("name"),
    sqlite_with_rowid=False,
)

#: The first number of a product or a customer that has none from the vendor's shop.
FIRST_OWN_ID = 1_000_000_000

# The same for PostgreSQL, which has concurrent writers.
license_id_seq = Sequence("license_id_seq", metadata=metadata)
activation_id_seq = Sequence("activation_id_seq", metadata=metadata)
product_id_seq = Sequence("product_id_seq", start=FIRST_OWN_ID, metadata=metadata)
customer_id_seq = Sequence("customer_id_seq", start=FIRST_OWN_ID, metadata=metadata)
#: The kinds of IDs that a sequence gives.
ID_KINDS = ("license", "activation", "product", "customer")
