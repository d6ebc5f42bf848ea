"""While instances are updated one after the other, the previous release works on the new schema."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, inspect

from keywright.db import Storage, migrations
from keywright.db.migrate import OLDEST_CODE
from keywright.db.schema import metadata
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.identity.store import find_user, list_api_keys
from tests.makers import a_retry, activate, validate
from tests.storage.conftest import Opener
from tests.storage.recording import as_json, main

#: What the oldest release that may use the database runs; see ``recording.py``.
RECORDED = Path(__file__).with_name(f"release-{OLDEST_CODE}.json")


@pytest.fixture
def connection(url: str, storage: Storage) -> Iterator[Connection]:
    """A connection to an empty database, without a program."""
    engine: Engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        yield stack.enter_context(closing(engine.connect()))


def from_json(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def in_order(rows: list[list[Any]]) -> list[str]:
    return sorted(map(repr, rows))


def replay(connection: Connection) -> None:
    """Run every statement; it finds and changes what it did on the schema that it was made for."""
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    for one in json.loads(RECORDED.read_text(encoding="utf-8")):
        statement = one["sql"].replace("?", mark)
        changed = 0
        for run in one["runs"]:
            result = connection.exec_driver_sql(statement, tuple(map(from_json, run)))
            if one["rows"] is None:
                changed += result.rowcount
                continue
            rows = [[as_json(value) for value in row] for row in result]
            assert in_order(rows) == in_order(one["rows"]), statement
        assert one["rows"] is not None or changed == one["changed"], statement


@pytest.fixture
def tables_then(tmp_path: Path) -> set[str]:
    """The tables that the previous release knows."""
    config = Config()
    config.set_main_option("script_location", str(next(iter(migrations.__path__))))
    engine = create_engine(f"sqlite:///{tmp_path}/then.db")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, OLDEST_CODE)
    with closing(engine.connect()) as connection:
        tables = set(inspect(connection).get_table_names())
    engine.dispose()
    return tables & set(metadata.tables)


def test_every_table_was_used_when_the_statements_were_recorded(tables_then: set[str]) -> None:
    recorded = RECORDED.read_text(encoding="utf-8")
    assert {"licenses", "users"} <= tables_then
    assert {name for name in tables_then if f" {name} " not in recorded} == {"installation"}


def test_every_table_is_used_when_the_statements_of_this_release_are_recorded(tmp_path: Path) -> None:
    main(tmp_path / "statements.json")
    recorded = (tmp_path / "statements.json").read_text(encoding="utf-8")
    assert not {name for name in metadata.tables if f" {name} " not in recorded}


def test_what_the_previous_release_runs_does_the_same_on_the_new_schema(connection: Connection) -> None:
    replay(connection)


def test_this_release_reads_what_the_previous_one_wrote(connection: Connection, open_again: Opener) -> None:
    replay(connection)
    connection.commit()
    storage = open_again()
    executor = Executor(storage)
    licenses, renamed = executor.query([validate("a"), validate("d")])
    assert licenses.license.times_activated == 3
    assert [one.label for one in licenses.activations] == ["Büro", None, None]
    assert renamed.license.times_activated_max == 9
    (again,) = executor.execute([activate("a", retry=a_retry("call"))])
    assert again.status == 200
    with storage.read() as tx:
        assert find_user(tx, "alice") is not None
        assert [one.name for one in list_api_keys(tx)] == ["shop"]
        assert len(event_store.list_events(tx, 1, limit=99)) == 8
