"""The moment until which a device may run without the server."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.add_column("activations", sa.Column("offline_until", sa.BigInteger))
