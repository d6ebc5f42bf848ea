"""On PostgreSQL, an event may appear below existing ones, or never, because event IDs are assigned before the
commit. SQLite has a single writer.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from keywright.core.command import Context
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.events import store
from keywright.events import store as event_store
from keywright.events.feed import ListFeed
from keywright.events.model import SettleEvents
from keywright.search.projector import Projected
from tests.databases import execute
from tests.makers import NOW, activate, an_event, an_origin, create
from tests.storage.projected import assert_followed, follow_all, lag, list_terms, project

DATABASES = ("postgresql",)
pytestmark = pytest.mark.of_the_database

_EVENT = (
    "INSERT INTO events (occurred_at, name, license_id, activation_id, actor, ip_address) "
    "SELECT 0, 'license.activated', license_id, id, 'program', '' FROM activations WHERE token = %s "
    "RETURNING id"
)
_PLACE = (
    "INSERT INTO activations (license_id, token, id, source, ip_address, user_agent, created_at) "
    "VALUES (1, %s, %s, 2, '198.51.100.7', '', 0)"
)


class Late:
    """An open transaction that has written an event."""

    def __init__(self, connection: psycopg.Connection[tuple[int]], number: int) -> None:
        self.connection = connection
        self.token = f"{number:040x}"
        connection.execute(_PLACE, (self.token, number))
        row = connection.execute(_EVENT, (self.token,)).fetchone()
        assert row is not None
        self.event = row[0]


@contextmanager
def late(url: str, number: int = 10**6) -> Iterator[Late]:
    with closing(psycopg.connect(url)) as connection:
        yield Late(connection, number)


def steps(executor: Executor, number: int = 5) -> Projected:
    """Run this many steps; return the last."""
    for _ in range(number - 1):
        project(executor)
    return project(executor)


def test_an_event_that_appears_below_others_is_not_skipped(
    executor: Executor, storage: Storage, url: str
) -> None:
    executor.execute([create("a"), create("b")])
    follow_all(executor)
    with late(url) as one:
        executor.execute([activate("b"), create("c")])
        step = steps(executor)
        assert (step.rows, step.lag.behind) == (0, 3)
        assert not any(one.token in term for term, _, _ in list_terms(storage))
        one.connection.commit()
    follow_all(executor)
    assert (f"t{one.token}", 1, 10**6) in list_terms(storage)
    assert_followed(storage)


def test_events_before_one_that_may_still_appear_are_followed(
    executor: Executor, storage: Storage, url: str
) -> None:
    executor.execute([create("a"), create("b")])
    follow_all(executor)
    executor.execute([create("c")])
    with late(url):
        executor.execute([create("d")])
        assert (project(executor).rows, project(executor).rows) == (1, 0)
        assert lag(storage).behind == 2


def test_a_number_that_was_given_up_is_not_waited_for_for_ever(
    executor: Executor, storage: Storage, url: str
) -> None:
    executor.execute([create("a"), create("b")])
    follow_all(executor)
    with late(url) as one:
        executor.execute([activate("b")])
        assert steps(executor).lag.behind == 2
        one.connection.rollback()
        assert steps(executor, 3).lag.is_complete
    assert_followed(storage)


def test_one_that_began_after_a_number_was_missing_is_not_waited_for(
    executor: Executor, storage: Storage, url: str
) -> None:
    executor.execute([create("a"), create("b")])
    follow_all(executor)
    with late(url) as first:
        executor.execute([activate("b")])
        steps(executor, 2)
        with late(url, 2 * 10**6) as second:
            first.connection.rollback()
            assert steps(executor, 2).lag.behind == 0
            executor.execute([activate("b")])
            assert steps(executor).lag.behind == 2
            second.connection.commit()
    follow_all(executor)
    assert (f"t{second.token}", 1, 2 * 10**6) in list_terms(storage)
    assert_followed(storage)


def test_one_that_began_early_and_wrote_late_does_not_hide_one_that_began_later(
    executor: Executor, storage: Storage, url: str
) -> None:
    """Transaction IDs and event IDs are not in the same order."""
    executor.execute([create("a"), create("b")])
    follow_all(executor)
    with closing(psycopg.connect(url)) as early:
        early.execute("SELECT pg_current_xact_id()")
        with late(url) as one:
            assert Late(early, 2 * 10**6).event > one.event
            early.commit()
            assert steps(executor).lag.behind == 2
            one.connection.commit()
    follow_all(executor)
    assert (f"t{one.token}", 1, 10**6) in list_terms(storage)
    assert_followed(storage)


def test_one_that_began_before_a_number_was_missing_holds_the_search_up_and_nothing_is_lost(
    executor: Executor, storage: Storage, url: str
) -> None:
    """It could still write an event with that ID."""
    executor.execute([create("a"), create("b")])
    follow_all(executor)
    with closing(psycopg.connect(url)) as long:
        long.execute("SELECT pg_current_xact_id()")
        with late(url) as one:
            executor.execute([activate("b")])
            one.connection.rollback()
        assert steps(executor).lag.behind == 2
        long.rollback()
    assert steps(executor, 2).lag.is_complete
    assert_followed(storage)


def test_following_does_not_begin_before_it_is_known_what_is_there(
    executor: Executor, storage: Storage, url: str
) -> None:
    executor.execute([create("a"), create("b")])
    with late(url) as one:
        executor.execute([activate("b"), create("c")])
        assert steps(executor).rows == 0
        assert list_terms(storage) == []
        one.connection.commit()
    follow_all(executor)
    assert (f"t{one.token}", 1, 10**6) in list_terms(storage)
    assert_followed(storage)


def test_a_database_that_was_copied_from_a_server_further_on_is_followed(
    executor: Executor, storage: Storage, url: str
) -> None:
    executor.execute([create("a"), create("b")])
    follow_all(executor)
    with late(url) as one:
        executor.execute([activate("b")])
        steps(executor, 2)
        one.connection.rollback()
    execute(url, "UPDATE checkpoints SET last_id = 2^60 WHERE name = 'settled_after'")
    assert steps(executor, 2).lag.is_complete
    assert_followed(storage)


def test_who_meets_somebody_who_follows_leaves_it_to_them(
    executor: Executor, storage: Storage, url: str
) -> None:
    follow_all(executor)
    executor.execute([create("a"), create("b")])
    with closing(psycopg.connect(url)) as other:
        other.execute("SELECT 1 FROM checkpoints WHERE name = 'events' FOR UPDATE")
        step = project(executor)
        assert (step.rows, step.lag.behind) == (0, 2)
        # The server ends a session some time after it was closed.
        other.rollback()
    assert project(executor).rows == 2
    assert_followed(storage)


# --- what is settled, is projected or not ---------------------------------------------------------


def settle(executor: Executor) -> bool:
    [is_all] = executor.execute([SettleEvents(context=Context(NOW, an_origin()))])
    assert isinstance(is_all, bool), is_all
    return is_all


def list_seen(executor: Executor) -> list[int]:
    """The licenses of all events that can be listed now."""
    [feed] = executor.query([ListFeed(now=NOW, limit=200)])
    return [one.event.license_id for one in feed.events]


def test_events_above_a_gap_are_listed_although_nobody_projects(
    executor: Executor, storage: Storage, url: str
) -> None:
    executor.execute([create("a")])
    follow_all(executor)
    with late(url) as one:
        executor.execute([create("b")])
        assert not settle(executor)
        assert list_seen(executor) == [1]
        one.connection.rollback()
        assert settle(executor)
    assert list_seen(executor) == [1, 2]
    assert lag(storage).behind == 2
    follow_all(executor)
    assert_followed(storage)


def test_where_nobody_else_writes_one_look_is_enough(executor: Executor, storage: Storage, url: str) -> None:
    execute(url, "SELECT nextval('events_id_seq')")
    executor.execute([create("a")])
    assert list_seen(executor) == []
    assert settle(executor)
    assert list_seen(executor) == [1]
    # If there is nothing to settle, nothing is written.
    with storage.write() as tx:
        assert store.settle(tx) == 2
        assert tx.connection.exec_driver_sql("SELECT pg_current_xact_id_if_assigned()").scalar() is None


def test_a_transaction_that_has_its_number_already_settles_nothing(storage: Storage, url: str) -> None:
    """Another transaction, with a larger ID, may have an event ID below the newest one."""
    with storage.write() as tx, closing(psycopg.connect(url)) as other:
        tx.connection.execute(event_store.BEGIN_TO_WRITE)
        other.execute("SELECT pg_current_xact_id(), nextval('events_id_seq')")
        with storage.clone().write() as third:
            event_store.save_events(third, [an_event(license_id=0)])
        assert store.settle(tx) == 0
        other.rollback()
    with storage.write() as tx:
        assert store.settle(tx) == 2


def test_where_another_process_settles_nobody_waits(executor: Executor, url: str) -> None:
    execute(url, "SELECT nextval('events_id_seq')")
    executor.execute([create("a")])
    assert settle(executor)
    executor.execute([create("b")])
    with closing(psycopg.connect(url)) as other:
        other.execute("SELECT 1 FROM checkpoints WHERE name = 'settled' FOR UPDATE")
        assert not settle(executor)
        other.rollback()
    assert settle(executor)
