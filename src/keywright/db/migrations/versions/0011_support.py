"""Tables for support: refusals, notes and tags, deleted licenses, saved views."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from keywright.core.words import terms_of

revision = "0011"
down_revision = "0010"


_ROWS_AT_ONCE = 1_000


def upgrade() -> None:
    _create_refusals()
    _create_notes()
    _create_product_counts()
    _end_sessions()
    _create_invitations()
    _create_views()
    _create_job_licenses()
    _create_deleted_licenses()
    _add_languages()
    _create_name_terms()


def _end_sessions() -> None:
    """Sessions know their end from now on; users sign in again."""
    op.execute("DELETE FROM sessions")
    op.add_column(
        "sessions", sa.Column("ends_at", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )


def _create_invitations() -> None:
    op.create_table(
        "invitations",
        sa.Column("user_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("token_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_invitations"),
        sa.UniqueConstraint("token_hash", name="uq_invitations_token_hash"),
        sqlite_with_rowid=False,
    )


def _create_notes() -> None:
    op.create_table(
        "license_notes",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_license_notes"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "license_tags",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("tag", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("license_id", "tag", name="pk_license_tags"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_license_tags_tag", "license_tags", ["tag", "license_id"])


def _create_views() -> None:
    op.create_table(
        "saved_views",
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("query", sa.String(2000), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name", name="pk_saved_views"),
        sqlite_with_rowid=False,
    )


def _create_refusals() -> None:
    op.create_table(
        "refusals",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("number", sa.SmallInteger, nullable=False),
        sa.Column("reason", sa.String(40), nullable=False),
        sa.Column("operation", sa.String(20), nullable=False),
        sa.Column("fingerprint", sa.String(256)),
        sa.Column("device_name", sa.String(255)),
        sa.Column("token", sa.String(40)),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("times", sa.BigInteger, nullable=False),
        sa.Column("refused_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "number", name="pk_refusals"),
        sa.CheckConstraint("number >= 0 AND number < 20", name="number"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_refusals_refused_at", "refusals", ["refused_at"])


def _create_job_licenses() -> None:
    op.create_table(
        "job_licenses",
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("changes", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "license_id", name="pk_job_licenses"),
        sqlite_with_rowid=False,
    )


def _create_deleted_licenses() -> None:
    op.create_table(
        "deleted_licenses",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("customer_id", sa.BigInteger),
        sa.Column("sealed_snapshot", sa.LargeBinary, nullable=False),
        sa.Column("deleted_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_deleted_licenses"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_deleted_licenses_deleted_at", "deleted_licenses", ["deleted_at"])
    has_customer = sa.text("customer_id IS NOT NULL")
    op.create_index(
        "ix_deleted_licenses_customer_id",
        "deleted_licenses",
        ["customer_id"],
        sqlite_where=has_customer,
        postgresql_where=has_customer,
    )


def _add_languages() -> None:
    op.add_column("users", sa.Column("language", sa.String(35)))


def _create_name_terms() -> None:
    """About 100 µs for each customer."""
    is_postgres = op.get_bind().dialect.name == "postgresql"
    terms = op.create_table(
        "name_terms",
        sa.Column("term", sa.String(25, collation="C" if is_postgres else None), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("term", "number", name="pk_name_terms"),
        sqlite_with_rowid=False,
    )
    for kind, table, other in (("c", "customers", "email"), ("p", "products", "code")):
        query = f"SELECT id, name, {other} AS other FROM {table} WHERE id > :last ORDER BY id LIMIT :limit"  # noqa: S608
        last = -1
        while rows := _rows_after(query, last):
            new = [(kind + term, row.id) for row in rows for term in sorted(_terms_of_row(kind, row))]
            if new:
                op.bulk_insert(terms, [{"term": term, "number": number} for term, number in new])
            last = rows[-1].id


def _rows_after(query: str, last: int) -> list[Any]:
    found = op.get_bind().execute(sa.text(query), {"last": last, "limit": _ROWS_AT_ONCE})
    return list(found.all())


def _terms_of_row(kind: str, row: Any) -> set[str]:
    return terms_of(row.name, row.other) if kind == "c" else terms_of(f"{row.name} {row.other or ''}")


def _create_product_counts() -> None:
    op.create_table(
        "daily_product_counts",
        sa.Column("product_id", sa.BigInteger, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("product_id", "day", "name", name="pk_daily_product_counts"),
        sqlite_with_rowid=False,
    )
