"""Numbers that many may ask for at once, where there can be many; and which code may use the database."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("installation", sa.Column("oldest_code", sa.String(32)))
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.CreateSequence(sa.Sequence("license_numbers")))
        op.execute(sa.schema.CreateSequence(sa.Sequence("activation_numbers")))
