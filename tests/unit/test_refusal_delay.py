"""The delay of responses to callers that exceed a limit."""

import asyncio

from keywright.http.middleware.sending import MAX_DELAYED, RefusalDelay


def test_answers_to_limited_callers_are_delayed_up_to_a_maximum_at_once() -> None:
    async def refuse(times: int) -> tuple[int, bool]:
        delay = RefusalDelay()
        waiting = [asyncio.create_task(delay.wait()) for _ in range(times)]
        await asyncio.sleep(0)
        not_delayed = sum(one.done() for one in waiting)
        await asyncio.gather(*waiting)
        last = asyncio.create_task(delay.wait())
        await asyncio.sleep(0)
        is_delayed = not last.done()
        await last
        return not_delayed, is_delayed

    assert asyncio.run(refuse(MAX_DELAYED + 44)) == (44, True)
