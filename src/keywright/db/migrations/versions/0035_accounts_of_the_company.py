"""The accounts at the company's identity provider with which users sign in."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.add_column("users", sa.Column("issuer", sa.String(500)))
    op.add_column("users", sa.Column("subject", sa.String(255)))
    op.create_index("ix_users_issuer_subject", "users", ["issuer", "subject"], unique=True)
