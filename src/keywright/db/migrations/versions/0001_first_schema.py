"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "licenses",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(32), nullable=False),
        sa.Column("sealed_key", sa.LargeBinary, nullable=False),
        sa.Column("order_id", sa.BigInteger),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("user_id", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("valid_for_days", sa.BigInteger),
        sa.Column("source", sa.SmallInteger, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("times_activated", sa.BigInteger, nullable=False),
        sa.Column("times_activated_max", sa.BigInteger),
        sa.Column("places", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_licenses"),
        sa.UniqueConstraint("fingerprint", name="uq_licenses_fingerprint"),
        sa.CheckConstraint(
            "times_activated >= 0 AND times_activated <= places",
            name=op.f("ck_licenses_within_places"),
        ),
    )
    op.create_table(
        "activations",
        sa.Column("license_id", ID, nullable=False),
        sa.Column("token", sa.String(40), nullable=False),
        sa.Column("id", sa.BigInteger, nullable=False),
        sa.Column("label", sa.String(255)),
        sa.Column("source", sa.SmallInteger, nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("user_agent", sa.String(512), nullable=False),
        sa.Column("meta_data", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger),
        sa.Column("deactivated_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("license_id", "token", name="pk_activations"),
        sa.ForeignKeyConstraint(["license_id"], ["licenses.id"], name="fk_activations_license_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger),
        sa.Column("actor", sa.String(80), nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("details", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_license_id", "events", ["license_id"])
    op.create_table(
        "kept_answers",
        sa.Column("scope", sa.LargeBinary(32), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("sealed_body", sa.LargeBinary, nullable=False),
        sa.Column("kept_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("scope", name="pk_kept_answers"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_kept_answers_kept_at", "kept_answers", ["kept_at"])
    op.create_table(
        "generators",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("charset", sa.String(255), nullable=False),
        sa.Column("chunks", sa.BigInteger, nullable=False),
        sa.Column("chunk_length", sa.BigInteger, nullable=False),
        sa.Column("times_activated_max", sa.BigInteger),
        sa.Column("separator", sa.String(255)),
        sa.Column("prefix", sa.String(255)),
        sa.Column("suffix", sa.String(255)),
        sa.Column("expires_in_days", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_generators"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "api_keys",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("permissions", sa.String(10), nullable=False),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("hint", sa.String(7), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("key_hash", name="uq_api_keys_key_hash"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "users",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("password_hash", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
        sqlite_autoincrement=True,
    )
    sequences = op.create_table(
        "sequences",
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sequences"),
    )
    op.bulk_insert(sequences, [{"name": "license", "last_id": 0}, {"name": "activation", "last_id": 0}])
    op.create_table(
        "installation",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("secret_mark", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
    )
