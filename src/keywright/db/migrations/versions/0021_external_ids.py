"""IDs of other systems; licenses and customers are found by the time of their last change."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    is_there = sa.text("external_id IS NOT NULL")
    for table in ("licenses", "products", "customers"):
        is_license = table == "licenses"
        op.add_column(table, sa.Column("external_id", sa.String(255)))
        op.create_index(
            f"ix_{table}_external_id",
            table,
            ["external_id", "id"] if is_license else ["external_id"],
            unique=not is_license,
            sqlite_where=is_there,
            postgresql_where=is_there,
        )
    op.create_index("ix_customers_updated_at_id", "customers", ["updated_at", "id"])
    op.create_table(
        "license_updates",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_license_updates"),
        sqlite_with_rowid=False,
    )
    # From here on, events that a server of the previous release projects without these rows are read again.
    op.execute(
        "INSERT INTO checkpoints (name, last_id) "
        "SELECT 'updates', last_id FROM checkpoints WHERE name = 'events'"
    )
    op.execute("INSERT INTO license_updates (license_id, updated_at) SELECT id, updated_at FROM licenses")
    op.create_index(
        "ix_license_updates_updated_at_license_id", "license_updates", ["updated_at", "license_id"]
    )
