"""Convert a database of the last version before the first release: rename tables and columns.

Delete this module, and schema-0007.sql of its test, when no such database is left.
"""

from sqlalchemy import Connection

from keywright.core.errors import StoreError
from keywright.db.bulk import is_postgres

#: The revision that can be converted, and the one that it becomes.
REVISION = "0007"
_BECOMES = "0008"

_TABLES = {
    "kept_answers": "idempotency_records",
    "names": "catalog_names",
    "marks": "search_terms",
    "positions": "checkpoints",
    "job_pieces": "job_file_chunks",
}
_COLUMNS = (
    ("idempotency_records", "kept_at", "created_at"),
    ("licenses", "fingerprint", "key_hmac"),
    ("licenses", "user_id", "customer_id"),
    ("licenses", "deactivated_records", "deactivated_count"),
    ("events", "at", "occurred_at"),
    ("api_keys", "hint", "key_suffix"),
    ("users", "signed_in_at", "last_signed_in_at"),
    ("sessions", "seen_at", "last_seen_at"),
    ("second_factors", "failures", "failed_attempts"),
    ("limit_refusals", "times", "refusals"),
    ("limit_refusals", "last_at", "last_refused_at"),
    ("jobs", "said", "messages"),
    ("job_file_chunks", "sealed", "sealed_content"),
    ("installation", "secret_mark", "secret_id"),
    ("installation", "oldest_code", "oldest_compatible_revision"),
    ("installation", "previous_secret_mark", "previous_secret_id"),
)
#: Indexes that are dropped, and those that replace them.
_OLD_INDEXES = (
    "ix_limit_refusals_last_at",
    "ix_licenses_user_id",
    "ix_kept_answers_kept_at",
    "ix_marks_license_id_activation_id",
)
_NEW_INDEXES = (
    "ix_limit_refusals_last_refused_at ON limit_refusals (last_refused_at)",
    "ix_licenses_customer_id ON licenses (customer_id, id) WHERE customer_id IS NOT NULL",
    "ix_idempotency_records_created_at ON idempotency_records (created_at)",
    "ix_search_terms_license_id_activation_id ON search_terms (license_id, activation_id)",
)
#: SQLite has no statements for these, or does not need them.
_POSTGRES = (
    *(f"ALTER INDEX pk_{old} RENAME TO pk_{new}" for old, new in _TABLES.items()),
    "ALTER INDEX uq_licenses_fingerprint RENAME TO uq_licenses_key_hmac",
    "ALTER SEQUENCE license_numbers RENAME TO license_id_seq",
    "ALTER SEQUENCE activation_numbers RENAME TO activation_id_seq",
    "DROP SEQUENCE second_factors_user_id_seq CASCADE",
    "DROP SEQUENCE limit_refusals_license_id_seq CASCADE",
)
_STATEMENTS = (
    *(f"ALTER TABLE {old} RENAME TO {new}" for old, new in _TABLES.items()),
    *(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}" for table, old, new in _COLUMNS),
    "ALTER TABLE licenses ADD COLUMN metadata TEXT",
    *(f"DROP INDEX {name}" for name in _OLD_INDEXES),
    *(f"CREATE INDEX {index}" for index in _NEW_INDEXES),
    "UPDATE catalog_names SET kind = 'customer' WHERE kind = 'user'",
    """UPDATE events SET details = replace(
           replace(details, '"user_id":', '"customer_id":'), '"deactivated_records":', '"deactivated_count":')
       WHERE license_id <> 0 AND details IS NOT NULL""",
    """UPDATE events SET details = replace(details, '"kind":"user"', '"kind":"customer"')
       WHERE name = 'name.saved'""",
    """UPDATE jobs SET parameters = replace(parameters, '"user_id":', '"customer_id":')""",
    f"UPDATE alembic_version SET version_num = '{_BECOMES}'",  # noqa: S608
)


def convert(connection: Connection, revision: str, name: str) -> None:
    """Convert the database, in the connection's transaction. Raises ``StoreError`` for an older revision."""
    if revision != REVISION:
        raise StoreError(
            f"{name} was made by a version before the first release (its schema is {revision!r}). This "
            f"version can convert schema {REVISION!r} only: start the last version before the first release "
            "with this database once, then this one."
        )
    for statement in (*_STATEMENTS, *_POSTGRES) if is_postgres(connection) else _STATEMENTS:
        connection.exec_driver_sql(statement)
