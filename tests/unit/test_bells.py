"""The bells that wake loops in the background."""

import asyncio

from keywright.background.queue import Bell


async def _is_ended(turns: int) -> bool:
    """Cancel a wait this many turns of the event loop after the bell rang; return whether it had ended."""
    bell = Bell()
    waiting = asyncio.create_task(bell.wait())
    await asyncio.sleep(0.001)
    bell.ring()
    for _ in range(turns):
        await asyncio.sleep(0)
    was_over = not waiting.cancel()
    await asyncio.wait([waiting])
    return was_over or waiting.cancelled()


def test_a_loop_that_is_cancelled_as_its_bell_rings_ends() -> None:
    assert [turns for turns in range(8) if not asyncio.run(_is_ended(turns))] == []
