"""Many callers at one desk, for few places: each place is given once, and its answer tells its number."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import uvloop

from keywright.core.errors import LimitReached
from keywright.db import open_storage
from keywright.engine.desk import Desk
from keywright.registry import open_executor
from tests.concurrency.desks import a_url
from tests.makers import KEY_RING, activate, create, validate

LIMIT = 5
KEYS = [f"key {n}" for n in range(20)]


async def places_got(desk: Desk, keys: list[str]) -> list[tuple[str, int]]:
    """Ask for a place on each license in turn; the places that this caller got."""
    got = []
    for key in keys:
        try:
            outcome = await desk.execute(activate(key))
        except LimitReached:
            continue
        place = outcome.license.times_activated
        got.append((key, place))
        assert (await desk.query(validate(key))).license.times_activated >= place
    return got


async def a_crowd(desk: Desk) -> list[tuple[str, int]]:
    """64 callers, each beginning with another license."""
    await asyncio.gather(*(desk.execute(create(key, LIMIT)) for key in KEYS))
    lists = [KEYS[n % 20 :] + KEYS[: n % 20] for n in range(64)]
    everything = await asyncio.gather(*(places_got(desk, keys) for keys in lists))
    await desk.close()
    return [one for got in everything for one in got]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_crowd_gets_every_place_once_and_no_more(
    database: str, tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> list[tuple[str, int]]:
        return await a_crowd(Desk(open_executor(storage), most_waiting=1000))

    with (
        a_url(database, tmp_path) as url,
        closing(open_storage(url, KEY_RING)) as storage,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        got = runner.run(main())
    assert sorted(got) == sorted((key, place) for key in KEYS for place in range(1, LIMIT + 1))
