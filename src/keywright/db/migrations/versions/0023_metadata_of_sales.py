"""The names of a sale's metadata that a connection stores."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.add_column("connections", sa.Column("external_id_name", sa.String(64)))
    op.add_column("connections", sa.Column("metadata_names", sa.Text, nullable=False, server_default="[]"))
