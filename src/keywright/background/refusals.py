"""Remember which calls about licenses were refused, and save them every few seconds."""

import asyncio
from itertools import islice

from keywright.background.loops import ORIGIN, read_clock
from keywright.core.command import Context
from keywright.core.errors import KeywrightError, Unavailable
from keywright.engine.desk import Desk
from keywright.licensing.refusals import MAX_KEPT, RefusedCall, SaveRefusals, combine

#: The time between two saves, in seconds.
_SAVE_INTERVAL = 10.0
#: The most license keys whose refused calls are remembered between two saves.
MAX_KEYS = 500
#: The most license keys in one transaction.
_MAX_SAVED = 100

_Subject = tuple[str | None, ...]


class Refusals:
    """Calls that were refused since the last save: at most 20 for each of 500 licenses."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[str, dict[_Subject, RefusedCall]] = {}

    def see(self, key: str, call: RefusedCall) -> None:
        """Remember a refused call about an existing license, by its key."""
        if key not in self._refused and len(self._refused) >= MAX_KEYS:
            return
        calls, subject = self._refused.setdefault(key, {}), call.subject
        call = combine(call, calls.pop(subject, None))
        if len(calls) >= MAX_KEPT:
            # Drop the oldest one.
            del calls[next(iter(calls))]
        calls[subject] = call

    def take(self) -> list[SaveRefusals]:
        """Return the commands that save all calls, and forget them."""
        refused, self._refused = iter(self._refused.items()), {}
        context = Context(read_clock(), ORIGIN)
        commands = []
        while some := dict(islice(refused, _MAX_SAVED)):
            calls = {key: tuple(by_subject.values()) for key, by_subject in some.items()}
            commands.append(SaveRefusals(context=context, refused=calls))
        return commands

    def give_back(self, command: SaveRefusals) -> None:
        """Remember calls again that could not be saved, if there is room."""
        for key, calls in command.refused.items():
            for one in calls:
                self.see(key, one)


async def save_refusals(desk: Desk, refusals: Refusals) -> None:
    """Save every few seconds, and once more when this is cancelled."""
    try:
        while True:
            await asyncio.sleep(_SAVE_INTERVAL)
            await _save(desk, refusals)
    finally:
        await _save(desk, refusals)


async def _save(desk: Desk, refusals: Refusals) -> None:
    for command in refusals.take():
        if not await _is_dealt_with(desk, refusals, command):
            # Save each key's calls separately, so that one bad key does not lose those of the others.
            for key, calls in command.refused.items():
                alone = SaveRefusals(context=command.context, refused={key: calls})
                await _is_dealt_with(desk, refusals, alone)


async def _is_dealt_with(desk: Desk, refusals: Refusals, command: SaveRefusals) -> bool:
    """Save the calls. Return True if they are saved or kept for the next save, False if they are rejected."""
    try:
        await desk.execute(command)
    except Unavailable:
        # The database may be available the next time.
        refusals.give_back(command)
    except KeywrightError:
        return False
    return True
