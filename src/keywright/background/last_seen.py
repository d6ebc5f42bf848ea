"""Remember when licenses were validated and activations were seen, and save it every few minutes, so that a
call needs no commit for it.
"""

import asyncio
from itertools import islice

from keywright.background.loops import ORIGIN, read_clock
from keywright.core.command import Context
from keywright.core.errors import KeywrightError
from keywright.engine.desk import Desk
from keywright.licensing.activations.model import SaveLastSeen

#: The time between two saves, in seconds.
_SAVE_INTERVAL = 300.0
#: The most licenses and activations that are remembered between two saves; others are ignored until the next
#: interval.
MAX_REMEMBERED = 100_000
#: The most rows in one transaction.
_MAX_ROWS = 1_000


class LastSeen:
    """When licenses and activations were last seen since the last save; only existing ones take space."""

    __slots__ = ("_seen", "_versions")

    def __init__(self) -> None:
        #: The new versions of activations whose version has changed.
        self._versions: dict[tuple[int, int], str] = {}
        #: In seconds since 1970, by license and activation; activation 0 is a validation of the license.
        self._seen: dict[tuple[int, int], int] = {}

    def see(
        self,
        license_id: int,
        activation_id: int | None,
        now: float,
        *,
        is_validation: bool,
        version: str | None = None,
    ) -> None:
        """Remember an activation, with its version if that has changed, and the license if it was validated.
        This is part of every call of a program, and must be very fast.
        """
        seen, seconds = self._seen, int(now)
        if len(seen) < MAX_REMEMBERED or (license_id, activation_id or 0) in seen:
            if is_validation:
                seen[license_id, 0] = seconds
            if activation_id is not None:
                seen[license_id, activation_id] = seconds
                if version is not None:
                    self._versions[license_id, activation_id] = version

    def take(self) -> list[SaveLastSeen]:
        """Return the commands that save everything, and forget it."""
        seen, self._seen = iter(self._seen.items()), {}
        versions, self._versions = self._versions, {}
        context = Context(read_clock(), ORIGIN)
        commands = []
        while some := dict(islice(seen, _MAX_ROWS)):
            new = {place: versions[place] for place in some.keys() & versions.keys()}
            commands.append(SaveLastSeen(context=context, seen=some, versions=new))
        return commands


async def save_last_seen(desk: Desk, last_seen: LastSeen) -> None:
    """Save every few minutes, and once more when this is cancelled."""
    try:
        while True:
            await asyncio.sleep(_SAVE_INTERVAL)
            await _save(desk, last_seen)
    finally:
        await _save(desk, last_seen)


async def _save(desk: Desk, last_seen: LastSeen) -> None:
    for command in last_seen.take():
        try:
            await desk.execute(command)
        except KeywrightError:
            # Not retried: programs call again soon.
            continue
