"""Trials are found by the e-mail address given for them, in any case."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.execute("UPDATE trials SET email = lower(email) WHERE email IS NOT NULL")
    has_one = sa.text("email IS NOT NULL")
    op.create_index("ix_trials_email", "trials", ["email"], sqlite_where=has_one, postgresql_where=has_one)
