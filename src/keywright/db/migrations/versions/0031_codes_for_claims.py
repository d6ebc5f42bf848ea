"""Codes are mailed to addresses without a customer; mails have a reply address."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.add_column("portal_sign_ins", sa.Column("sealed_email", sa.LargeBinary))
    op.add_column("brand", sa.Column("reply_to", sa.String(320)))
