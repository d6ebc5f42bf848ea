"""The answers stored for repeated calls are limited per license."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    table, is_owned = "idempotency_records", sa.text("owner <> 0")
    op.add_column(table, sa.Column("owner", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.create_index(
        f"ix_{table}_owner",
        table,
        ["owner", "created_at"],
        sqlite_where=is_owned,
        postgresql_where=is_owned,
    )
