"""Count frequent occurrences in memory, and save the counts every few seconds."""

import asyncio
from datetime import datetime

from keywright.background.last_seen import LastSeen
from keywright.background.loops import ORIGIN, read_clock
from keywright.background.refusals import Refusals
from keywright.core.command import Context
from keywright.core.errors import FateUnknown, KeywrightError
from keywright.engine.desk import Desk
from keywright.search.statistics import SaveCounters

#: The most license keys that are counted between two saves.
_MAX_KEYS = 1_000
#: The most products whose validations are counted between two saves.
_MAX_PRODUCTS = 1_000
#: The most releases whose checks, offers or downloads are counted between two saves.
_MAX_RELEASES = 1_000
#: The time between two saves, in seconds.
_SAVE_INTERVAL = 10.0


class Counters:
    """The counts since the last save. Counting costs almost nothing."""

    __slots__ = (
        "calls",
        "forwarded_blindly",
        "last_seen",
        "product_validations",
        "refusals",
        "refused",
        "releases",
        "used_api_keys",
        "validations",
    )

    def __init__(self) -> None:
        #: API calls since the process started. They are not saved; the administration pages show them.
        self.calls = 0
        #: Calls through a proxy that is not trusted.
        self.forwarded_blindly = 0
        #: Successful validations.
        self.validations = 0
        #: Successful validations by product ID.
        self.product_validations: dict[int, int] = {}
        #: Activations and reactivations that were refused at the limit, by license key.
        self.refused: dict[str, int] = {}
        #: Checks by programs that have a release, its offers and its downloads, by the release's ID and kind.
        self.releases: dict[tuple[int, str], int] = {}
        #: The last use of each API key, by ID.
        self.used_api_keys: dict[int, datetime] = {}
        #: Saved separately, less often.
        self.last_seen = LastSeen()
        #: Saved separately.
        self.refusals = Refusals()

    def count_validation(self, product_id: int | None) -> None:
        """Count a validation of a license of this product. After 1,000 products, new ones are not counted."""
        self.validations += 1
        if product_id is not None:
            self._add_validations(product_id, 1)

    def _add_validations(self, product_id: int, times: int) -> None:
        counts = self.product_validations
        if product_id in counts or len(counts) < _MAX_PRODUCTS:
            counts[product_id] = counts.get(product_id, 0) + times

    def count_refusal(self, key: str, times: int = 1) -> None:
        """Count an activation that was refused at the limit. After 1,000 keys, new ones are not counted."""
        before = self.refused.get(key, 0)
        if before or len(self.refused) < _MAX_KEYS:
            self.refused[key] = before + times

    def count_release(self, release_id: int, what: str, times: int = 1) -> None:
        """Count a check, an offer or a download. After 1,000 releases, new ones are not counted."""
        counts, key = self.releases, (release_id, what)
        if key in counts or len(counts) < _MAX_RELEASES:
            counts[key] = counts.get(key, 0) + times

    def take(self) -> SaveCounters | None:
        """Return the command that saves the counts, and reset them; None if nothing was counted."""
        counted = (self.validations, self.refused, self.releases, self.used_api_keys, self.forwarded_blindly)
        if not any(counted):
            return None
        command = SaveCounters(
            context=Context(read_clock(), ORIGIN),
            validations=self.validations,
            product_validations=self.product_validations,
            refused=self.refused,
            releases=self.releases,
            used_api_keys=self.used_api_keys,
            forwarded_blindly=self.forwarded_blindly,
        )
        self.validations, self.product_validations, self.refused = 0, {}, {}
        self.releases, self.used_api_keys, self.forwarded_blindly = {}, {}, 0
        return command

    def give_back(self, command: SaveCounters) -> None:
        """Add counts that could not be saved."""
        self.validations += command.validations
        for product_id, times in command.product_validations.items():
            self._add_validations(product_id, times)
        self.forwarded_blindly += command.forwarded_blindly
        for key, times in command.refused.items():
            self.count_refusal(key, times)
        for (release_id, what), times in command.releases.items():
            self.count_release(release_id, what, times)
        self.used_api_keys = {**command.used_api_keys, **self.used_api_keys}


async def save_counters(desk: Desk, counters: Counters) -> None:
    """Save the counts every few seconds, and once more when this is cancelled."""
    try:
        while True:
            await asyncio.sleep(_SAVE_INTERVAL)
            await _save(desk, counters)
    finally:
        await _save(desk, counters)


async def _save(desk: Desk, counters: Counters) -> None:
    command = counters.take()
    if command is None:
        return
    try:
        await desk.execute(command)
    except FateUnknown:
        # They may have been saved: losing counts is better than counting twice.
        counters.used_api_keys = {**command.used_api_keys, **counters.used_api_keys}
    except KeywrightError:
        # The database may be available the next time.
        counters.give_back(command)
