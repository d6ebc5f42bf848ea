"""The meters that a batch of commands uses: loaded once, counted in memory, saved once."""

from collections.abc import Iterable

from keywright.db.transaction import WriteTransaction
from keywright.licensing.usage import store
from keywright.licensing.usage.model import MeterUsage
from keywright.licensing.usage.store import MeterName


class UsageWork:
    """The usage of the meters of a batch."""

    def __init__(self, tx: WriteTransaction) -> None:
        self._tx = tx
        #: As it is now; as it was loaded.
        self._usage: dict[MeterName, MeterUsage] = {}
        self._stored: dict[MeterName, MeterUsage] = {}

    def load(self, meters: Iterable[MeterName]) -> None:
        """Load the usage of these meters; their licenses are locked."""
        # No database needs to be asked for a text that none can hold.
        possible = {one for one in meters if "\0" not in one[1]}
        self._stored = store.find_usage(self._tx, possible) if possible else {}
        self._usage = dict(self._stored)

    def find_usage(self, license_id: int, meter: str) -> MeterUsage | None:
        """The usage of a meter of a license that is new or was loaded; None before the first."""
        return self._usage.get((license_id, meter))

    def has_any(self, license_id: int) -> bool:
        """Whether any meter of the license was used."""
        return any(one[0] == license_id for one in self._usage) or bool(
            store.list_usage(self._tx, [license_id])
        )

    def set_usage(self, usage: MeterUsage) -> None:
        """The usage of a meter in its new state."""
        self._usage[usage.license_id, usage.meter] = usage

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
