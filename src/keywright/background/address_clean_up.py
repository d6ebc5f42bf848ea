"""Delete old IP addresses and user agents from activations and events, in small steps."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from keywright.background.loops import ORIGIN
from keywright.core.command import Command, Context
from keywright.db import ReadTransaction
from keywright.maintenance import personal_data, personal_data_store
from keywright.maintenance.tasks import PurgeAddresses

Answer = TypeVar("Answer")

#: The most batches of each table that one call processes.
_MAX_PIECES = 20
#: The time between two passes over all activations.
_INTERVAL = timedelta(hours=12)
_PAUSE = 0.01
_FIRST: personal_data_store.Place = (0, "")


#: Executes a command.
Change = Callable[[Command], Awaitable[Any]]


class Ask(Protocol):
    """Reads from the database, outside the event loop."""

    async def __call__(self, question: Callable[[ReadTransaction], Answer], /) -> Answer:
        """Run the read, and return its result."""


class AddressCleanUp:
    """Deletes addresses that are older than the number of days that ``find_days`` returns; 0 keeps them.

    The age has no index, which would slow down every activation. So each pass reads all activations in the
    order of the table, and the next pass starts hours later.
    """

    def __init__(self, ask: Ask, change: Change, find_days: Callable[[], int]) -> None:
        self._ask = ask
        self._change = change
        self._find_days = find_days
        self._after = _FIRST
        self._pauses_until: datetime | None = None

    async def delete_some(self, now: datetime) -> None:
        """Process the next batches of both tables: delete the old addresses in them."""
        days = self._find_days()
        if not days:
            return
        before = now - timedelta(days=days)
        await self._clean_events(now, before)
        # The clock may have been set back since the last pass.
        if self._pauses_until is None or not now < self._pauses_until <= now + _INTERVAL:
            await self._clean_activations(now, before)

    async def _clean_events(self, now: datetime, before: datetime) -> None:
        for _ in range(_MAX_PIECES):
            if not await self._ask(partial(personal_data_store.has_old_events, before=before)):
                return
            await self._change(PurgeAddresses(context=Context(now, ORIGIN), before=before))
            await asyncio.sleep(_PAUSE)

    async def _clean_activations(self, now: datetime, before: datetime) -> None:
        for _ in range(_MAX_PIECES):
            places = await self._ask(
                partial(
                    personal_data_store.find_old_places,
                    before=before,
                    after=self._after,
                    limit=personal_data.AT_ONCE,
                )
            )
            if places.found:
                found = tuple(places.found)
                await self._change(PurgeAddresses(context=Context(now, ORIGIN), before=before, places=found))
            if places.after is None:
                self._after, self._pauses_until = _FIRST, now + _INTERVAL
                # Once per pass even if nothing is old: the command also clears addresses of refused calls.
                await self._change(PurgeAddresses(context=Context(now, ORIGIN), before=before))
                return
            self._after = places.after
            await asyncio.sleep(_PAUSE)
