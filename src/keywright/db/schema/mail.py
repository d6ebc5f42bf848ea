"""The tables of mail."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from keywright.db.schema.base import Id, metadata, partial_index

#: Mails to send, and those of the last weeks. No address, key or code lies here: a mail is rendered when it
#: is sent, from the IDs in ``subject`` (a JSON object).
mail_outbox = Table(
    "mail_outbox",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("template", String(30), nullable=False),
    # Of all mails with one such text, one is queued.
    Column("unique_text", String(200), nullable=False, unique=True),
    Column("customer_id", BigInteger),
    Column("user_id", BigInteger),
    Column("product_id", BigInteger),
    Column("language", String(35)),
    Column("subject", Text, nullable=False),
    # The first part of its Message-ID, the same in every attempt.
    Column("message_id", String(40), nullable=False),
    Column("state", String(10), nullable=False),
    Column("attempts", BigInteger, nullable=False),
    # The attempts whose outcome is not known.
    Column("unanswered", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # NULL once it waits no more.
    Column("next_attempt_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("error", String(500)),
    # The server process that sends it now, and until when.
    Column("claimed_by", String(40)),
    Column("claimed_until", BigInteger),
    partial_index("ix_mail_outbox_due", "next_attempt_at", "id", where="next_attempt_at IS NOT NULL"),
    partial_index("ix_mail_outbox_claimed", "id", where="claimed_by IS NOT NULL"),
    partial_index("ix_mail_outbox_customer_id", "customer_id", "id", where="customer_id IS NOT NULL"),
    Index(None, "state", "id"),
    Index(None, "finished_at"),
    sqlite_autoincrement=True,
)

#: The vendor's own templates, instead of the built-in ones. Product 0: every product that has none.
mail_templates = Table(
    "mail_templates",
    metadata,
    Column("name", String(30), nullable=False),
    Column("product_id", BigInteger, autoincrement=False, nullable=False),
    Column("language", String(35), nullable=False),
    Column("subject", String(500), nullable=False),
    Column("text", Text, nullable=False),
    # Empty: it is made from the text.
    Column("html", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", BigInteger),
    PrimaryKeyConstraint("name", "product_id", "language"),
    sqlite_with_rowid=False,
)
