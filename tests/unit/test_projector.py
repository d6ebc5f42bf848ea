"""The size of the projector's steps, the pauses between them, and when events are settled."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest

from keywright.background import projector
from keywright.background.projector import (
    _BUSY,
    _IDLE,
    _MIN_EVENTS,
    _RECENT,
    _SHARE,
    _SHARE_WHEN_BUSY,
    _SHARE_WHEN_IDLE,
    _STEP_SECONDS,
    _find_share,
    _next_limit,
    _pause_after,
    _TimedCall,
)
from keywright.background.queue import Bell
from keywright.core.command import Command
from keywright.core.errors import StoreUnavailable
from keywright.engine.desk import Desk
from keywright.events.model import SettleEvents
from keywright.events.store import UNSETTLED
from keywright.search.projector import MAX_EVENTS, Lag, Projected
from tests.makers import NOW

BEHIND, UP_TO_DATE = Lag(5_000, None, 1.0), Lag(0, None, 1.0)
Steps = Iterator[tuple[int, float, float]]


def steps(seconds_of: Callable[[int], float], limit: int = _MIN_EVENTS) -> Steps:
    """Yield the limit, time and pause of each step until no events are left; ``seconds_of`` maps limits to
    times.
    """
    while True:
        projected, seconds = Projected(limit, BEHIND), seconds_of(limit)
        yield limit, seconds, _pause_after(projected, seconds, _SHARE)
        limit = _next_limit(limit, projected, seconds)


def share_of(steps: Steps) -> float:
    taken = list(islice(steps, 200))
    busy = sum(seconds for _, seconds, _ in taken)
    return busy / (busy + sum(pause for _, _, pause in taken))


def fast(limit: int) -> float:
    """The time of a step: 3 ms for the commit, and 0.1 ms per event."""
    return 0.003 + 0.0001 * limit


def slow(limit: int) -> float:
    return 0.1 + 0.01 * limit


@pytest.mark.parametrize("seconds_of", [fast, slow])
def test_steps_take_the_same_part_of_the_time_however_slow(seconds_of: Callable[[int], float]) -> None:
    assert share_of(steps(seconds_of)) == pytest.approx(_SHARE)
    # A control: with pauses as long as the steps, the projector uses half of the time.
    assert share_of((limit, seconds, seconds) for limit, seconds, _ in steps(seconds_of)) == 0.5


@pytest.mark.parametrize("first", [_MIN_EVENTS, MAX_EVENTS])
def test_a_step_gets_as_many_events_as_it_can_project_in_its_time(first: int) -> None:
    limit, seconds, pause = list(islice(steps(fast, first), 20))[-1]
    assert seconds == pytest.approx(_STEP_SECONDS, rel=0.05)
    assert limit / (seconds + pause) > 500


def test_a_slow_step_makes_the_next_one_smaller_and_a_quick_and_full_one_at_most_doubles_it() -> None:
    limits = [limit for limit, _, _ in islice(steps(slow, MAX_EVENTS), 5)]
    assert limits == [MAX_EVENTS, *[_MIN_EVENTS] * 4]
    assert [limit for limit, _, _ in islice(steps(lambda _: 0.0001), 4)] == [100, 200, 400, MAX_EVENTS]
    assert _next_limit(200, Projected(3, UP_TO_DATE), 0.004) == 200
    # A control: a full step does.
    assert _next_limit(200, Projected(200, UP_TO_DATE), 0.004) == 400
    assert _next_limit(400, Projected(300, UP_TO_DATE), 0.04) == 150


@pytest.mark.parametrize("projected", [Projected(100, UP_TO_DATE), Projected(0, BEHIND)])
def test_when_up_to_date_or_blocked_it_pauses_for_a_second_at_least(projected: Projected) -> None:
    assert _pause_after(projected, 0.01, _SHARE) == 1.0
    assert _pause_after(projected, 2.0, 0.1) == pytest.approx(18.0)


def test_a_busy_process_takes_less_time_for_steps_until_an_event_has_waited() -> None:
    recent, late = NOW - _RECENT + timedelta(seconds=1), NOW - _RECENT
    shares = {
        (_BUSY, recent): _SHARE_WHEN_BUSY,
        (_BUSY, late): _SHARE,
        # Nothing but data from before the projection.
        (_BUSY, None): _SHARE,
        (_BUSY - 0.1, recent): _SHARE,
        (_IDLE, late): _SHARE_WHEN_IDLE,
    }
    found = {(load, oldest): _find_share(load, Lag(9, oldest, 1.0), NOW) for load, oldest in shares}
    assert found == shares


def test_the_time_in_the_queue_does_not_count() -> None:
    call = _TimedCall()
    call._started -= 60
    assert call.seconds() >= 60
    call.is_begun = True
    assert call.seconds() < 30


# --- the loops ------------------------------------------------------------------------------------


class DeskOf(Desk):
    """A desk that returns these outcomes immediately; the last one ends the loop."""

    def __init__(self, *outcomes: Any, is_local: bool = False) -> None:
        self.outcomes = list(outcomes)
        self.commands: list[Command] = []
        self._local = is_local

    @property
    def is_local(self) -> bool:
        return self._local

    async def execute(self, command: Command, waiting_call: Any = None) -> Any:
        self.commands.append(command)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class QueueOf:
    """A queue that always rings immediately."""

    def __init__(self) -> None:
        self.questions: list[Any] = []

    def add_bell(self, question: Any) -> Bell:
        self.questions.append(question)

        class Ringing(Bell):
            async def wait(self, longest: float = 0.0) -> None:
                self.ring()
                await super().wait()

        return Ringing()


def run(loop: Callable[[Any, Any], Any], desk: DeskOf) -> QueueOf:
    async def run_it() -> QueueOf:
        queue = QueueOf()
        with suppress(asyncio.CancelledError):
            await loop(desk, queue)
        return queue

    return asyncio.run(run_it())


@pytest.mark.parametrize(("load", "share"), [(0.0, _SHARE_WHEN_IDLE), (2 * _IDLE, _SHARE)])
def test_a_process_that_does_nothing_else_takes_half_of_the_time(
    load: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``load`` is the share of a processor that the process used while the projector paused."""
    shares, used = [], [0.0]
    steps = [Projected(100, BEHIND)] * 20

    async def sleep(pause: float) -> None:
        used[0] += load * pause

    def pause_after(_projected: Projected, _seconds: float, share: float) -> float:
        shares.append(share)
        return 0.2

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(projector, "process_time", lambda: used[0])
    monkeypatch.setattr(projector, "_pause_after", pause_after)
    run(projector.project_events, DeskOf(*steps, asyncio.CancelledError()))
    assert shares[-1] == share


def test_what_is_settled_is_looked_for_until_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector, "_SETTLING_INTERVAL", 0.0)
    desk = DeskOf(False, False, True, StoreUnavailable("away"), True, asyncio.CancelledError())
    assert run(projector.settle_events, desk).questions == [UNSETTLED]
    assert desk.outcomes == []
    assert {type(one) for one in desk.commands} == {SettleEvents}


def test_nothing_has_to_be_settled_where_one_writes_at_a_time() -> None:
    assert run(projector.settle_events, DeskOf(is_local=True)).questions == []
