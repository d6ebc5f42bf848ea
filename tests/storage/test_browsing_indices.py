"""Pages use the indexes for them, and activations do not have to update these indexes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event

from keywright.db import ReadTransaction, Storage, run_read
from keywright.engine.executor import Executor
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from keywright.licensing.terms.model import Terms
from keywright.provisioning.policies.store import count_over_limit
from keywright.provisioning.shops import store as shop_store
from keywright.provisioning.shops.commands import ListShopEvents
from keywright.provisioning.shops.model import EventState
from keywright.registry import open_executor
from keywright.search.filters import Order, Search
from keywright.search.license_pages import find_page
from tests.databases import execute
from tests.makers import NOW, a_license, activate, create, deactivate, deactivate_all, reactivate
from tests.storage.browsed import many_licenses_with_terms
from tests.storage.conftest import a_storage
from tests.tables import each_row

pytestmark = pytest.mark.of_the_database

#: A statement and its parameters.
Statement = tuple[str, Any]


@contextmanager
def note_statements() -> Iterator[list[Statement]]:
    """Record the statements sent to databases during the block."""
    statements: list[Statement] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def plans(storage: Storage, search: Search) -> str:
    """The query plans for a page."""
    return plans_of(storage, lambda tx: find_page(tx, search, cursor=None, limit=10, now=NOW))


def plans_of(storage: Storage, read: Callable[[ReadTransaction], object]) -> str:
    """The query plans for a read."""
    with storage.read() as tx:
        with note_statements() as statements:
            read(tx)
        explain = "EXPLAIN " if tx.is_postgres else "EXPLAIN QUERY PLAN "
        return "\n".join(
            str(row[-1])
            for statement, parameters in statements
            if "set_config" not in statement
            for row in tx.connection.exec_driver_sql(explain + statement, parameters)
        )


@pytest.fixture(scope="module")
def shelf(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """A database with 200 licenses, for tests that only read."""
    with a_storage(database, tmp_path_factory.mktemp("shelf")) as storage:
        many_licenses_with_terms(storage, 200, seed=1)
        yield storage


@each_row(
    ("asked", "index"),
    [
        ({"status": 3}, "ix_licenses_status"),
        ({"product_id": 1}, "ix_licenses_product_id"),
        ({"order_id": 1}, "ix_licenses_order_id"),
        ({"customer_id": 1}, "ix_licenses_customer_id"),
        ({"expiring_within_days": 30}, "ix_licenses_expires_at"),
        ({"is_full": True}, "search_terms"),
        ({"is_unused": True, "status": 3}, "search_terms"),
        ({"term": "llap", "is_prefix": True}, "search_terms"),
        ({"term": "llap", "is_prefix": True, "license_id": 5}, "ix_search_terms_license_id_activation_id"),
    ],
)
@each_row("order", Order)
def test_every_search_has_its_index(
    shelf: Storage, asked: dict[str, Any], index: str, order: Order, database: str
) -> None:
    found = plans(shelf, Search(**asked, order=order))
    assert index in found
    if database == "postgresql":
        assert "Seq Scan" not in found
    else:
        assert "SCAN licenses" not in found
        assert "SCAN search_terms" not in found


def test_the_licenses_of_a_customer_who_has_many_have_their_index(
    storage: Storage, database: str, url: str
) -> None:
    """PostgreSQL would prefer to scan all licenses until it finds enough of the customer."""
    own = LicenseFilter(customer_id=1)
    licenses = [
        a_license(id=number, key=f"K-{number}", customer_id=1 if number % 2 == 0 else number)
        for number in range(1, 4_001)
    ]
    with storage.write() as tx:
        license_store.save_new_licenses(tx, licenses)
    if database == "postgresql":
        execute(url, "VACUUM ANALYZE licenses")
    found = plans_of(storage, lambda tx: license_store.list_licenses(tx, own, limit=11))
    assert "ix_licenses_customer_id" in found
    listed = run_read(storage, lambda tx: license_store.list_licenses(tx, own, after_id=40, limit=3))
    assert [one.id for one in listed] == [42, 44, 46]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("connection_id", "index"),
    [(None, "ix_shop_events_unmatched"), (1, "ix_shop_events_connection_unmatched")],
)
def test_the_events_that_wait_for_a_person_have_their_index(
    storage: Storage, connection_id: int | None, index: str
) -> None:
    query = ListShopEvents(connection_id=connection_id, state=EventState.UNMATCHED)
    found = plans_of(storage, lambda tx: shop_store.list_events(tx, query))
    assert f"INDEX {index} " in found
    assert "TEMP B-TREE" not in found


@pytest.mark.databases("sqlite")
def test_the_renewals_that_wait_for_a_sale_have_their_index(storage: Storage) -> None:
    with storage.write() as tx:
        with note_statements() as statements:
            shop_store.hasten(tx, 1, "sub-1", NOW)
        [(statement, parameters)] = [one for one in statements if one[0].startswith("UPDATE shop_events")]
        [step] = tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
    assert "INDEX ix_shop_events_order_ref " in step[-1]


@pytest.fixture
def executor(storage: Storage) -> Executor:
    """An executor with two licenses: A, and B, whose validity begins with its first activation."""
    executor = open_executor(storage)
    executor.execute([create("A", expires_at=NOW + timedelta(days=9)), create("B", valid_for_days=9)])
    return executor


def find_changed_columns(executor: Executor, *commands: Any) -> list[str]:
    """The columns written to the table of licenses, by statement."""
    with note_statements() as statements:
        outcomes = executor.execute(commands)
    assert all(isinstance(one, LicenseRecord) for one in outcomes)
    updates = [one for one, _ in statements if one.startswith("UPDATE licenses SET ")]
    return [one.removeprefix("UPDATE licenses SET ").partition(" WHERE")[0] for one in updates]


def test_an_expiry_is_written_only_where_it_begins(executor: Executor) -> None:
    for key, is_written in (("A", False), ("B", True), ("A", False), ("B", False)):
        [columns] = find_changed_columns(executor, activate(key))
        assert "times_activated" in columns
        assert ("expires_at" in columns) == is_written
    [record] = executor.execute([activate("B")])
    token = record.activations[0].token
    for command in (deactivate(token, "B"), reactivate(token, "B"), deactivate_all("B")):
        [columns] = find_changed_columns(executor, command)
        assert "expires_at" not in columns


def test_a_license_s_time_begins_also_where_the_place_is_given_up_at_once(
    storage: Storage, executor: Executor
) -> None:
    taken, given_up = executor.execute([activate("B"), deactivate_all("B")])
    expires_at = NOW + timedelta(days=9)
    assert (taken.license.expires_at, given_up.license.expires_at) == (expires_at, expires_at)
    with storage.read() as tx:
        license = license_store.find_licenses(tx, ["B"])["B"]
    assert (license.expires_at, license.times_activated) == (expires_at, 0)


def test_activating_touches_no_index_of_licenses(
    url: str, storage: Storage, executor: Executor, database: str
) -> None:
    with note_statements() as statements:
        for _ in range(20):
            executor.execute([activate("A")])
    if database == "sqlite":
        update, parameters = next(one for one in statements if one[0].startswith("UPDATE licenses"))
        with storage.read() as tx:
            steps = tx.connection.exec_driver_sql(f"EXPLAIN {update}", parameters).all()
        assert not [step for step in steps if step.opcode.startswith("Idx")]
        return
    # PostgreSQL counts a connection's statements when it ends.
    storage.close()
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'licenses'"
    assert execute(url, counted) == [(20, 20)]


def test_a_preview_of_terms_reads_only_licenses_of_the_policy(shelf: Storage) -> None:
    terms = Terms(max_activations=3, max_leases=2)
    plan = plans_of(shelf, lambda tx: count_over_limit(tx, 1, terms, product_id=None, is_forced=False))
    assert "ix_licenses_policy_id" in plan
    assert "lease_counters" in plan
    assert "SCAN lease_counters" not in plan
    assert "Seq Scan on lease_counters" not in plan
