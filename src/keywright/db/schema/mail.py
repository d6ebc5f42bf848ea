"""The tables of mail."""

import sqlalchemy as sa

from keywright.db.schema.base import Id, metadata, partial_index

#: Mails to send, and those of the last weeks. No address, key or code lies here: a mail is rendered when it
#: is sent, from the IDs in ``subject`` (a JSON object).
mail_outbox = sa.Table(
    "mail_outbox",
    metadata,
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("template", sa.String(30), nullable=False),
    # Of all mails with one such text, one is queued.
    sa.Column("unique_text", sa.String(200), nullable=False, unique=True),
    sa.Column("customer_id", sa.BigInteger),
    sa.Column("user_id", sa.BigInteger),
    sa.Column("product_id", sa.BigInteger),
    sa.Column("language", sa.String(35)),
    sa.Column("subject", sa.Text, nullable=False),
    # The first part of its Message-ID, the same in every attempt.
    sa.Column("message_id", sa.String(40), nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    # The attempts whose outcome is not known.
    sa.Column("unanswered", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    # NULL once it waits no more.
    sa.Column("next_attempt_at", sa.BigInteger),
    sa.Column("finished_at", sa.BigInteger),
    sa.Column("error", sa.String(500)),
    # The server process that sends it now, and until when.
    sa.Column("claimed_by", sa.String(40)),
    sa.Column("claimed_until", sa.BigInteger),
    partial_index("ix_mail_outbox_due", "next_attempt_at", "id", where="next_attempt_at IS NOT NULL"),
    partial_index("ix_mail_outbox_claimed", "id", where="claimed_by IS NOT NULL"),
    partial_index("ix_mail_outbox_customer_id", "customer_id", "id", where="customer_id IS NOT NULL"),
    sa.Index(None, "state", "id"),
    sa.Index(None, "finished_at"),
    sqlite_autoincrement=True,
)

#: The vendor's own templates, instead of the built-in ones. Product 0: every product that has none.
mail_templates = sa.Table(
    "mail_templates",
    metadata,
    sa.Column("name", sa.String(30), nullable=False),
    sa.Column("product_id", sa.BigInteger, autoincrement=False, nullable=False),
    sa.Column("language", sa.String(35), nullable=False),
    sa.Column("subject", sa.String(500), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    # Empty: it is made from the text.
    sa.Column("html", sa.Text, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("updated_by", sa.BigInteger),
    sa.PrimaryKeyConstraint("name", "product_id", "language"),
    sqlite_with_rowid=False,
)
