"""Tables for mail: the outbox of mails, and templates; and the customers that events are about."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    _create_outbox()
    _create_templates()
    op.add_column("users", sa.Column("email", sa.String(320)))
    op.add_column("customers", sa.Column("unsubscribed_at", sa.BigInteger))
    _name_customers_of_events()


def _create_outbox() -> None:
    identifier = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "mail_outbox",
        sa.Column("id", identifier, autoincrement=True, nullable=False),
        sa.Column("template", sa.String(30), nullable=False),
        sa.Column("unique_text", sa.String(200), nullable=False),
        sa.Column("customer_id", sa.BigInteger),
        sa.Column("user_id", sa.BigInteger),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("language", sa.String(35)),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("message_id", sa.String(40), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("unanswered", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("error", sa.String(500)),
        sa.Column("claimed_by", sa.String(40)),
        sa.Column("claimed_until", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_mail_outbox"),
        sa.UniqueConstraint("unique_text", name="uq_mail_outbox_unique_text"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_mail_outbox_state_id", "mail_outbox", ["state", "id"])
    op.create_index("ix_mail_outbox_finished_at", "mail_outbox", ["finished_at"])
    for name, columns, where in (
        ("due", ["next_attempt_at", "id"], "next_attempt_at IS NOT NULL"),
        ("claimed", ["id"], "claimed_by IS NOT NULL"),
        ("customer_id", ["customer_id", "id"], "customer_id IS NOT NULL"),
    ):
        condition = sa.text(where)
        op.create_index(
            f"ix_mail_outbox_{name}",
            "mail_outbox",
            columns,
            sqlite_where=condition,
            postgresql_where=condition,
        )


def _create_templates() -> None:
    op.create_table(
        "mail_templates",
        sa.Column("name", sa.String(30), nullable=False),
        sa.Column("product_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("language", sa.String(35), nullable=False),
        sa.Column("subject", sa.String(500), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("html", sa.Text, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.BigInteger),
        sa.PrimaryKeyConstraint("name", "product_id", "language", name="pk_mail_templates"),
        sqlite_with_rowid=False,
    )


def _name_customers_of_events() -> None:
    """As ``events.store.customer_of`` does, for the events there are."""
    op.add_column("events", sa.Column("customer_id", sa.BigInteger))
    is_of_customer = sa.text("customer_id IS NOT NULL")
    op.create_index(
        "ix_events_customer_id",
        "events",
        ["customer_id", "id"],
        sqlite_where=is_of_customer,
        postgresql_where=is_of_customer,
    )
    query = sa.text(
        "SELECT id, name, details FROM events WHERE license_id = 0 AND details IS NOT NULL"
        " AND (name = 'name.saved' OR name LIKE 'customer.%')"
    )
    change = sa.text("UPDATE events SET customer_id = :number WHERE id = :id")
    for row in op.get_bind().execute(query).all():
        details = json.loads(row.details)
        if row.name != "name.saved" or details.get("kind") == "customer":
            op.get_bind().execute(change, {"id": row.id, "number": details.get("number")})
