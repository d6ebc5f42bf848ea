"""The same call, sent again while the first is still at the desk or after it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from keywright.core.errors import IdempotencyKeyBusy, LimitReached, QueueFull, RejectedByDatabase
from keywright.db import Storage, open_storage
from keywright.engine.idempotency import IdempotencyRecord
from keywright.registry import open_executor
from tests.concurrency.desks import Observed, a_desk, a_url, in_a_loop, results, start_calls, turns
from tests.makers import KEY_RING, a_retry, activate, create, create_policy, generate


@pytest.fixture
def storage(database: str, tmp_path: Path) -> Iterator[Storage]:
    with a_url(database, tmp_path) as url, closing(open_storage(url, KEY_RING)) as storage:
        open_executor(storage).execute([create(), create_policy()])
        yield storage


@in_a_loop
async def test_the_same_call_twice_at_once_is_busy_and_later_answered_from_memory(storage: Storage) -> None:
    desk = a_desk(storage)
    first, second, other = await results(
        desk.execute(activate(idempotency=a_retry("call"))),
        desk.execute(activate(idempotency=a_retry("call"))),
        desk.execute(activate(idempotency=a_retry("another call"))),
    )
    assert (first.license.times_activated, other.license.times_activated) == (1, 2)
    assert isinstance(second, IdempotencyKeyBusy)
    assert isinstance(await desk.execute(activate(idempotency=a_retry("call"))), IdempotencyRecord)


@in_a_loop
async def test_a_refused_call_is_no_longer_running(storage: Storage) -> None:
    desk = a_desk(storage)
    await desk.execute(create("full", 1))
    await desk.execute(activate("full"))
    with pytest.raises(LimitReached):
        await desk.execute(activate("full", idempotency=a_retry("call")))
    assert (await desk.execute(activate("full", idempotency=a_retry("call")))).status == 404
    with pytest.raises(RejectedByDatabase):
        await desk.execute(create("bad", order_id=2**63, idempotency=a_retry("bad")))
    with pytest.raises(RejectedByDatabase):
        await desk.execute(create("bad", order_id=2**63, idempotency=a_retry("bad")))


@in_a_loop
async def test_a_call_that_a_full_queue_refused_is_not_running(storage: Storage) -> None:
    desk = a_desk(storage, most_waiting=1)
    _, refused = await results(desk.execute(activate()), desk.execute(activate(idempotency=a_retry("call"))))
    assert isinstance(refused, QueueFull)
    assert (await desk.execute(activate(idempotency=a_retry("call")))).license.times_activated == 2


@in_a_loop
async def test_a_caller_that_went_away_while_it_was_decided_gets_the_first_answer_when_it_asks_again(
    storage: Storage,
) -> None:
    observed = Observed(storage)
    desk = a_desk(observed)
    observed.go_on.clear()
    # Long, so that it is decided aside on every database.
    call = generate(1, 1, idempotency=a_retry("call"))
    (gone,) = start_calls(desk.execute(call))
    await turns(5)
    gone.cancel()
    (again,) = start_calls(desk.execute(call))
    await turns(5)
    observed.go_on.set()
    assert isinstance(await again, IdempotencyRecord)
    await desk.close()


@in_a_loop
async def test_a_caller_that_went_away_while_it_waited_is_decided_when_it_asks_again(
    storage: Storage,
) -> None:
    desk = a_desk(storage)
    (gone,) = start_calls(desk.execute(activate(idempotency=a_retry("call"))))
    await turns(1)
    gone.cancel()
    await turns(1)
    assert (await desk.execute(activate(idempotency=a_retry("call")))).license.times_activated == 1
