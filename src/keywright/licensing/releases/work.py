"""The releases by customers that a batch of commands needs."""

from collections.abc import Iterable, Sequence, Set
from datetime import datetime, timedelta

from keywright.db.transaction import WriteTransaction
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.releases import store


class ReleaseWork:
    """When customers freed devices of licenses. The licenses are locked before anything is loaded here."""

    def __init__(self, tx: WriteTransaction) -> None:
        self._tx = tx
        self._released: dict[int, list[datetime]] = {}
        #: By license and activation: those that this batch adds.
        self._added: dict[tuple[int, int], datetime] = {}
        #: By license: until when releases do not count any more.
        self._old_until: dict[int, datetime] = {}

    def load(self, license_ids: Iterable[int]) -> None:
        """Load the releases of these licenses."""
        self._released = store.list_releases(self._tx, license_ids)

    def list_releases(self, license: License) -> Sequence[datetime]:
        """When customers freed devices of a license, as far back as its terms count."""
        return self._released.get(license.id, ())

    def add(self, license: License, activation_id: int, now: datetime) -> None:
        """Keep that a customer has freed a device; only where the terms count that."""
        allowance = terms_of(license).portal_releases
        if allowance is not None:
            self._released.setdefault(license.id, []).append(now)
            self._added[license.id, activation_id] = now
            self._old_until[license.id] = now - timedelta(days=allowance.per_days)

    def save(self, deleted: Set[int]) -> None:
        """Write the new releases, but those of deleted licenses."""
        added = [(id, at, number) for (id, number), at in self._added.items() if id not in deleted]
        if added:
            store.save_releases(self._tx, added, self._old_until)
