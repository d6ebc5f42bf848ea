"""Policies, products and customers instead of generators and names; terms, devices, leases and usage."""

import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from keywright.core.crypto import KeyRing

revision = "0009"
down_revision = "0008"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_FIRST_OWN_ID = 1_000_000_000
_ROWS_AT_ONCE = 1_000


def upgrade() -> None:
    _create_policies()
    _create_catalog()
    _extend_licenses()
    _extend_activations()
    _create_tables_of_licenses()
    op.add_column("api_keys", sa.Column("expires_at", sa.BigInteger))
    _create_sequences()
    _rename_events()
    _index_keys()


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _is_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _create_policies() -> None:
    policies = op.create_table(
        "policies",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("charset", sa.String(255), nullable=False),
        sa.Column("chunks", sa.BigInteger, nullable=False),
        sa.Column("chunk_length", sa.BigInteger, nullable=False),
        sa.Column("separator", sa.String(255)),
        sa.Column("prefix", sa.String(255)),
        sa.Column("suffix", sa.String(255)),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.BigInteger),
        sa.Column("product_id", sa.BigInteger),
        sa.Column("terms", sa.Text, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("archived_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_policies"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_policies_product_id_created_at_id", "policies", ["product_id", "created_at", "id"])
    op.create_index("ix_policies_created_at_id", "policies", ["created_at", "id"])
    for name, condition in (("archived", "archived_at IS NOT NULL"), ("in_use", "archived_at IS NULL")):
        op.create_index(f"ix_policies_{name}", "policies", ["created_at", "id"], **_where(condition))
    connection = op.get_bind()
    rows = [dict(row._mapping) for row in connection.execute(sa.text("SELECT * FROM generators ORDER BY id"))]
    for row in rows:
        terms = {
            "max_activations": row.pop("times_activated_max"),
            "valid_for_days": row.pop("expires_in_days"),
        }
        terms = {name: value for name, value in terms.items() if value is not None}
        if "valid_for_days" in terms:
            terms["starts"] = "first_activation"
        row["terms"] = json.dumps(terms, separators=(",", ":"))
    if rows:
        op.bulk_insert(policies, rows)
    # No number is given twice, not even that of a generator that was deleted.
    if _is_postgres():
        op.execute("SELECT setval('policies_id_seq', last_value, is_called) FROM generators_id_seq")
    elif last := connection.execute(
        sa.text("SELECT seq FROM sqlite_sequence WHERE name = 'generators'")
    ).scalar():
        op.execute("DELETE FROM sqlite_sequence WHERE name = 'policies'")
        op.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('policies', {last:d})")  # noqa: S608
    op.drop_table("generators")


def _create_catalog() -> None:
    products = op.create_table(
        "products",
        sa.Column("id", _ID, autoincrement=False, nullable=False),
        sa.Column("code", sa.String(64)),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("url", sa.String(2000)),
        sa.Column("features", sa.Text, nullable=False, server_default=sa.text("'[]'")),
        sa.Column("metadata", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_products"),
        sa.UniqueConstraint("code", name="uq_products_code"),
    )
    customers = op.create_table(
        "customers",
        sa.Column("id", _ID, autoincrement=False, nullable=False),
        sa.Column("email", sa.String(320)),
        sa.Column("email_folded", sa.String(320)),
        sa.Column("email_verified_at", sa.BigInteger),
        sa.Column("name", sa.String(200)),
        sa.Column("metadata", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_customers"),
        sa.UniqueConstraint("email_folded", name="uq_customers_email_folded"),
    )
    op.create_index("ix_products_name", "products", ["name"])
    op.create_index("ix_customers_name_created_at_id", "customers", ["name", "created_at", "id"])
    for name in ("products", "customers"):
        op.create_index(f"ix_{name}_created_at_id", name, ["created_at", "id"])
    now = int(datetime.now(UTC).timestamp())
    for kind, table in (("product", products), ("customer", customers)):
        found = op.get_bind().execute(
            sa.text("SELECT number, name FROM catalog_names WHERE kind = :kind"), {"kind": kind}
        )
        rows = [{"id": row.number, "name": row.name, "created_at": now, "updated_at": now} for row in found]
        if rows:
            op.bulk_insert(table, rows)
    op.drop_table("catalog_names")


def _extend_licenses() -> None:
    for column in (
        sa.Column("policy_id", sa.BigInteger),
        sa.Column("terms", sa.Text),
        sa.Column("order_details", sa.Text),
        sa.Column("order_ref", sa.String(255)),
        sa.Column("order_line_hash", sa.LargeBinary(32)),
        sa.Column("key_end", sa.BigInteger),
        sa.Column("key_folded", sa.BigInteger),
    ):
        op.add_column("licenses", column)
    op.create_index("ix_licenses_created_at", "licenses", ["created_at", "id"])
    for name in ("policy_id", "order_ref"):
        op.create_index(f"ix_licenses_{name}", "licenses", [name, "id"], **_where(f"{name} IS NOT NULL"))
    op.create_index(
        "ix_licenses_order_line_hash",
        "licenses",
        ["order_line_hash"],
        unique=True,
        **_where("order_line_hash IS NOT NULL"),
    )


def _extend_activations() -> None:
    for name, length in (("fingerprint", 256), ("platform", 255), ("app_version", 255)):
        op.add_column("activations", sa.Column(name, sa.String(length)))
    op.create_index(
        "ix_activations_fingerprint",
        "activations",
        ["license_id", "fingerprint"],
        unique=True,
        **_where("fingerprint IS NOT NULL"),
    )


def _create_tables_of_licenses() -> None:
    op.create_table(
        "last_seen",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "activation_id", name="pk_last_seen"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "lease_counters",
        sa.Column("license_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("held", sa.BigInteger, nullable=False),
        sa.Column("places", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", name="pk_lease_counters"),
        sa.CheckConstraint("held >= 0 AND held <= places", name="within_places"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "leases",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("lease_id", sa.String(32), nullable=False),
        sa.Column("activation_id", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("renewed_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("license_id", "lease_id", name="pk_leases"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_leases_expires_at", "leases", ["license_id", "expires_at"], **_where("ended_at IS NULL")
    )
    op.create_index(
        "ix_leases_ended_at", "leases", ["license_id", "ended_at"], **_where("ended_at IS NOT NULL")
    )
    op.create_index("ix_leases_holder", "leases", ["license_id", "activation_id", "holder", "ended_at"])
    op.create_table(
        "meter_usage",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("meter", sa.String(64), nullable=False),
        sa.Column("period_start", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "meter", name="pk_meter_usage"),
        sa.CheckConstraint("used >= 0", name="used"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "new_devices",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("fingerprint", sa.String(256), nullable=False),
        sa.PrimaryKeyConstraint("license_id", "seen_at", "fingerprint", name="pk_new_devices"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rotated_keys",
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("key_hmac", sa.LargeBinary(32), nullable=False),
        sa.Column("sealed_key", sa.LargeBinary, nullable=False),
        sa.Column("rotated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("license_id", "key_hmac", name="pk_rotated_keys"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_rotated_keys_key_hmac", "rotated_keys", ["key_hmac"])
    op.create_table(
        "trials",
        sa.Column("product_id", sa.BigInteger, nullable=False),
        sa.Column("fingerprint_hmac", sa.LargeBinary(32), nullable=False),
        sa.Column("sealed_fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("license_id", sa.BigInteger, nullable=False),
        sa.Column("email", sa.String(320)),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("product_id", "fingerprint_hmac", name="pk_trials"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_trials_license_id", "trials", ["license_id"])


def _create_sequences() -> None:
    for kind in ("product", "customer"):
        last = _FIRST_OWN_ID - 1
        op.execute(f"INSERT INTO sequences (name, last_id) VALUES ('{kind}', {last})")  # noqa: S608
        if _is_postgres():
            op.execute(sa.schema.CreateSequence(sa.Sequence(f"{kind}_id_seq", start=_FIRST_OWN_ID)))


def _rename_events() -> None:
    for what in ("created", "updated", "deleted"):
        for table in ("events", "daily_counts"):
            op.execute(f"UPDATE {table} SET name = 'policy.{what}' WHERE name = 'generator.{what}'")  # noqa: S608
    op.execute(
        """UPDATE events SET details = replace(replace(details, '"generator_id":', '"policy_id":'),
               '"generator":', '"policy":') WHERE name LIKE 'policy.%'"""
    )
    op.execute("""UPDATE jobs SET parameters = replace(parameters, '"generator_id":', '"policy_id":')""")


def _index_keys() -> None:
    """Fill the blind indexes of all license keys: about 20 µs for each."""
    key_ring: KeyRing = op.get_context().config.attributes["key_ring"]  # type: ignore[union-attr]
    connection, last = op.get_bind(), 0
    rows_after = sa.text("SELECT id, sealed_key FROM licenses WHERE id > :last ORDER BY id LIMIT :limit")
    change = sa.text("UPDATE licenses SET key_end = :key_end, key_folded = :key_folded WHERE id = :id")
    while rows := connection.execute(rows_after, {"last": last, "limit": _ROWS_AT_ONCE}).all():
        connection.execute(change, [_indexes(key_ring, row) for row in rows])
        last = rows[-1].id
    op.create_index("ix_licenses_key_end", "licenses", ["key_end"])
    op.create_index("ix_licenses_key_folded", "licenses", ["key_folded"])


def _indexes(key_ring: KeyRing, row: Any) -> dict[str, int | None]:
    for ring in key_ring.rings:
        try:
            key = ring.unseal_key(row.sealed_key, row.id)
        except ValueError:
            continue
        return {"id": row.id, "key_end": ring.key_end(key), "key_folded": ring.key_folded(key)}
    return {"id": row.id, "key_end": None, "key_folded": None}
