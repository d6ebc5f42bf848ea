"""The event feed: its contents, and its end."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from keywright.core import errors as e
from keywright.core.command import Context
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.events.feed import Feed, ListFeed, Reached, Subject
from keywright.licensing.usage.model import ClosePeriods
from keywright.maintenance.tasks import PurgeEvents
from tests.makers import (
    KEY,
    LATER,
    NOW,
    activate,
    an_event,
    an_origin,
    create,
    create_policy,
    delete,
    record_usage,
    set_terms,
    update,
)
from tests.storage.projected import follow_all

CONTEXT = Context(NOW, an_origin(), 1)


def ask(executor: Executor, **fields: Any) -> Feed:
    limit = fields.pop("limit", 50)
    (feed,) = executor.query([ListFeed(now=fields.pop("now", NOW), limit=limit, **fields)])
    assert isinstance(feed, Feed), feed
    return feed


def names(feed: Feed) -> list[str]:
    return [one.event.name for one in feed.events]


def some_events(executor: Executor) -> None:
    executor.execute([create(KEY, product_id=5), create("OTHER"), activate(KEY)])
    executor.execute([create_policy(product_id=5), update("OTHER", now=LATER, product_id=6)])
    follow_all(executor)


def test_events_are_read_oldest_first_and_once(executor: Executor) -> None:
    some_events(executor)
    first = ask(executor, limit=2)
    assert names(first) == ["license.created", "license.created"]
    rest = ask(executor, after=first.reached)
    assert sorted(names(rest)) == ["license.activated", "license.updated", "policy.created"]
    end = ask(executor, after=rest.reached)
    assert end.events == ()
    assert end.reached.id == rest.reached.id
    executor.execute([activate(KEY)])
    follow_all(executor)
    assert names(ask(executor, after=end.reached)) == ["license.activated"]


def test_events_are_filtered(executor: Executor) -> None:
    some_events(executor)
    assert names(ask(executor, name="license.created")) == ["license.created"] * 2
    assert set(names(ask(executor, name="policy."))) == {"policy.created"}
    assert names(ask(executor, subject=Subject("license", 1))) == ["license.created", "license.activated"]
    assert names(ask(executor, subject=Subject("policy", 1))) == ["policy.created"]
    assert names(ask(executor, since=LATER)) == ["license.updated"]
    assert "license.updated" not in names(ask(executor, until=LATER))
    assert ask(executor, subject=Subject("license", 2**60)).events == ()


def test_a_filter_that_nothing_meets_reaches_the_end(executor: Executor) -> None:
    some_events(executor)
    whole = ask(executor)
    assert ask(executor, name="user.").reached.id == whole.reached.id
    assert ask(executor, subject=Subject("license", 99)).reached.id == whole.reached.id


def test_a_key_for_one_product_sees_its_events(executor: Executor) -> None:
    some_events(executor)
    expected = ["license.activated", "license.created", "policy.created"]
    assert sorted(names(ask(executor, only_product_id=5))) == expected
    executor.execute(
        [set_terms({"meters": {"exports": {"limit": 1, "per": "day"}}}), record_usage("exports")]
    )
    executor.execute([delete(KEY)])
    # Its usage periods are closed after its deletion.
    context = Context(NOW + timedelta(days=2), an_origin())
    executor.execute([ClosePeriods(context=context, license_ids=(1,))])
    follow_all(executor)
    last = {"license.deleted", "usage.period_closed"}
    assert last <= set(names(ask(executor, only_product_id=5)))
    assert last.isdisjoint(names(ask(executor, only_product_id=6)))


def test_a_cursor_that_is_older_than_what_is_kept_is_refused(executor: Executor, storage: Storage) -> None:
    with storage.write() as tx:
        event_store.save_events(
            tx, [an_event(occurred_at=NOW + timedelta(days=i), license_id=0) for i in range(4)]
        )
    follow_all(executor)
    first = ask(executor, limit=1)
    executor.execute([PurgeEvents(context=CONTEXT, before=NOW + timedelta(days=3))])
    (refused,) = executor.query([ListFeed(now=NOW, limit=5, after=first.reached)])
    assert isinstance(refused, e.CursorTooOld)
    assert len(ask(executor).events) == 1
    # A reader that was at the end when the events were deleted has missed nothing.
    up_to_date = replace_time(first.reached, NOW + timedelta(days=3))
    assert len(ask(executor, after=up_to_date).events) == 1
    # Nor has a reader whose next event still exists.
    assert len(ask(executor, after=Reached(3, 0)).events) == 1


def replace_time(reached: Reached, at: Any) -> Reached:
    return reached._replace(seen_at=int(at.timestamp()))


def test_an_event_behind_a_gap_is_not_shown_before_it_is_settled(
    executor: Executor, storage: Storage, database: str
) -> None:
    executor.execute([create(KEY)])
    follow_all(executor)
    seen = ask(executor)
    if database == "sqlite":
        return
    with storage.write() as tx:
        tx.connection.exec_driver_sql("SELECT nextval('events_id_seq')")
    executor.execute([activate(KEY)])
    assert ask(executor, after=seen.reached).events == ()
    follow_all(executor)
    assert names(ask(executor, after=seen.reached)) == ["license.activated"]


def test_what_follows_without_a_gap_is_shown_at_once(executor: Executor) -> None:
    executor.execute([create(KEY)])
    follow_all(executor)
    seen = ask(executor)
    executor.execute([activate(KEY)])
    now = ask(executor, after=seen.reached)
    assert names(now) == ["license.activated"]
    executor.execute([replace(activate(KEY), label="x")])
    assert names(ask(executor, after=now.reached)) == ["license.activated"]
