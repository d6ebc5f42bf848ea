"""What a server process does by itself: it counts in memory, keeps what it has counted now and then, and lets
the search follow the events while nobody is kept waiting by that.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from keywright.background.projector import follow
from keywright.core.command import Origin
from keywright.core.errors import KeywrightError
from keywright.engine.desk import Desk
from keywright.search.commands import SaveCounters

#: The most license keys that are counted between two times that counts are kept.
_MOST_KEYS = 1_000
#: How often counts are kept, in seconds.
_KEEP_EVERY = 10.0
_ORIGIN = Origin("keywright", "", "")


class Counters:
    """What was counted since it was last kept. To count costs next to nothing."""

    __slots__ = ("calls", "forwarded_blindly", "refused", "used_api_keys", "validations")

    def __init__(self) -> None:
        #: Calls of the interface since the process began; the administration pages look at it.
        self.calls = 0
        #: Calls through a proxy that is not trusted.
        self.forwarded_blindly = 0
        #: License keys that were reported.
        self.validations = 0
        #: How often there was no free place, by license key.
        self.refused: dict[str, int] = {}
        #: When an API key, by number, was used last.
        self.used_api_keys: dict[int, datetime] = {}

    def refuse(self, key: str, times: int = 1) -> None:
        """There was no free place. Of too many keys, those that come later are not counted."""
        before = self.refused.get(key, 0)
        if before or len(self.refused) < _MOST_KEYS:
            self.refused[key] = before + times

    def take(self) -> SaveCounters | None:
        """What was counted, and begin anew; None when that is nothing."""
        if not (self.validations or self.refused or self.used_api_keys or self.forwarded_blindly):
            return None
        command = SaveCounters(
            now=_now(),
            origin=_ORIGIN,
            validations=self.validations,
            refused=self.refused,
            used_api_keys=self.used_api_keys,
            forwarded_blindly=self.forwarded_blindly,
        )
        self.validations, self.refused, self.used_api_keys, self.forwarded_blindly = 0, {}, {}, 0
        return command

    def give_back(self, command: SaveCounters) -> None:
        """It was not kept: count it again."""
        self.validations += command.validations
        self.forwarded_blindly += command.forwarded_blindly
        for key, times in command.refused.items():
            self.refuse(key, times)
        self.used_api_keys = {**command.used_api_keys, **self.used_api_keys}


@asynccontextmanager
async def looked_after(desk: Desk, tallies: Counters) -> AsyncIterator[None]:
    """While the block runs, counts are kept and events followed; at its end, what was counted is kept."""
    tasks = [asyncio.create_task(_keep(desk, tallies)), asyncio.create_task(follow(desk))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await _kept(desk, tallies)


async def _keep(desk: Desk, tallies: Counters) -> None:
    while True:
        await asyncio.sleep(_KEEP_EVERY)
        await _kept(desk, tallies)


async def _kept(desk: Desk, tallies: Counters) -> None:
    """Keep what was counted, or count it again: the database may be there the next time."""
    command = tallies.take()
    if command is None:
        return
    try:
        await desk.execute(command)
    except KeywrightError:
        tallies.give_back(command)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
