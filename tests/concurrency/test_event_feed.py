"""Events of several servers that write at once, read by one that starts again and again: none is left out,
none comes twice.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from time import monotonic

import pytest

from keywright.db import Storage, open_storage, run_read
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.events.feed import Feed, ListFeed, Reached
from keywright.licensing.licenses.model import Status
from keywright.registry import open_executor
from keywright.search import feed as feeds
from tests.databases import a_postgres_url
from tests.makers import KEY_RING, an_event, create, update
from tests.proving import record, size
from tests.storage.projected import follow

DATABASES = ("postgresql",)
WRITERS, OF_A_BATCH = 4, 25
EVENTS = size(10_000, 1_000_000) // WRITERS
TIMEOUT = 120


def ask(reader: Executor, reached: Reached | None) -> Feed:
    (feed,) = reader.query([ListFeed(now=datetime.now(UTC), limit=200, after=reached)])
    assert isinstance(feed, Feed), feed
    return feed


class Reader:
    """Reads on from a cursor, each time as a new process would."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.reached: Reached | None = None
        self.seen: list[int] = []
        self.starts = 0

    def read(self) -> None:
        self.starts += 1
        with closing(open_storage(self._url, KEY_RING)) as storage, closing(open_executor(storage)) as reader:
            for _ in range(10):
                feed = ask(reader, self.reached)
                self.seen += [one.id for one in feed.events]
                self.reached = feed.reached


def write(url: str, number: int) -> None:
    """Change a license again and again; some transactions are undone, and leave ids without an event, and
    some are slow.
    """
    with closing(open_storage(url, KEY_RING)) as storage, closing(open_executor(storage)) as writer:
        key = f"KEY-{number}"
        writer.execute([create(key)])
        for round in range(EVENTS // OF_A_BATCH):
            statuses = (Status.ACTIVE, Status.DISABLED)
            writer.execute([update(key, status=statuses[i % 2]) for i in range(OF_A_BATCH)])
            if round % 10 == number:
                undo(storage)
                write_slowly(storage)


def write_slowly(storage: Storage) -> None:
    """Commit an event some time after it was numbered, as where a commit waits for a standby."""
    with storage.write() as tx:
        event_store.save_events(tx, [an_event(license_id=0)])
        tx.connection.exec_driver_sql("SELECT pg_sleep(0.02)")


def undo(storage: Storage) -> None:
    """Take an id of an event, and give it up."""
    with suppress(_UndoneError), storage.write() as tx:
        tx.connection.exec_driver_sql("SELECT nextval('events_id_seq')")
        raise _UndoneError


class _UndoneError(Exception):
    pass


@contextmanager
def projecting(url: str) -> Iterator[None]:
    """The projector runs beside the block, as in one of the servers."""
    is_over = threading.Event()

    def run() -> None:
        with closing(open_storage(url, KEY_RING)) as storage, closing(open_executor(storage)) as executor:
            while not is_over.wait(0.02):
                executor.execute([follow()])

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def run_all(url: str) -> tuple[list[int], list[int], int]:
    """The ids that the reader saw, in order, those there are, and how often it started."""
    reader = Reader(url)
    writers = [threading.Thread(target=write, args=(url, i)) for i in range(WRITERS)]
    with projecting(url):
        for one in writers:
            one.start()
        while any(one.is_alive() for one in writers):
            reader.read()
        with closing(open_storage(url, KEY_RING)) as storage:
            there = run_read(storage, lambda tx: sorted(_list_ids(tx)))
        end = monotonic() + TIMEOUT
        while (reader.reached is None or reader.reached.id < there[-1]) and monotonic() < end:
            reader.read()
    return reader.seen, there, reader.starts


def _list_ids(tx: object) -> list[int]:
    found = tx.connection.exec_driver_sql("SELECT id FROM events").scalars()  # type: ignore[attr-defined]
    return list(found)


def test_a_reader_that_starts_again_sees_every_event_once(database: str) -> None:
    with a_postgres_url() as url:
        seen, there, readers = run_all(url)
    doubled, missing = sum(Counter(seen).values()) - len(set(seen)), len(set(there) - set(seen))
    figures = {"events": len(there), "readers": readers, "missing": missing, "doubled": doubled}
    record("R21", "4 writing servers, postgresql", figures)
    assert len(there) > WRITERS * EVENTS
    assert there[-1] > len(there)  # Ids are missing.
    assert (doubled, missing) == (0, 0)
    assert seen == there


def test_a_reader_of_whatever_is_committed_leaves_events_out(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the id up to which no event can still come, this test fails."""

    def find_newest_id(tx: object, _seen_id: int) -> int:
        return int(max(_list_ids(tx), default=0))

    monkeypatch.setattr(feeds, "find_visible_id", find_newest_id)
    with a_postgres_url() as url:
        seen, there, _ = run_all(url)
    left_out = len(set(there) - set(seen))
    record("R21", "control: reads whatever is committed", {"missing": left_out})
    assert left_out
