"""Keys that sign answers. The first one is made when a server first needs it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "signing_keys",
        sa.Column("id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("kid", sa.String(43), nullable=False),
        sa.Column("public_key", sa.String(43), nullable=False),
        sa.Column("sealed_private_key", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("signed_until", sa.BigInteger, nullable=False),
        sa.Column("withdrawn_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_signing_keys"),
        sqlite_with_rowid=False,
    )
