"""The meters that a batch of commands uses: loaded once, counted in memory, saved once."""

from collections.abc import Collection, Iterable
from datetime import datetime

from keywright.db.transaction import WriteTransaction
from keywright.licensing.usage import store
from keywright.licensing.usage.model import MeterUsage
from keywright.licensing.usage.store import MeterName, PeriodName


class UsageWork:
    """The usage of the meters of a batch."""

    def __init__(self, tx: WriteTransaction) -> None:
        self._tx = tx
        #: In the newest period of each meter: as it is now; as it was loaded.
        self._usage: dict[MeterName, MeterUsage] = {}
        self._stored: dict[MeterName, MeterUsage] = {}
        #: In periods from before that: as it is now; what of it changed.
        self._past: dict[PeriodName, MeterUsage] = {}
        self._changed: dict[PeriodName, MeterUsage] = {}

    def load(self, meters: Iterable[MeterName], moments: Collection[datetime]) -> None:
        """Load the usage of these meters, which is counted at these moments; their licenses are locked."""
        # No database needs to be asked for a text that none can hold.
        possible = {one for one in meters if "\0" not in one[1]}
        self._stored = store.find_usage(self._tx, possible) if possible else {}
        self._usage = dict(self._stored)
        self._past = store.find_past(self._tx, self._stored.values(), moments)

    def find_usage(self, license_id: int, meter: str, period: datetime) -> MeterUsage | None:
        """The usage of a meter in the period with this first second, of a license that is new or was loaded;
        or else that of its newest period. None before the first.
        """
        return self._past.get((license_id, meter, period)) or self._usage.get((license_id, meter))

    def has_any(self, license_id: int) -> bool:
        """Whether any meter of the license was used."""
        return any(one[0] == license_id for one in self._usage) or bool(
            store.list_usage(self._tx, [license_id])
        )

    def set_usage(self, usage: MeterUsage, now: datetime) -> None:
        """The usage of a meter in its new state. That of the period before is kept; and where a clock was
        ahead, the newest one stays the newest.
        """
        name = usage.license_id, usage.meter
        newest = self._usage.get(name, usage)
        past = usage if newest.period_start > now else newest
        if usage.period_start != newest.period_start:
            self._past[*name, past.period_start] = self._changed[*name, past.period_start] = past
        if past is newest:
            self._usage[name] = usage

    def delete_license(self, license_id: int) -> None:
        """Forget the usage of a license that is deleted."""
        self._usage = {name: one for name, one in self._usage.items() if name[0] != license_id}

    def save(self) -> None:
        """Write what changed."""
        new = [one for name, one in self._usage.items() if name not in self._stored]
        changed = [
            one for name, one in self._usage.items() if name in self._stored and one != self._stored[name]
        ]
        if new:
            store.save_new_usage(self._tx, new)
        if changed:
            store.save_usage(self._tx, changed)
        if self._changed:
            store.save_past(self._tx, self._changed.values())
