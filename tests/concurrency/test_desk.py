"""The desk with a real database: who shares a transaction, who waits for whom, and who does not."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from keywright.core.command import Command, Cost, Query
from keywright.core.errors import (
    Fault,
    QueueFull,
    ShuttingDown,
    StoreUnavailable,
    UnknownLicense,
    WaitedTooLong,
)
from keywright.db import WriteTransaction, open_storage, run_write, sqlite
from keywright.engine.desk import Desk
from keywright.engine.executor import Executor, Outcome
from keywright.engine.lane import MAX_BATCH
from keywright.events.feed import LookAtFeed
from keywright.jobs.model import JobStep
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activate, FindLicenses, ListLicenses
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from keywright.licensing.usage.model import ClosePeriods
from keywright.registry import make_registry, open_executor
from tests.concurrency.desks import AnAsker, Observed, a_desk, a_url, in_a_loop, results, start_calls, turns
from tests.makers import (
    KEY,
    KEY_RING,
    LATER,
    NOW,
    a_license,
    a_retry,
    a_storage,
    activate,
    an_activation,
    create,
    create_policy,
    generate,
    purge_idempotency_records,
    validate,
)


@contextmanager
def open_observed(database: str, folder: Path) -> Iterator[Observed]:
    """A database with a license."""
    with a_url(database, folder) as url, closing(open_storage(url, KEY_RING)) as inner:
        open_executor(inner).execute([create()])
        storage = Observed(inner)
        yield storage
        storage.go_on.set()


@pytest.fixture
def storage(database: str, tmp_path: Path) -> Iterator[Observed]:
    with open_observed(database, tmp_path) as storage:
        yield storage


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Observed]:
    """A database whose answers come at once."""
    with open_observed("sqlite", tmp_path) as storage:
        yield storage


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Observed]:
    """A database at the other end of a network."""
    with open_observed("postgresql", tmp_path) as storage:
        yield storage


@in_a_loop
async def test_calls_that_arrive_together_share_a_transaction(storage: Observed) -> None:
    desk = a_desk(storage)
    assert desk.is_local is storage.is_local
    outcomes = await results(*(desk.execute(activate()) for _ in range(100)))
    assert sorted(one.license.times_activated for one in outcomes) == list(range(1, 101))
    assert storage.writes == [storage.place]


@in_a_loop
async def test_questions_that_arrive_together_share_a_transaction(storage: Observed) -> None:
    desk = a_desk(storage)
    await results(*(desk.query(validate()) for _ in range(100)))
    assert (storage.reads, storage.writes) == (1, [])


@in_a_loop
async def test_every_batch_is_observed_and_every_command_told_to_its_listener(storage: Observed) -> None:
    batches: list[tuple[str, int]] = []
    commands: list[str] = []
    desk = a_desk(
        storage,
        observe=lambda lane, calls, _seconds: batches.append((lane, calls)),
        listeners={Activate: lambda: commands.append("activate")},
    )
    await results(*(desk.execute(activate()) for _ in range(3)), desk.query(validate()))
    assert sorted(batches) == [("changes", 3), ("queries", 1)]
    assert commands == ["activate"] * 3


@in_a_loop
async def test_calls_join_while_the_loop_still_brings_new_ones(storage: Observed) -> None:
    desk = a_desk(storage)
    for batch in (1, 2):
        calls = []
        for _ in range(10):
            calls += start_calls(desk.execute(activate()))
            await turns(1)
        await asyncio.gather(*calls)
        assert storage.writes == [storage.place] * batch


@in_a_loop
async def test_no_more_than_the_most_are_decided_together(storage: Observed) -> None:
    desk = a_desk(storage)
    await results(*(desk.execute(activate()) for _ in range(2 * MAX_BATCH + 1)))
    assert len(storage.writes) == 3


@in_a_loop
async def test_a_lone_call_is_served_at_once(near: Observed) -> None:
    desk = a_desk(near)
    run_write, question = start_calls(desk.execute(activate()), desk.query(validate()))
    await turns(5)
    assert run_write.done()
    assert question.done()
    assert (near.writes, near.waits) == (["in place"], [0])


@in_a_loop
async def test_each_caller_gets_its_own_outcome(storage: Observed) -> None:
    desk = a_desk(storage)
    await desk.execute(create("other", 1))
    outcomes = await results(
        desk.execute(activate("other")),
        desk.execute(activate("unknown")),
        desk.execute(activate("other")),
        desk.execute(create("bad", order_id=2**63)),
        desk.execute(activate(KEY)),
    )
    assert [type(one).__name__ for one in outcomes] == [
        "LicenseRecord",
        "UnknownLicense",
        "LimitReached",
        "RejectedByDatabase",
        "LicenseRecord",
    ]
    with pytest.raises(UnknownLicense):
        await desk.query(validate("unknown"))


@in_a_loop
async def test_a_caller_that_went_away_while_it_waited_is_not_decided_and_stops_no_other(
    storage: Observed,
) -> None:
    desk = a_desk(storage)
    first, canceled, last = start_calls(*(desk.execute(activate()) for _ in range(3)))
    gone = AnAsker(is_gone=True)
    hung_up = start_calls(
        desk.execute(activate(), gone), desk.execute(activate(idempotency=a_retry("call")), gone)
    )
    await turns(1)
    canceled.cancel()
    assert [one.license.times_activated for one in (await first, await last)] == [1, 2]
    assert canceled.cancelled()
    assert [type(one.exception()) for one in hung_up] == [WaitedTooLong, WaitedTooLong]
    assert gone.is_begun is False
    with pytest.raises(WaitedTooLong):
        await desk.query(validate(), gone)
    assert (await desk.query(validate())).license.times_activated == 2


@in_a_loop
async def test_a_lane_in_which_everybody_has_gone_serves_who_comes_then_and_can_be_closed(
    storage: Observed,
) -> None:
    desk = a_desk(storage)
    for _ in range(2):
        with pytest.raises(WaitedTooLong):
            await desk.execute(activate(), AnAsker(is_gone=True))
    assert storage.writes == []
    asker = AnAsker()
    assert (await desk.execute(activate(), asker)).license.times_activated == 1
    assert asker.is_begun
    (gone,) = start_calls(desk.execute(activate(), AnAsker(is_gone=True)))
    await turns(1)
    await desk.close()
    assert isinstance(gone.exception(), WaitedTooLong)


@in_a_loop
async def test_what_waits_for_too_long_behind_another_call_is_refused_before_that_ends(
    storage: Observed,
) -> None:
    desk = a_desk(storage, answer_within=0.01)
    number = (await desk.execute(create_policy())).id
    storage.go_on.clear()
    (long,) = start_calls(desk.execute(generate(number, 1)))
    await turns(5)
    outcomes = await results(*(desk.execute(activate()) for _ in range(3)))
    assert [type(one) for one in outcomes] == [WaitedTooLong] * 3
    assert not long.done()
    storage.go_on.set()
    assert len(await long) == 1
    assert (await desk.execute(activate())).license.times_activated == 1
    await desk.close()


@in_a_loop
async def test_a_caller_that_went_away_while_its_call_is_decided_does_not_stop_the_others(
    storage: Observed,
) -> None:
    desk = a_desk(storage)
    number = (await desk.execute(create_policy())).id
    storage.go_on.clear()
    gone, next_one = start_calls(desk.execute(generate(number, 1)), desk.execute(activate()))
    await turns(5)
    gone.cancel()
    storage.go_on.set()
    assert (await next_one).license.times_activated == 1
    await desk.close()


@in_a_loop
async def test_a_full_queue_refuses_at_once_and_recovers(storage: Observed) -> None:
    desk = a_desk(storage, most_waiting=2)
    calls = start_calls(*(desk.execute(activate()) for _ in range(4)), desk.query(validate()))
    await turns(1)
    assert desk.waiting == 3
    assert [one.done() for one in calls] == [False, False, True, True, False]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, QueueFull) for one in outcomes] == [False, False, True, True, False]
    assert desk.waiting == 0
    assert (await desk.execute(activate())).license.times_activated == 3


@in_a_loop
async def test_a_full_lane_of_changes_leaves_room_for_questions(storage: Observed) -> None:
    desk = a_desk(storage, most_waiting=1)
    outcomes = await results(
        desk.execute(activate()), desk.execute(activate()), desk.query(validate()), desk.query(validate())
    )
    assert [isinstance(one, QueueFull) for one in outcomes] == [False, True, False, True]


@in_a_loop
async def test_closing_finishes_what_was_accepted_and_refuses_what_comes(storage: Observed) -> None:
    desk = a_desk(storage)
    accepted = start_calls(*(desk.execute(activate()) for _ in range(300)), desk.query(validate()))
    await turns(1)
    await desk.close()
    assert all(one.done() for one in accepted)
    assert sorted(one.result().license.times_activated for one in accepted[:-1]) == list(range(1, 301))
    step = ClosePeriods(context=activate().context, license_ids=())
    for call in (desk.execute(activate()), desk.execute(step), desk.query(validate())):
        with pytest.raises(ShuttingDown):
            await call


@in_a_loop
async def test_closing_refuses_questions_too_while_changes_are_finished(storage: Observed) -> None:
    desk = a_desk(storage)
    number = (await desk.execute(create_policy())).id
    storage.go_on.clear()
    (accepted,) = start_calls(desk.execute(generate(number, 1)))
    await turns(5)
    (closing_down,) = start_calls(desk.close())
    await turns(5)
    for call in (desk.execute(activate()), desk.query(validate())):
        with pytest.raises(ShuttingDown):
            await call
    assert not closing_down.done()
    storage.go_on.set()
    await closing_down
    assert len(accepted.result()) == 1


@in_a_loop
async def test_closing_an_idle_desk_is_done_at_once_and_can_be_repeated(storage: Observed) -> None:
    desk = a_desk(storage)
    await desk.close()
    await desk.close()


@in_a_loop
async def test_a_long_command_is_decided_aside_while_questions_go_on(near: Observed) -> None:
    there_before = set(threading.enumerate())
    desk = a_desk(near)
    number = (await desk.execute(create_policy())).id
    near.writes.clear()
    near.go_on.clear()
    before, long, after = start_calls(
        desk.execute(activate()), desk.execute(generate(number, 3)), desk.execute(activate())
    )
    answer = await desk.query(validate())
    assert answer.license.key == KEY
    await before
    await turns(5)
    assert not long.done()
    assert not after.done()
    (aside,) = set(threading.enumerate()) - there_before
    assert aside.name.startswith("desk")
    near.go_on.set()
    assert len(await long) == 3
    assert (await after).license.times_activated == 2
    assert near.writes == ["in place", "aside", "in place"]
    assert await desk.execute(purge_idempotency_records(LATER)) == 0
    assert near.writes[3:] == ["aside"]
    assert set(threading.enumerate()) - there_before == {aside}
    await desk.close()
    assert not aside.is_alive()


@in_a_loop
async def test_waiting_for_another_process_happens_aside_while_questions_go_on(
    near: Observed, tmp_path: Path
) -> None:
    desk = a_desk(near)
    with closing(a_storage(tmp_path)) as other:
        with other.write():
            calls = start_calls(*(desk.execute(activate()) for _ in range(3)))
            assert (await desk.query(validate())).license.times_activated == 0
            await turns(5)
            assert near.writes == ["in place", "aside"]
            assert not any(one.done() for one in calls)
        outcomes = await asyncio.gather(*calls)
        assert [one.license.times_activated for one in outcomes] == [1, 2, 3]
        assert (await desk.execute(activate())).license.times_activated == 4
    assert near.writes == ["in place", "aside", "in place"]
    await desk.close()


@in_a_loop
async def test_waiting_in_vain_is_told_to_each_caller_and_the_desk_goes_on(
    near: Observed, tmp_path: Path
) -> None:
    patient = a_desk(near)
    number = (await patient.execute(create_policy())).id
    await patient.close()
    desk = a_desk(near, answer_within=0.01)
    with closing(a_storage(tmp_path)) as other:
        with other.write():
            outcomes = await results(
                desk.execute(activate()), desk.execute(activate()), desk.execute(generate(number, 1))
            )
        assert [type(one) for one in outcomes] == [WaitedTooLong] * 3
        # On a busy machine, it may take a few calls until one is decided in time.
        while isinstance(outcome := (await results(desk.execute(activate())))[0], WaitedTooLong):
            pass
        assert outcome.license.times_activated == 1
    await desk.close()


@in_a_loop
async def test_who_goes_while_another_process_is_writing_leaves_the_batch(
    near: Observed, tmp_path: Path
) -> None:
    desk = a_desk(near)
    going = AnAsker()
    with closing(a_storage(tmp_path)) as other:
        with other.write():
            gone, stays = start_calls(desk.execute(activate(), going), desk.execute(activate()))
            await turns(5)
            assert going.is_begun
            going.is_gone = True
            with pytest.raises(WaitedTooLong):
                await gone
            assert not stays.done()
        assert (await stays).license.times_activated == 1
    await desk.close()


@in_a_loop
async def test_lists_are_read_alone_and_aside_while_questions_and_changes_go_on(storage: Observed) -> None:
    desk = a_desk(storage)
    await desk.execute(create("other"))
    storage.go_on.clear()
    page = ListLicenses(where=LicenseFilter(), page=1, per_page=1)
    piece = FindLicenses(where=LicenseFilter(), after_id=0, limit=9)
    lists = start_calls(desk.query(page), desk.query(piece))
    await turns(5)
    for _ in range(3):
        assert (await desk.query(validate())).license.key == KEY
    storage.go_on.set()
    assert (await desk.execute(activate())).license.times_activated == 1
    found, some = await asyncio.gather(*lists)
    assert (found.total, len(found.records), len(some)) == (2, 1, 2)
    (beside,) = storage.others
    assert (beside.reads, storage.reads) == (2, 3)
    await desk.close()


def save_a_large_license(storage: Observed) -> None:
    """One with so many records that it is read alone."""
    records = [an_activation(id=n, token=f"{n:040x}", license_id=9, deactivated_at=NOW) for n in range(501)]

    def insert(tx: WriteTransaction) -> None:
        license_store.save_new_licenses(tx, [a_license(id=9, key="large", deactivated_count=501)])
        activation_store.save_new_activations(tx, records)

    run_write(storage.inner, insert)


@in_a_loop
async def test_a_license_with_very_many_records_is_read_alone_and_aside(storage: Observed) -> None:
    save_a_large_license(storage)
    desk = a_desk(storage)
    storage.go_on.clear()
    (large,) = start_calls(desk.query(validate("large")))
    for _ in range(3):
        await turns(5)
        assert (await desk.query(validate())).license.key == KEY
    assert not large.done()
    storage.go_on.set()
    assert len((await large).activations) == 501
    (beside,) = storage.others
    assert beside.reads == 1
    closed: list[Observed] = []
    beside.close = lambda: closed.append(beside)  # type: ignore[method-assign]
    await desk.close()
    assert closed == [beside]
    beside.inner.close()


@in_a_loop
async def test_who_goes_while_another_large_license_is_read_is_not_answered(storage: Observed) -> None:
    save_a_large_license(storage)
    desk, going = a_desk(storage), AnAsker()
    storage.go_on.clear()
    (first,) = start_calls(desk.query(validate("large")))
    await turns(9)
    (gone,) = start_calls(desk.query(validate("large"), going))
    await turns(9)
    going.is_gone = True
    storage.go_on.set()
    with pytest.raises(WaitedTooLong):
        await gone
    assert len((await first).activations) == 501
    await desk.close()


@in_a_loop
async def test_a_batch_is_reported_with_the_name_of_its_lane(storage: Observed) -> None:
    save_a_large_license(storage)
    names: list[str] = []
    desk = a_desk(storage, observe=lambda name, *_: names.append(name))
    for query in (
        validate(),
        FindLicenses(where=LicenseFilter(), after_id=0, limit=9),
        LookAtFeed(after_id=None),
        validate("large"),
    ):
        await desk.query(query)
    assert names == ["queries", "lists", "feed", "queries", "large"]
    await desk.close()


@in_a_loop
async def test_no_more_lists_feeds_and_large_licenses_wait_than_the_most(storage: Observed) -> None:
    save_a_large_license(storage)
    # A slow machine needs long for a thousand.
    desk = a_desk(storage, most_waiting=2000, answer_within=600)
    piece = FindLicenses(where=LicenseFilter(), after_id=0, limit=9)
    for query, most in ((piece, 64), (LookAtFeed(after_id=None), 1024), (validate("large"), 256)):
        storage.go_on.clear()
        calls = start_calls(*(desk.query(query) for _ in range(most + 16)))
        refused: list[asyncio.Task[Any]] = []
        # One may be read already.
        while len(refused) < 15:
            await asyncio.sleep(0.01)
            refused = [one for one in calls if one.done()]
        assert len(refused) < 17
        assert {type(one.exception()) for one in refused} == {QueueFull}
        assert (await desk.query(validate())).license.key == KEY
        storage.go_on.set()
        await asyncio.gather(*(one for one in calls if one not in refused))
    await desk.close()


@in_a_loop
async def test_a_database_that_vanished_is_told_to_each_caller_and_may_come_back(near: Observed) -> None:
    desk = a_desk(near)
    assert isinstance(near.inner, sqlite.SqliteStorage)
    near.inner.close()
    path = near.inner.path
    hidden = path.rename(path.with_suffix(".hidden"))
    outcomes = await results(desk.execute(activate()), desk.execute(activate()), desk.query(validate()))
    assert {type(one) for one in outcomes} == {StoreUnavailable}
    hidden.rename(path)
    assert (await desk.execute(activate())).license.times_activated == 1
    assert (await desk.query(validate())).license.times_activated == 1


@in_a_loop
async def test_what_nobody_thought_of_is_a_fault_for_each_caller_and_the_desk_goes_on(
    storage: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Executor):
        def execute(self, commands: Sequence[Command], *, wait: float | None = None) -> list[Outcome]:
            raise RuntimeError("internals")

        def query(self, queries: Sequence[Query]) -> list[Outcome]:
            raise RuntimeError("internals")

    desk = Desk(Broken(storage.inner, make_registry), most_waiting=9)
    for _ in range(2):
        outcomes = await results(
            desk.execute(activate()), desk.execute(purge_idempotency_records(LATER)), desk.query(validate())
        )
        assert [type(one) for one in outcomes] == [Fault, Fault, Fault]
        assert {str(one) for one in outcomes} == {"RuntimeError"}
    assert {(one.name, one.message) for one in caplog.records} == {
        ("keywright.engine.lane", "the desk could not serve a batch")
    }
    assert "RuntimeError: internals" in caplog.text
    await desk.close()


def test_every_step_of_a_job_costs_a_step() -> None:
    assert {one.cost for one in JobStep.__subclasses__()} == {Cost.STEP}
