"""How large SQLite's write-ahead log becomes, with readers and without."""

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from keywright.db import Storage, open_storage
from keywright.engine import idempotency
from keywright.engine.idempotency import IdempotencyRecord
from tests.makers import KEY_RING, NOW, url_of
from tests.proving import record
from tests.soak.reader import a_reader
from tests.soak.samples import MIB, wal_mib

MAX_MIB = 64
#: More than may be in the log, in pieces that are each a transaction.
PIECES = 70


class Written(NamedTuple):
    """A database, and how to write into it."""

    url: str
    storage: Storage

    def write(self, pieces: int, size: int = MIB) -> float:
        """Write so many pieces; the size of the log at its largest, in MiB."""
        largest = 0.0
        for _ in range(pieces):
            with self.storage.write() as tx:
                answer = IdempotencyRecord(b"x" * 32, 200, b"x" * size)
                scope = secrets.token_bytes(32)
                idempotency.save_idempotency_records(tx, {scope: answer}, {scope: NOW})
            largest = max(largest, wal_mib(self.url))
        return largest


@pytest.fixture
def database_file(tmp_path: Path) -> Iterator[Written]:
    url = url_of(tmp_path / "data")
    with closing(open_storage(url, KEY_RING)) as storage:
        yield Written(url, storage)


def test_without_a_long_reader_the_log_stays_small(database_file: Written) -> None:
    largest = database_file.write(PIECES)
    record("R17", "SQLite's log alone", worst={"WAL MiB": largest})
    assert largest < MAX_MIB / 8


def test_the_log_is_small_again_when_a_reader_has_let_go(database_file: Written) -> None:
    with a_reader(database_file.url) as reader:
        reader.hold()
        held = database_file.write(PIECES)
        reader.release()
        # The first one moves what is in the log into the database, the second one begins the log anew.
        database_file.write(2, size=1)
    after = wal_mib(database_file.url)
    record("R17", "control: a reader that does not let go", worst={"WAL MiB": held})
    record("R17", "SQLite's log after a reader", worst={"WAL MiB": after})
    assert held > MAX_MIB
    assert after <= MAX_MIB
