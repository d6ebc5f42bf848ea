"""Everything that the secret plays a part in is on one list, which is complete."""

import re
from pathlib import Path

from sqlalchemy import Column, LargeBinary, select

from keywright.db import Storage, run_write, sealed
from keywright.db.schema import BLIND_INDEX, PLAIN_HASH, SEALED, metadata
from keywright.jobs import store as jobs
from tests.makers import KEY_RING
from tests.storage.test_copy import fill

COLUMNS = [column for table in metadata.sorted_tables for column in table.c]


def names(*columns: Column[bytes]) -> set[str]:
    return {str(one) for one in columns}


def test_every_column_of_bytes_says_what_it_holds() -> None:
    silent = [one for one in COLUMNS if isinstance(one.type, LargeBinary) and not one.info]
    assert names(*silent) == set(), "say SEALED, BLIND_INDEX or PLAIN_HASH in schema.py"
    assert all(one.info in (SEALED, BLIND_INDEX, PLAIN_HASH) for one in COLUMNS if one.info)


def test_every_sealed_column_and_every_blind_index_is_on_the_list() -> None:
    said = [one for one in COLUMNS if one.info == SEALED]
    assert names(*said) == names(*(one.column for one in sealed.ALL)), "add it to storage/sealed.py"
    said = [one for one in COLUMNS if one.info == BLIND_INDEX]
    assert names(*said) == names(*(one.blind_index for one in sealed.ALL if one.blind_index is not None))


def test_rows_are_sealed_with_the_secret_that_the_database_is_written_with() -> None:
    for source in Path(sealed.__file__).parent.rglob("*.py"):
        wrong = re.findall(r"key_ring\.(?:seal\w*|blind_index)\(", source.read_text())
        assert wrong == [], f"{source.name}: write with tx.sealing, look with key_ring.blind_indexes"


def test_what_is_on_the_list_can_be_unsealed_where_the_list_says(storage: Storage) -> None:
    fill(storage)
    run_write(storage, lambda tx: jobs.save_chunk(tx, 7, 2, b"a piece"))
    with storage.read() as tx:
        for one in sealed.ALL:
            rows = tx.connection.execute(select(one.table)).all()
            assert rows, f"there is nothing in {one.table}: let fill() put something there"
            for row in rows:
                plain = KEY_RING.unseal(row._mapping[one.column], one.place(row))
                if one.blind_index is not None:
                    assert KEY_RING.blind_index(plain.decode()) == row._mapping[one.blind_index]
