"""Forgets, a little at a time, where calls of long ago came from."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from keywright.core.command import Command, Origin
from keywright.db import ReadTransaction
from keywright.maintenance import personal_data
from keywright.maintenance.commands import PurgeAddresses

Answer = TypeVar("Answer")

#: How many pieces of either table are looked at in a row.
_PIECES = 20
#: How long to rest after all places have been looked at.
_REST = timedelta(hours=12)
_PAUSE = 0.01
_FIRST: personal_data.Place = (0, "")
_ORIGIN = Origin("keywright", "", "")


class Asking(Protocol):
    """Has a question answered, elsewhere than on the event loop."""

    async def __call__(self, question: Callable[[ReadTransaction], Answer], /) -> Answer:
        """The answer."""


class AddressCleanUp:
    """The commands that forget addresses of activations and events, ``keep_days`` after; 0 is never.

    No index leads to what is old, which every activation would pay for: all places are looked at, in the
    order of the table, and from the beginning again some hours after the last one.
    """

    def __init__(self, ask: Asking, change: Callable[[Command], Awaitable[Any]], keep_days: int) -> None:
        self._ask = ask
        self._change = change
        self._keep = timedelta(days=keep_days)
        self._after = _FIRST
        self._rests_until: datetime | None = None

    async def forget_some(self, now: datetime) -> None:
        """Look at the next pieces of both tables."""
        if not self._keep:
            return
        before = now - self._keep
        await self._forget_events(now, before)
        # Also where the clock was set back meanwhile.
        if self._rests_until is None or not now < self._rests_until <= now + _REST:
            await self._forget_places(now, before)

    async def _forget_events(self, now: datetime, before: datetime) -> None:
        for _ in range(_PIECES):
            if not await self._ask(partial(personal_data.has_old_events, before=before)):
                return
            await self._change(PurgeAddresses(now=now, origin=_ORIGIN, before=before))
            await asyncio.sleep(_PAUSE)

    async def _forget_places(self, now: datetime, before: datetime) -> None:
        for _ in range(_PIECES):
            places = await self._ask(
                partial(
                    personal_data.find_old_places,
                    before=before,
                    after=self._after,
                    limit=personal_data.AT_ONCE,
                )
            )
            if places.found:
                found = tuple(places.found)
                await self._change(PurgeAddresses(now=now, origin=_ORIGIN, before=before, places=found))
            if places.after is None:
                self._after, self._rests_until = _FIRST, now + _REST
                return
            self._after = places.after
            await asyncio.sleep(_PAUSE)
