"""Which secret some rows are still sealed with, while the secret is rotated."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("installation", sa.Column("previous_secret_mark", sa.String(16)))
