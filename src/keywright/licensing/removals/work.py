"""The removals by customers that a batch of commands needs or adds; those by their programs count as well."""

from collections.abc import Iterable, Sequence, Set
from datetime import datetime, timedelta

from keywright.db.transaction import WriteTransaction
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.removals import store
from keywright.licensing.removals.store import Outdated


class RemovalWork:
    """When customers freed devices of licenses. The licenses are locked before anything is loaded here."""

    def __init__(self, tx: WriteTransaction) -> None:
        self._tx = tx
        self._removed: dict[int, list[datetime]] = {}
        #: By license and activation: those that this batch adds.
        self._added: dict[tuple[int, int], datetime] = {}
        #: By license: which removals do not count any more.
        self._outdated: dict[int, Outdated] = {}

    def load(self, license_ids: Iterable[int]) -> None:
        """Load the removals of these licenses."""
        self._removed = store.list_removals(self._tx, license_ids)

    def list_removals(self, license: License) -> Sequence[datetime]:
        """When customers freed devices of a license, as far back as its terms count."""
        return self._removed.get(license.id, ())

    def add(self, license: License, activation_id: int, now: datetime) -> None:
        """Keep that a customer or their program has freed a device; only where the terms count that."""
        allowance = terms_of(license).portal_removals
        if allowance is not None and allowance.count:
            self._removed.setdefault(license.id, []).append(now)
            self._added[license.id, activation_id] = now
            self._outdated[license.id] = Outdated(now - timedelta(days=allowance.per_days), allowance.count)

    def save(self, deleted: Set[int]) -> None:
        """Write the new removals, but those of deleted licenses."""
        added = [(id, at, number) for (id, number), at in self._added.items() if id not in deleted]
        if added:
            store.save_removals(self._tx, added, self._outdated)
