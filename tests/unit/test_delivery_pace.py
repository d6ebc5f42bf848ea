"""Deliveries begin evenly, and fewer while calls wait. On a slow machine these only take longer."""

import asyncio
from time import monotonic

from keywright.background.deliveries import Pace


def time_turns(pace: Pace, turns: int) -> float:
    async def take_all() -> None:
        await asyncio.gather(*(pace.wait() for _ in range(turns)))

    began = monotonic()
    asyncio.run(take_all())
    return monotonic() - began


def test_deliveries_begin_over_time() -> None:
    assert time_turns(Pace(lambda: 0), 101) >= 100 / 500 - 0.02


def test_fewer_begin_while_calls_wait() -> None:
    pace = Pace(lambda: 1)
    for _ in range(50):
        pace.look()
    assert pace.is_busy
    assert time_turns(pace, 21) >= 20 / 230 - 0.02


def test_commands_of_deliveries_are_no_calls() -> None:
    pace = Pace(lambda: 1)
    pace.own_commands = 1
    for _ in range(50):
        pace.look()
    assert not pace.is_busy
