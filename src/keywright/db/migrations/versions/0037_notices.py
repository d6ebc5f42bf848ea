"""Notices to users of certain versions, and who was notified."""

import sqlalchemy as sa
from alembic import op

from keywright.db.schema.base import Id

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("product_id", sa.BigInteger, nullable=False),
        sa.Column("affected", sa.String(200), nullable=False),
        sa.Column("severity", sa.String(10), nullable=False),
        sa.Column("is_security", sa.SmallInteger, nullable=False),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("text", sa.Text),
        sa.Column("url", sa.String(2000)),
        sa.Column("fixed_in", sa.String(64)),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("published_at", sa.BigInteger),
        sa.Column("metadata", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "notice_recipients",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("notice_id", sa.BigInteger, nullable=False),
        sa.Column("customer_id", sa.BigInteger),
        sa.Column("email", sa.String(320)),
        sa.Column("app_version", sa.String(255), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("error", sa.String(500)),
        sa.PrimaryKeyConstraint("id", name="pk_notice_recipients"),
        sa.UniqueConstraint("notice_id", "customer_id", name="uq_notice_recipients_notice_id"),
        sqlite_autoincrement=True,
    )
    for table, columns in (
        ("notices", ["product_id", "created_at", "id"]),
        ("notices", ["created_at", "id"]),
        ("notice_recipients", ["notice_id", "created_at", "id"]),
        ("notice_recipients", ["created_at", "id"]),
    ):
        op.create_index(f"ix_{table}_{'_'.join(columns)}", table, columns)
    is_known = sa.text("customer_id IS NOT NULL")
    op.create_index(
        "ix_notice_recipients_customer_id",
        "notice_recipients",
        ["customer_id"],
        sqlite_where=is_known,
        postgresql_where=is_known,
    )
