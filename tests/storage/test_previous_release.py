"""During a rolling upgrade, the previous release works on the new schema."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine

from keywright.db import Storage
from keywright.db.migrate import OLDEST_COMPATIBLE
from keywright.db.schema import metadata
from keywright.events import store as event_store
from keywright.identity.store import find_user, list_api_keys
from keywright.registry import open_executor
from tests.makers import a_retry, activate, validate
from tests.storage.conftest import Opener
from tests.storage.recording import as_json

DATABASES = ("sqlite",)
#: The statements of the oldest compatible release; see ``recording.py``.
RECORDED = Path(__file__).with_name(f"release-{OLDEST_COMPATIBLE}.json")


@pytest.fixture(scope="session")
def recorded() -> list[Any]:
    """The statements of the previous release."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@pytest.fixture
def connection(url: str, storage: Storage) -> Iterator[Connection]:
    """A plain connection to an empty database."""
    engine: Engine = create_engine(url)
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        yield stack.enter_context(closing(engine.connect()))


def from_json(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def values_of(run: Any) -> Any:
    """The values of one execution, by position or by name."""
    if isinstance(run, dict):
        return {name: from_json(value) for name, value in run.items()}
    return tuple(map(from_json, run))


def in_order(rows: list[list[Any]]) -> list[str]:
    return sorted(map(repr, rows))


def replay(connection: Connection, recorded: list[Any]) -> None:
    """Run all statements; each must have the same results and effects as on its original schema."""
    for one in recorded:
        statement, changed = one["sql"], 0
        for run in one["runs"]:
            result = connection.exec_driver_sql(statement, values_of(run))
            if one["rows"] is None:
                changed += result.rowcount
                continue
            rows = [[as_json(value) for value in row] for row in result]
            assert in_order(rows) == in_order(one["rows"]), statement
        assert one["rows"] is not None or changed == one["changed"], statement


def test_every_table_is_used_when_the_statements_are_recorded(recorded: list[Any]) -> None:
    statements = " ".join(one["sql"] for one in recorded)
    newer = {"later_purchases", "past_usage", "license_updates", "sold_lines"}
    newer |= {"license_claims", "license_transfers", "stored_settings", "report_counts", "report_events"}
    newer |= {"releases", "release_files", "release_counts", "update_tokens", "notices", "notice_recipients"}
    assert {name for name in metadata.tables if f" {name} " not in statements} <= {"installation"} | newer


def test_the_previous_release_works_on_the_new_schema_and_this_one_reads_what_it_wrote(
    connection: Connection, recorded: list[Any], open_again: Opener
) -> None:
    replay(connection, recorded)
    connection.commit()
    storage = open_again()
    executor = open_executor(storage)
    licenses, renamed = executor.query([validate("a"), validate("d")])
    assert licenses.license.times_activated == 3
    assert [one.label for one in licenses.activations] == ["Büro", None, None]
    assert renamed.license.times_activated_max == 10
    (again,) = executor.execute([activate("a", idempotency=a_retry("call"))])
    assert again.status == 200
    with storage.read() as tx:
        assert find_user(tx, "alice") is not None
        assert [one.name for one in list_api_keys(tx)] == ["shop"]
        assert len(event_store.list_events(tx, 1, limit=99)) == 11
