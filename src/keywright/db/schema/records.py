"""The tables of events, their projections, jobs, signing keys and the installation."""

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, LargeBinary, PrimaryKeyConstraint, String, Table

from keywright.db.schema.base import Id, metadata, partial_index

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("occurred_at", sa.BigInteger, nullable=False),
    sa.Column("name", sa.String(40), nullable=False),
    # No foreign key: events outlive their license. 0 if it is not about a license.
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("activation_id", sa.BigInteger),
    sa.Column("actor", sa.String(80), nullable=False),
    sa.Column("ip_address", sa.String(45), nullable=False),
    sa.Column("details", sa.Text),
    # The customer that the event itself is about, rather than its license.
    sa.Column("customer_id", sa.BigInteger),
    sa.Index(None, "license_id"),
    # Events of activations are not in this index, so they do not pay for it.
    partial_index("ix_events_customer_id", "customer_id", "id", where="customer_id IS NOT NULL"),
    sqlite_autoincrement=True,
)

idempotency_records = sa.Table(
    "idempotency_records",
    metadata,
    sa.Column("scope", sa.LargeBinary(32), nullable=False),
    sa.Column("request_digest", sa.LargeBinary(32), nullable=False),
    sa.Column("status", sa.SmallInteger, nullable=False),
    sa.Column("sealed_body", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    #: A hash of the license key if the caller has no other credentials, to limit what is stored for it; 0 for
    #: other callers.
    sa.Column("owner", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.PrimaryKeyConstraint("scope"),
    sa.Index(None, "created_at"),
    partial_index("ix_idempotency_records_owner", "owner", "created_at", where="owner <> 0"),
    sqlite_with_rowid=False,
)

# Projections of the events, updated some seconds later, so that activations do not have to write them.

#: The terms by which a license is found: ``t`` and a token, ``l`` and a label in lower case, ``i`` and an IP
#: address, ``d`` and a device's fingerprint, each with the activation's ID; ``full`` and ``unused``, with 0.
#: Compared byte by byte.
search_terms = sa.Table(
    "search_terms",
    metadata,
    sa.Column(
        "term", sa.String(300).with_variant(sa.String(300, collation="C"), "postgresql"), nullable=False
    ),
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("activation_id", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("term", "license_id", "activation_id"),
    sa.Index(None, "license_id", "activation_id"),
    sqlite_with_rowid=False,
)

#: The number of events with a name on a day (days since 1970-01-01 UTC).
daily_counts = sa.Table(
    "daily_counts",
    metadata,
    sa.Column("day", sa.Integer, nullable=False),
    sa.Column("name", sa.String(40), nullable=False),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("day", "name"),
    sqlite_with_rowid=False,
)

#: The number of events of a product's licenses, by name and day; validations and refusals since this table
#: exists.
daily_product_counts = sa.Table(
    "daily_product_counts",
    metadata,
    sa.Column("product_id", sa.BigInteger, nullable=False),
    sa.Column("day", sa.Integer, nullable=False),
    sa.Column("name", sa.String(40), nullable=False),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("product_id", "day", "name"),
    sqlite_with_rowid=False,
)

#: The figures of the reports. ``kind`` is ``month`` (of product ``subject_id``, or 0 for all licenses; the
#: day is the first of the month), ``version`` (the active devices of the product on the day; the name is the
#: version, the platform and within how many days they were seen, separated by tabs), ``norm`` (what the
#: licenses of policy ``subject_id`` have, 0 for no policy) or ``license`` (the unusual numbers of license
#: ``subject_id``).
report_counts = sa.Table(
    "report_counts",
    metadata,
    sa.Column("kind", sa.String(10), nullable=False),
    sa.Column("subject_id", sa.BigInteger, nullable=False),
    sa.Column("day", sa.Integer, nullable=False),
    sa.Column("name", sa.String(140), nullable=False),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("kind", "subject_id", "day", "name"),
    sqlite_with_rowid=False,
)

#: The events that make up the monthly figures: the ``name`` of a figure of product ``subject_id``, 0 for all
#: licenses, in the month that begins on ``day``; and as ``lapsed``, the expiries that were not renewed.
report_events = sa.Table(
    "report_events",
    metadata,
    sa.Column("name", sa.String(10), nullable=False),
    sa.Column("subject_id", sa.BigInteger, nullable=False),
    sa.Column("day", sa.Integer, nullable=False),
    sa.Column("event_id", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("name", "subject_id", "day", "event_id"),
    sqlite_with_rowid=False,
)

#: Activations refused because the license had no free place.
limit_refusals = sa.Table(
    "limit_refusals",
    metadata,
    sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
    sa.Column("refusals", sa.BigInteger, nullable=False),
    sa.Column("last_refused_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("license_id"),
    sa.Index(None, "last_refused_at"),
    sqlite_with_rowid=False,
)

#: The last row of a table that a process has read, by the name of the process.
checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("name", sa.String(40), nullable=False),
    sa.Column("last_id", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("name"),
)

#: Jobs: long work, done in steps.
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("kind", sa.String(30), nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("parameters", sa.Text, nullable=False),
    sa.Column("total", sa.BigInteger),
    sa.Column("done", sa.BigInteger, nullable=False),
    sa.Column("refused", sa.BigInteger, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("messages", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("created_by", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("finished_at", sa.BigInteger),
    # The server process that runs it, and the end of its claim.
    sa.Column("claimed_by", sa.String(40)),
    sa.Column("claimed_until", sa.BigInteger),
    # Only unfinished jobs: every server process looks for work every second.
    partial_index("ix_jobs_unfinished", "id", where="finished_at IS NULL"),
    sqlite_autoincrement=True,
)

#: The licenses that a job made or changed. ``changes`` is a JSON array of its changes to each, the last one
#: first, so that they can be undone.
job_licenses = sa.Table(
    "job_licenses",
    metadata,
    sa.Column("job_id", sa.BigInteger, nullable=False),
    sa.Column("license_id", sa.BigInteger, nullable=False),
    sa.Column("changes", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("job_id", "license_id"),
    sqlite_with_rowid=False,
)

#: The file that a job made, in chunks; sealed, because it contains license keys.
job_file_chunks = sa.Table(
    "job_file_chunks",
    metadata,
    sa.Column("job_id", sa.BigInteger, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("sealed_content", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("job_id", "number"),
)

#: The last ID of licenses, activations, products and customers, for SQLite: no ID is used twice.
sequences = sa.Table(
    "sequences",
    metadata,
    sa.Column("name", sa.String(40), nullable=False),
    sa.Column("last_id", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("name"),
)

#: A single row about the database.
installation = sa.Table(
    "installation",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("secret_id", sa.String(16), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    # The oldest revision whose code works with this database; NULL: only the newest.
    sa.Column("oldest_compatible_revision", sa.String(32)),
    # During a rotation of the secret: the secret with which some rows are still sealed.
    sa.Column("previous_secret_id", sa.String(16)),
)

#: Settings that administrators changed in the pages. The environment and files take precedence.
stored_settings = sa.Table(
    "stored_settings",
    metadata,
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("sealed_value", sa.LargeBinary, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("name"),
    sqlite_with_rowid=False,
)

#: The first ID of products and customers without an ID from the vendor's shop.
FIRST_OWN_ID = 1_000_000_000

# The sequences for PostgreSQL, which has concurrent writers.
license_id_seq = sa.Sequence("license_id_seq", metadata=metadata)
activation_id_seq = sa.Sequence("activation_id_seq", metadata=metadata)
product_id_seq = sa.Sequence("product_id_seq", start=FIRST_OWN_ID, metadata=metadata)
customer_id_seq = sa.Sequence("customer_id_seq", start=FIRST_OWN_ID, metadata=metadata)
#: The kinds of IDs that a sequence provides.
ID_KINDS = ("license", "activation", "product", "customer")


#: The keys that sign answers. IDs are consecutive, so that two servers cannot both add the next key. No row
#: is deleted: the first key identifies the installation.
signing_keys = Table(
    "signing_keys",
    metadata,
    Column("id", BigInteger, autoincrement=False, nullable=False),
    Column("kid", String(43), nullable=False),
    Column("public_key", String(43), nullable=False),
    # Empty once the key is withdrawn.
    Column("sealed_private_key", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Nothing that the key signed is valid at or after this moment.
    Column("signed_until", BigInteger, nullable=False),
    Column("withdrawn_at", BigInteger),
    PrimaryKeyConstraint("id"),
    sqlite_with_rowid=False,
)
