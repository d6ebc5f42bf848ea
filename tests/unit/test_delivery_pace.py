"""Deliveries start at an even rate, which is lower while calls wait. Slow machines only make this take
longer.
"""

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


def test_fewer_begin_while_calls_wait_that_are_not_their_own() -> None:
    pace, own = Pace(lambda: 1), Pace(lambda: 1)
    own.own_commands = 1
    for _ in range(50):
        pace.look()
        own.look()
    assert (pace.is_busy, own.is_busy) == (True, False)
    assert time_turns(pace, 21) >= 20 / 230 - 0.02
