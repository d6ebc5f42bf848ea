"""Store what shops report about order lines, the licenses of each line, and the quantity of a license."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

_ZERO, _ONE = sa.text("0"), sa.text("1")


def upgrade() -> None:
    op.add_column("licenses", sa.Column("quantity", sa.BigInteger, nullable=False, server_default=_ONE))
    op.add_column("licenses", sa.Column("rule_terms", sa.Text))
    on_cancel = sa.Column("on_cancel", sa.String(20), nullable=False, server_default="paid_until")
    op.add_column("connections", on_cancel)
    op.add_column("connections", sa.Column("missing_topics", sa.Text))
    op.add_column("connections", sa.Column("looked_at", sa.BigInteger))
    is_proration = sa.Column("is_proration", sa.SmallInteger, nullable=False, server_default=_ZERO)
    op.add_column("payments", is_proration)
    op.add_column("payments", sa.Column("snapshots", sa.Text))
    op.add_column("subscriptions", sa.Column("ended_at", sa.BigInteger, nullable=False, server_default=_ZERO))
    op.add_column("subscriptions", sa.Column("snapshots", sa.Text))
    _create_lines()
    _widen_licenses()
    _find_quantities()


def _create_lines() -> None:
    op.create_table(
        "sold_lines",
        sa.Column("connection_id", sa.BigInteger, nullable=False),
        sa.Column("order_ref", sa.String(255), nullable=False),
        sa.Column("line", sa.String(255), nullable=False),
        sa.Column("subscription_ref", sa.String(255)),
        sa.Column("listed_in", sa.String(255), nullable=False),
        sa.Column("listed_as", sa.String(255), nullable=False),
        sa.Column("refs", sa.Text, nullable=False),
        sa.Column("policy_ids", sa.Text, nullable=False),
        sa.Column("rule", sa.String(10), nullable=False),
        sa.PrimaryKeyConstraint("connection_id", "order_ref", "line", name="pk_sold_lines"),
        sqlite_with_rowid=False,
    )
    _index("sold_lines")


def _index(table: str) -> None:
    has_one = sa.text("subscription_ref IS NOT NULL")
    op.create_index(
        f"ix_{table}_subscription_ref",
        table,
        ["connection_id", "subscription_ref"],
        sqlite_where=has_one,
        postgresql_where=has_one,
    )


def _widen_licenses() -> None:
    """Change the primary key of the table: a unit may have several licenses."""
    new = (
        sa.Column("item", sa.SmallInteger, nullable=False, server_default=_ZERO),
        sa.Column("policy_id", sa.BigInteger),
        sa.Column("quantity", sa.BigInteger, nullable=False, server_default=_ONE),
        sa.Column("has_grace", sa.SmallInteger, nullable=False, server_default=_ONE),
        sa.Column("is_over", sa.SmallInteger, nullable=False, server_default=_ZERO),
        sa.Column("event_id", sa.BigInteger),
    )
    table, name = "sold_licenses", "pk_sold_licenses"
    keys = ["connection_id", "order_ref", "line", "number", "item"]
    if op.get_bind().dialect.name == "postgresql":
        for column in new:
            op.add_column(table, column)
        op.drop_constraint(name, table)
        op.create_primary_key(name, table, keys)
        return
    for index in ("license_id", "subscription_ref"):
        op.drop_index(f"ix_{table}_{index}", table)
    op.rename_table(table, "narrow")
    old = (
        sa.Column("connection_id", sa.BigInteger, nullable=False),
        sa.Column("order_ref", sa.String(255), nullable=False),
        sa.Column("line", sa.String(255), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("subscription_ref", sa.String(255)),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("terms_expire_at", sa.BigInteger),
    )
    names = ", ".join(one.name for one in old)
    op.create_table(table, *old, *new, sa.PrimaryKeyConstraint(*keys, name=name), sqlite_with_rowid=False)
    op.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM narrow")  # noqa: S608
    op.drop_table("narrow")
    op.create_index(f"ix_{table}_license_id", table, ["license_id"])
    _index(table)


def _find_quantities() -> None:
    """Compute quantities: if a quantity bought devices, the limit is that multiple of the policy's."""
    connection = op.get_bind()
    limits = {
        number: json.loads(terms).get("max_activations")
        for number, terms in connection.execute(sa.text("SELECT id, terms FROM policies"))
    }
    found = connection.execute(sa.text("SELECT id, mapping FROM connections")).all()
    for number, mapping in found:
        mapped = [one for one in json.loads(mapping) if isinstance(one, dict)]
        policies = {one.get("policy_id") for one in mapped if one.get("quantity") == "devices"}
        for policy in (one for one in policies if limits.get(one)):
            connection.execute(
                sa.text(
                    "UPDATE licenses SET quantity = times_activated_max / :limit WHERE policy_id = :policy "
                    "AND times_activated_max > :limit AND times_activated_max % :limit = 0 "
                    "AND id IN (SELECT license_id FROM sold_licenses WHERE connection_id = :connection)"
                ),
                {"limit": limits[policy], "policy": policy, "connection": number},
            )
