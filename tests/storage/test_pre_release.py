"""A database of the last version before the first release is converted, with all that is in it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreError
from keywright.db import database_path, open_storage
from keywright.db.schema import metadata
from keywright.identity.store import find_user, list_api_keys
from keywright.licensing.licenses.model import Status
from keywright.maintenance import doctor
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import list_names
from keywright.registry import open_executor
from keywright.search.event_pages import list_events
from keywright.search.filters import Search
from keywright.search.license_pages import find_page
from keywright.search.name_matches import find_names
from tests.databases import a_postgres_url
from tests.jobs import Work
from tests.makers import KEY_RING, NOW, a_retry, activate, create, url_of, validate
from tests.storage import pre_release
from tests.storage.projected import follow_all, list_terms, right_terms
from tests.storage.test_postgres import an_engine, schema_of


@pytest.fixture
def url(database: str, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of the last version before the first release."""
    if database == "sqlite":
        own = url_of(tmp_path / "data")
        pre_release.make(own)
        yield own
        return
    with a_postgres_url(empty=True) as url:
        pre_release.make(url)
        yield url


def revision(url: str) -> str:
    with an_engine(url) as engine, engine.connect() as connection:
        return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def test_its_tables_become_those_that_the_schema_declares(url: str) -> None:
    open_storage(url, KEY_RING).close()
    with an_engine(url) as engine, engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        # SQLite cannot rename a constraint.
        renamed = ("add_constraint", "remove_constraint")
        assert [one for one in compare_metadata(context, metadata) if one[0] not in renamed] == []
        for name, table in metadata.tables.items():
            columns = [one["name"] for one in inspect(connection).get_columns(name)]
            assert columns == [one.name for one in table.c]


@pytest.mark.databases("postgresql")
def test_on_postgresql_every_constraint_and_index_gets_its_name(url: str) -> None:
    open_storage(url, KEY_RING).close()
    with a_postgres_url() as new:
        assert _named(url) == _named(new)


def _named(url: str) -> list[set[tuple[object, ...]]]:
    # The server makes up the names of NOT NULL constraints, since version 18.
    return [{row for row in some if "NOT NULL" not in str(row[2])} for some in schema_of(url)]


def test_everything_in_it_is_kept(url: str) -> None:
    with closing(open_storage(url, KEY_RING)) as storage:
        executor = open_executor(storage)
        first, second = executor.query([validate("KEY-1"), validate("KEY-2")])
        assert (first.license.customer_id, second.license.customer_id) == (10, 9)
        assert [one.label for one in first.activations] == ["Büro"]
        (repeated,) = executor.execute([activate("KEY-2", idempotency=a_retry("call"))])
        assert repeated.status == 200
        with storage.read() as tx:
            assert list_names(tx, NameKind.CUSTOMER, after=-1, limit=9) == {10: "Anna"}
            found = find_names(tx, NameKind.CUSTOMER, "ANN", after=None, limit=9)
            assert [(one.id, one.name) for one in found.items] == [(10, "Anna")]
            assert find_user(tx, "alice") is not None
            assert [one.name for one in list_api_keys(tx)] == ["shop"]
            page = find_page(tx, Search(customer_id=10), cursor=None, limit=9, now=NOW)
            assert [one.id for one in page.licenses] == [1]
            events = [one.event for one in list_events(tx, limit=99).events]
        changes = [one.details for one in events if one.name in ("license.updated", "name.saved")]
        assert {"customer_id": [8, 10]} in changes
        assert {"kind": "customer", "number": 10, "name": [None, "Anna"]} in changes
        assert list(doctor.examine(storage, lambda _: None)) == []


def test_what_was_going_on_in_it_goes_on(url: str) -> None:
    with closing(open_storage(url, KEY_RING)) as storage:
        executor = open_executor(storage)
        (created,) = executor.execute([create("KEY-3")])
        assert created.license.id == 3
        for expected in (Search(customer_id=10), Search(status=Status.DISABLED, customer_id=9)):
            work = Work(executor, storage)
            assert [one.state.value for one in work.steps()][-1] == "done"
            with storage.read() as tx:
                page = find_page(tx, expected, cursor=None, limit=9, now=NOW)
                assert page.licenses
        follow_all(executor)
        assert list_terms(storage) == right_terms(storage)


@pytest.mark.databases("sqlite")
def test_it_is_copied_first(url: str) -> None:
    open_storage(url, KEY_RING).close()
    path = database_path(url)
    assert path is not None
    (copy,) = (path.parent / "backups").iterdir()
    assert revision(f"sqlite:///{copy}") == "0007"


def test_it_is_left_as_it_was_without_its_secret(url: str) -> None:
    with pytest.raises(StoreError, match="another secret"):
        open_storage(url, KeyRing(b"another secret, also 32 bytes ok"))
    assert revision(url) == "0007"
    open_storage(url, KEY_RING).close()


def test_an_older_one_is_refused_with_what_to_do(url: str) -> None:
    with an_engine(url) as engine, engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0004'"))
    with pytest.raises(StoreError, match="start the last version before the first release"):
        open_storage(url, KEY_RING)
    assert revision(url) == "0004"
