"""A database of the first release (revision 0008), every table filled, is upgraded with all its contents; of
later revisions, what a migration fills in.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, LargeBinary, MetaData, String, Table, Text, insert, select, text

from keywright.db import migrations, open_storage
from keywright.db.schema import events, metadata
from keywright.events.model import Event
from keywright.events.store import customer_of, event_values
from tests.databases import a_postgres_url
from tests.makers import KEY_RING, NOW, url_of
from tests.storage.test_postgres import an_engine

_ROWS = 3
#: These have rows from the beginning.
_FILLED = ("alembic_version", "installation", "sequences")
_REPLACED = ("generators", "catalog_names")


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
    """A transaction in a new database of this revision, and its tables; nothing is in them."""
    config = Config()
    config.set_main_option("script_location", str(next(iter(migrations.__path__))))
    with an_engine(url) as engine, engine.begin() as connection:
        config.attributes |= {"connection": connection, "key_ring": KEY_RING}
        command.upgrade(config, revision)
        tables = MetaData()
        tables.reflect(connection)
        connection.execute(
            insert(tables.tables["installation"]).values(id=1, secret_id=KEY_RING.secret_id, created_at=1)
        )
        yield connection, tables


def make_revision_8(url: str) -> dict[str, list[dict[str, Any]]]:
    """Make the database; returns its rows by table."""
    with at_revision(url, "0008") as (connection, tables):
        connection.execute(text("UPDATE sequences SET last_id = 77"))
        for table in tables.sorted_tables:
            if table.name not in _FILLED:
                connection.execute(insert(table), [a_row(table, number) for number in range(1, _ROWS + 1)])
        return rows_of(connection, list(tables.tables.values()))


def a_row(table: Table, number: int) -> dict[str, Any]:
    """A row in which every column has a value."""
    row = {one.name: a_value(one, number) for one in table.c}
    if table.name == "licenses":
        key = f"key-{number}"
        row |= {"sealed_key": KEY_RING.seal_key(key, number), "key_hmac": KEY_RING.blind_index(key)}
    elif table.name == "catalog_names":
        row["kind"] = ("product", "customer", "product")[number - 1]
    elif table.name == "events":
        row |= {"name": "generator.created", "details": '{"generator_id":1,"generator":"Hex"}'}
    elif table.name == "jobs":
        row["parameters"] = '{"order":{"generator_id":1,"amount":2}}'
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


def test_everything_is_there_after_the_migration(url: str) -> None:
    before = make_revision_8(url)
    assert all(before.values())
    open_storage(url, KEY_RING).close()
    with an_engine(url) as engine, engine.connect() as connection:
        after = rows_of(connection, list(metadata.tables.values()))
    assert_generators_are_policies(before.pop("generators"), after.pop("policies"))
    assert_names_are_products_and_customers(before.pop("catalog_names"), after)
    for event in before["events"]:
        event |= {"name": "policy.created", "details": '{"policy_id":1,"policy":"Hex"}'}
    for job in before["jobs"]:
        job["parameters"] = '{"order":{"policy_id":1,"amount":2}}'
    for row in after["licenses"]:
        key = f"key-{row['id']}"
        assert (row["key_end"], row["key_folded"]) == (KEY_RING.key_end(key), KEY_RING.key_folded(key))
    for one in ("alembic_version", "installation"):
        before.pop(one)
    assert before["sequences"] == [one for one in after["sequences"] if one["last_id"] < 10**9 - 1]
    before.pop("sequences")
    # Users sign in again: until then, nothing said when a session ends.
    assert before.pop("sessions") != after["sessions"] == []
    for name, rows in before.items():
        # A column that is new is not among them.
        assert [{key: row[key] for key in rows[0]} for row in after[name]] == rows, name


def assert_generators_are_policies(generators: list[dict[str, Any]], policies: list[dict[str, Any]]) -> None:
    for generator, policy in zip(generators, policies, strict=True):
        terms = {
            "max_activations": generator.pop("times_activated_max"),
            "valid_for_days": generator.pop("expires_in_days"),
            "starts": "first_activation",
        }
        assert json.loads(policy["terms"]) == terms
        assert {key: policy[key] for key in generator} == generator


def assert_names_are_products_and_customers(
    names: list[dict[str, Any]], after: dict[str, list[dict[str, Any]]]
) -> None:
    for kind in ("product", "customer"):
        expected = [(one["number"], one["name"]) for one in names if one["kind"] == kind]
        assert [(one["id"], one["name"]) for one in after.pop(f"{kind}s")] == sorted(expected)


def test_old_events_are_of_the_customer_they_are_about(url: str) -> None:
    happened = [
        an_event("name.saved", details={"kind": "customer", "number": 8, "name": [None, "Dora"]}),
        an_event("name.saved", details={"kind": "product", "number": 9, "name": [None, "Studio"]}),
        an_event("customer.created", details={"number": 10}),
        an_event("customer.erased", details={"number": 8}),
        an_event("customer.unheard_of", details={"another": "detail"}),
        an_event("customer.signed_out"),
        an_event("product.created", details={"product_id": 8, "number": 8}),
        an_event("license.created", license_id=1, details={"number": 8}),
    ]
    with at_revision(url, "0012") as (connection, tables):
        connection.execute(insert(tables.tables["events"]), list(map(event_values, happened)))
    open_storage(url, KEY_RING).close()
    with an_engine(url) as engine, engine.connect() as connection:
        found = connection.execute(select(events.c.customer_id).order_by(events.c.id)).scalars().all()
    assert found == [8, None, 10, 8, None, None, None, None]
    # As they are written from then on; of a license, its own row names the customer.
    assert found[:-1] == [customer_of(one) for one in happened[:-1]]


def an_event(name: str, *, license_id: int = 0, details: dict[str, Any] | None = None) -> Event:
    return Event(NOW, name, license_id, None, "program", "", details)


def test_numbers_are_not_given_twice_after_the_migration(url: str) -> None:
    make_revision_8(url)
    storage = open_storage(url, KEY_RING)
    with storage.write() as tx:
        assert tx.ids.next("product") == tx.ids.next("customer") == 10**9
        tx.ids.save()
    storage.close()
