"""A database of the first release, with rows in all tables, is upgraded with all its contents."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Connection,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    text,
)

from keywright.core.errors import StoreError
from keywright.db import open_storage
from keywright.db.schema import metadata
from tests.databases import a_postgres_url
from tests.makers import KEY_RING, url_of
from tests.storage.test_migrations import upgrade
from tests.storage.test_postgres import an_engine
from tests.storage.test_previous_release import RECORDED, replay

#: The revision of the first release.
FIRST = "0016"
_ROWS = 3
#: The tables that initially have rows.
_FILLED = ("alembic_version", "installation", "sequences")


@pytest.fixture
def url(database: str, tmp_path: Path) -> Iterator[str]:
    if database == "sqlite":
        (tmp_path / "data").mkdir()
        yield url_of(tmp_path / "data")
        return
    with a_postgres_url(empty=True) as url:
        yield url


@contextmanager
def at_revision(url: str, revision: str) -> Iterator[tuple[Connection, MetaData]]:
    """Yield a transaction in a new database of this revision, and its empty tables."""
    with an_engine(url) as engine, engine.begin() as connection:
        upgrade(connection, revision)
        tables = MetaData()
        tables.reflect(connection)
        connection.execute(
            insert(tables.tables["installation"]).values(id=1, secret_id=KEY_RING.secret_id, created_at=1)
        )
        yield connection, tables


def make_first(url: str) -> dict[str, list[dict[str, Any]]]:
    """Create the database; return its rows by table."""
    with at_revision(url, FIRST) as (connection, tables):
        connection.execute(text("UPDATE sequences SET last_id = 77"))
        for table in tables.sorted_tables:
            if table.name not in _FILLED:
                connection.execute(insert(table), [a_row(table, number) for number in range(1, _ROWS + 1)])
        return rows_of(connection, list(tables.tables.values()))


def make_used(url: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Create a database with what the first release wrote while it did everything; return its rows by table.

    The folder is for an SQLite file, whose statements were recorded.
    """
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    with at_revision(f"sqlite:///{folder}/recorded.db", FIRST) as (connection, tables):
        replay(connection, recorded)
        rows = rows_of(connection, tables.sorted_tables)
    with at_revision(url, FIRST) as (connection, tables):
        for table in tables.sorted_tables:
            if rows[table.name]:
                connection.execute(delete(table))
                connection.execute(insert(table), rows[table.name])
        if connection.dialect.name == "postgresql":
            for table in tables.sorted_tables:
                continue_numbers(connection, table)
    return rows


def continue_numbers(connection: Connection, table: Table) -> None:
    """Advance a PostgreSQL sequence, which does not happen automatically for explicitly inserted IDs."""
    own = {"licenses": "license", "activations": "activation", "products": "product", "customers": "customer"}
    name = f"{own[table.name]}_id_seq" if table.name in own else None
    if name is None and "id" in table.c:
        name = connection.scalar(select(func.pg_get_serial_sequence(table.name, "id")))
    if name is not None:
        connection.execute(select(func.setval(name, func.greatest(func.max(table.c.id), 1))))


def a_row(table: Table, number: int) -> dict[str, Any]:
    """Build a row in which all columns have values."""
    row = {one.name: a_value(one, number) for one in table.c}
    if table.name == "licenses":
        key = f"key-{number}"
        row |= {"sealed_key": KEY_RING.seal_key(key, number), "key_hmac": KEY_RING.blind_index(key)}
    return row


def a_value(column: Any, number: int) -> Any:
    if isinstance(column.type, LargeBinary):
        return bytes([number]) * 32
    if isinstance(column.type, Text):
        return json.dumps({column.name: number})
    if isinstance(column.type, String):
        return f"{column.name}-{number}"[-(column.type.length or 99) :]
    return number


def rows_of(connection: Connection, tables: list[Table]) -> dict[str, list[dict[str, Any]]]:
    return {
        table.name: [
            dict(row._mapping) for row in connection.execute(select(table).order_by(*table.primary_key))
        ]
        for table in tables
    }


def rows_of_file(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the rows of an SQLite database with any schema, by table."""
    tables = MetaData()
    with an_engine(f"sqlite:///{path}") as engine, engine.connect() as connection:
        tables.reflect(connection)
        return rows_of(connection, tables.sorted_tables)


def assert_kept(before: dict[str, list[dict[str, Any]]], url: str) -> None:
    """Check that all rows exist, with their values in all columns that existed before."""
    with an_engine(url) as engine, engine.connect() as connection:
        after = rows_of(connection, list(metadata.tables.values()))
    for name, rows in before.items():
        if name not in ("alembic_version", "installation"):
            # New columns are not compared.
            kept = [{key: row[key] for key in rows[0]} for row in after[name] if rows]
            assert [row for row in rows if row not in kept] == [], name


def test_everything_is_there_after_the_migration(url: str) -> None:
    before = make_first(url)
    assert all(before.values())
    open_storage(url, KEY_RING).close()
    assert_kept(before, url)


def test_the_newest_word_of_a_payment_becomes_a_fact(url: str) -> None:
    shops = ("stripe", "woocommerce", "generic")
    words = ("active", "suspended", "refunded")
    with at_revision(url, FIRST) as (connection, tables):
        for number, shop in enumerate(shops, start=1):
            row = a_row(tables.tables["connections"], number) | {"shop": shop}
            connection.execute(insert(tables.tables["connections"]), row)
            payments = [
                {"connection_id": number, "order_ref": word, "state": word, "state_at": 7} for word in words
            ]
            connection.execute(insert(tables.tables["payments"]), payments)
    open_storage(url, KEY_RING).close()
    with an_engine(url) as engine, engine.connect() as connection:
        found = {
            (shops[one.connection_id - 1], one.order_ref): [
                (one.state, one.state_at),
                (one.refund, one.refund_at),
                (one.dispute, one.dispute_at),
            ]
            for one in connection.execute(select(metadata.tables["payments"]))
        }
    none = ("active", 0)
    assert found == {
        **{(shop, "active"): [("active", 7), none, none] for shop in shops},
        ("stripe", "suspended"): [none, none, ("suspended", 7)],
        ("stripe", "refunded"): [none, ("refunded", 7), none],
        ("woocommerce", "suspended"): [("suspended", 7), none, none],
        ("woocommerce", "refunded"): [("refunded", 7), none, none],
        ("generic", "suspended"): [("suspended", 7), none, none],
        ("generic", "refunded"): [none, ("refunded", 7), none],
    }


def test_a_database_from_before_the_first_release_is_left_alone(url: str) -> None:
    with at_revision(url, FIRST) as (connection, _):
        connection.execute(text("UPDATE alembic_version SET version_num = '0015'"))
    with pytest.raises(StoreError, match=r"before the first release.*'0015'.*keywright export"):
        open_storage(url, KEY_RING)
    with an_engine(url) as engine, engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0015"
