"""A copy to another database holds everything."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from keywright.core.command import Context
from keywright.core.errors import StoreError
from keywright.db import Storage, WriteTransaction, open_storage, run_write
from keywright.db.rows import to_seconds
from keywright.db.schema import metadata, rotated_keys, trials
from keywright.db.sealed_columns import trial_associated_data
from keywright.identity.model import Permissions, Role
from keywright.identity.sessions import hash_session_token
from keywright.identity.store import find_session
from keywright.maintenance.copy import copy
from keywright.maintenance.tasks import SaveSettings
from keywright.provisioning.portal import store as portal_store
from keywright.provisioning.portal.model import SignIn
from keywright.provisioning.products import NameKind
from keywright.registry import open_executor
from keywright.signing.commands import LoadKeys
from tests.connections import a_sale, connect, receive
from tests.databases import a_postgres_url
from tests.makers import (
    KEY_RING,
    NOW,
    TOKEN,
    a_retry,
    activate,
    an_origin,
    create,
    create_endpoint,
    create_policy,
    create_user,
    deactivate_all,
    delete,
    enable_second_factor,
    generate,
    issue_api_key,
    make_first_key,
    rotate_key,
    save_name,
    start_session,
    url_of,
    validate,
)

pytestmark = [pytest.mark.tier("ordinary"), pytest.mark.of_the_database]

_NOT_COPIED = (
    *("installation", "sequences", "sessions"),
    *("portal_links", "portal_sessions", "portal_sign_ins"),
)


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[dict[str, str]]:
    with a_postgres_url() as url:
        yield {"sqlite": url_of(tmp_path / "data"), "postgresql": url}


def fill(storage: Storage) -> None:
    executor = open_executor(storage)
    executor.execute([create("A", 3), create("gone"), create_policy()])
    executor.execute([activate("A", label="Anna's “laptop” \\", meta_data={"os": "linux"}), activate("A")])
    executor.execute([deactivate_all("A"), delete("gone"), activate("A", idempotency=a_retry("once"))])
    executor.execute([generate(1, 2_100)])
    issue_api_key(storage, "shop", Permissions.READ_WRITE, NOW)
    executor.execute([create_user(), create_user("ada", Role.READER), start_session(1)])
    executor.execute([enable_second_factor(2)])
    executor.execute([save_name(NameKind.PRODUCT, 7, "Writer"), save_name(NameKind.CUSTOMER, 7, "Anna")])
    executor.execute([make_first_key(), create_endpoint()])
    connect(executor)
    receive(executor, a_sale("in-1", subscription="sub-1"))
    executor.execute([SaveSettings(context=Context(NOW, an_origin()), changes={"session_hours": "4"})])
    run_write(storage, _save_what_is_sealed)


def _save_what_is_sealed(tx: WriteTransaction) -> None:
    """A key that was replaced, a trial, and a sign-in with an address."""
    ring, moment = tx.sealing, to_seconds(NOW)
    tx.connection.execute(
        insert(rotated_keys).values(
            key_hmac=ring.blind_index("OLD"),
            license_id=1,
            sealed_key=ring.seal_key("OLD", 1),
            rotated_at=moment,
        )
    )
    tx.connection.execute(
        insert(trials).values(
            product_id=7,
            fingerprint_hmac=ring.blind_index("a device"),
            sealed_fingerprint=ring.seal(b"a device", trial_associated_data(7)),
            license_id=1,
            created_at=moment,
        )
    )
    portal_store.save_new_sign_in(tx, SignIn(11, -1, NOW, email="ann@example.com"))


def contents(storage: Storage) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, but for the moment at which who restores a backup believes the clock."""
    with storage.read() as tx:
        return {
            table.name: [
                dict(row._mapping)
                for row in tx.connection.execute(select(table).order_by(*table.primary_key))
                if row[0] != "clock_believed_at"
            ]
            for table in metadata.sorted_tables
            if table.name not in _NOT_COPIED
        }


@pytest.mark.parametrize(("source", "target"), [("sqlite", "postgresql"), ("postgresql", "sqlite")])
def test_every_row_is_copied_and_numbering_continues(urls: dict[str, str], source: str, target: str) -> None:
    said: dict[str, int] = {}
    with (
        closing(open_storage(urls[source], KEY_RING)) as old,
        closing(open_storage(urls[target], KEY_RING)) as new,
    ):
        fill(old)
        copy(old, new, said.__setitem__)
        before = contents(old)
        assert contents(new) == before
        assert said == {name: len(rows) for name, rows in before.items()}
        with new.read() as tx:
            assert find_session(tx, hash_session_token(TOKEN)) is None
        executor = open_executor(new)
        (record,) = executor.query([validate("A")])
        assert next(one.label for one in record.activations) == "Anna's “laptop” \\"
        record, made, generator = executor.execute([activate("A"), create("B"), create_policy()])
        assert record.license.times_activated == 2
        assert record.activations[0].id > max(row["id"] for row in before["activations"])
        assert made.license.id > max(row["id"] for row in before["licenses"])
        assert generator.id == 2
        assert issue_api_key(new, "other", Permissions.READ, NOW).api_key.id == 2


def test_the_keys_that_sign_are_copied_over_one_that_a_server_made_on_the_empty_database(
    urls: dict[str, str],
) -> None:
    with (
        closing(open_storage(urls["sqlite"], KEY_RING)) as old,
        closing(open_storage(urls["postgresql"], KEY_RING)) as new,
    ):
        open_executor(old).execute([make_first_key(), rotate_key()])
        open_executor(new).execute([make_first_key()])
        copy(old, new, lambda _table, _rows: None)
        loaded = [open_executor(one).query([LoadKeys()])[0] for one in (old, new)]
    assert loaded[0] == loaded[1]


def test_a_database_is_not_copied_into_itself(urls: dict[str, str]) -> None:
    with (
        closing(open_storage(urls["sqlite"], KEY_RING)) as old,
        closing(open_storage(urls["sqlite"], KEY_RING)) as same,
        pytest.raises(StoreError, match="the database that is to be copied"),
    ):
        copy(old, same, lambda *_: None)


def test_a_database_with_rows_is_not_copied_into(urls: dict[str, str]) -> None:
    with (
        closing(open_storage(urls["sqlite"], KEY_RING)) as old,
        closing(open_storage(urls["postgresql"], KEY_RING)) as new,
    ):
        fill(old)
        open_executor(new).execute([create("mine")])
        with pytest.raises(StoreError, match=r"already contains (licenses|events)"):
            copy(old, new, lambda *_: None)
        assert len(contents(new)["licenses"]) == 1
