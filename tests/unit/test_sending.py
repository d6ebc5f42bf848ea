"""How answers go out."""

import asyncio

from keywright.http.middleware.sending import MOST_DELAYED, RefusalDelay


def test_answers_to_limited_callers_are_delayed_but_only_so_many_at_a_time() -> None:
    async def ask(times: int) -> tuple[int, int]:
        brake = RefusalDelay()
        delays = [asyncio.create_task(brake.delay()) for _ in range(times)]
        await asyncio.sleep(0)
        at_once = sum(one.done() for one in delays)
        await asyncio.gather(*delays)
        last = asyncio.create_task(brake.delay())
        await asyncio.sleep(0)
        is_delayed = not last.done()
        await last
        return at_once, is_delayed

    assert asyncio.run(ask(MOST_DELAYED + 44)) == (44, True)
