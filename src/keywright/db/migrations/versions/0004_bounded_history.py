"""A license's history is bounded: a counter and an index of what was given up, and what is gone since."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_COUNT = """
UPDATE licenses SET deactivated_records = (
    SELECT count(*) FROM activations
    WHERE activations.license_id = licenses.id AND activations.deactivated_at IS NOT NULL
) WHERE id IN (SELECT license_id FROM activations WHERE deactivated_at IS NOT NULL)
"""


def upgrade() -> None:
    counter = sa.Column("deactivated_records", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    op.add_column("licenses", counter)
    is_given_up = sa.text("deactivated_at IS NOT NULL")
    op.create_index(
        "ix_activations_deactivated",
        "activations",
        ["license_id", "deactivated_at", "id"],
        sqlite_where=is_given_up,
        postgresql_where=is_given_up,
    )
    op.execute(_COUNT)
    op.create_table(
        "pruned_activations",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "activation_id", name="pk_pruned_activations"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_marks_license_id_activation_id", "marks", ["license_id", "activation_id"])
    op.drop_index("ix_marks_license_id", "marks")
