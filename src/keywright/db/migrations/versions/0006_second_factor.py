"""Second factors of users: the secrets of their apps, and recovery codes."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "second_factors",
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
        sa.Column("enabled_at", sa.BigInteger, nullable=False),
        sa.Column("last_step", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_second_factors"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "recovery_codes",
        sa.Column("user_id", sa.BigInteger, nullable=False),
        sa.Column("code_hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "code_hash", name="pk_recovery_codes"),
        sqlite_with_rowid=False,
    )
