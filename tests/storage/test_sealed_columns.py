"""The registry of data that depends on the secret is complete."""

import re
from pathlib import Path

from sqlalchemy import LargeBinary, select

from keywright.db import Storage, run_write
from keywright.db.schema import metadata
from keywright.db.sealed_columns import PLAIN_HASHES, SEALED_COLUMNS
from keywright.jobs import store as jobs
from tests.makers import KEY_RING
from tests.storage.test_copy import fill


def test_every_column_of_bytes_is_in_the_registry_once() -> None:
    columns = [one for table in metadata.sorted_tables for one in table.c]
    binary = [str(one) for one in columns if isinstance(one.type, LargeBinary)]
    sealed = [one.column for one in SEALED_COLUMNS]
    indexes = [one.blind_index for one in SEALED_COLUMNS if one.blind_index is not None]
    assert sorted(binary) == sorted(map(str, [*sealed, *indexes, *PLAIN_HASHES])), "see sealed_columns.py"


def test_values_are_sealed_with_the_secret_in_force() -> None:
    source = Path(__file__).parents[2] / "src" / "keywright"
    for module in source.rglob("*store.py"):
        wrong = re.findall(r"key_ring\.(?:seal\w*|blind_index)\(", module.read_text())
        assert wrong == [], f"{module.name}: write with tx.sealing, find with key_ring.blind_indexes"


def test_a_value_is_read_at_no_other_place(storage: Storage) -> None:
    """Someone who alters a database, or an unsigned backup, cannot move a sealed value to another row."""
    fill(storage)
    run_write(storage, lambda tx: jobs.save_chunks(tx, 7, [(2, b"a chunk")]))
    places = {}
    with storage.read() as tx:
        for one in SEALED_COLUMNS:
            for row in tx.connection.execute(select(one.table).limit(3)):
                places[str(one.column), one.associated_data(row)] = row._mapping[one.column]
    assert {name for name, _ in places} == {str(one.column) for one in SEALED_COLUMNS}
    read = []
    for (name, place), sealed in places.items():
        for other, associated_data in places:
            # A license's current key and its replaced one share their associated data.
            if associated_data != place and sealed is not None:
                try:
                    KEY_RING.unseal(sealed, associated_data)
                except ValueError:
                    continue
                read.append((name, other))
    assert read == []


def test_values_in_the_registry_can_be_unsealed_with_their_associated_data(storage: Storage) -> None:
    fill(storage)
    run_write(storage, lambda tx: jobs.save_chunks(tx, 7, [(2, b"a chunk")]))
    with storage.read() as tx:
        for one in SEALED_COLUMNS:
            rows = tx.connection.execute(select(one.table)).all()
            assert rows, f"{one.table} is empty: let fill() insert a row"
            for row in rows:
                plain = KEY_RING.unseal(row._mapping[one.column], one.associated_data(row))
                if one.blind_index is not None:
                    assert KEY_RING.blind_index(plain.decode()) == row._mapping[one.blind_index]
