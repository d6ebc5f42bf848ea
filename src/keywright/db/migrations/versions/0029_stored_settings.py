"""Settings that administrators change in the pages."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.create_table(
        "stored_settings",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("sealed_value", sa.LargeBinary, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_stored_settings"),
        sqlite_with_rowid=False,
    )
